"""Calibrate a collection: fit statistics, decide space and mates, keep the result. What ``dragoman calibrate`` does."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from encoders.console import QUIET, Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.machine.placement import Device
from encoders.methods.vector_parts import VectorParts
from indexer.collection.settings import Settings
from indexer.ledger.database import require_writable
from onnx_export.models import taught_shares
from query.calibration import calibration_table
from query.calibration.calibration import BALANCE
from query.calibration.calibration_summary import Summary
from query.calibration.calibration_table import StoredCalibration
from query.calibration.comparison_space import PLAIN_SPACE, check_model
from query.calibration.lineage import cancel_abandoned_migration
from query.calibration_fitting.calibration_decision import Decision, decide, decide_by_judgements
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.language_statistics import draw_samples
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.query_encoder import encoders_with_methods, open_specified, query_encoder_spec


@dataclass(frozen=True)
class CalibrationReport:
    """The result of calibrating a collection.

    Attributes:
        stored: the new calibration, now active.
        taken_over: whether a person's or judgements' decisions about the previous calibration hold for the new one.
        lost: what the previous calibration ranked with and the new one does not: maps, or a common space; or nothing.
        taught: share of the sampled documents that taught an encoder, by the encoder's name.
    """

    stored: StoredCalibration
    taken_over: bool
    lost: Literal["", "maps", "a common space"]
    taught: Mapping[str, float] = field(default_factory=dict)


def calibrate(
    name: str,
    settings: Settings | None = None,
    request: CalibrationRequest | None = None,
    *,
    device: Device = "auto",
    console: Console = QUIET,
) -> CalibrationReport:
    """Calibrate a collection, and make the result active; a migration stays, and so does what a person gave before.

    Raises BadInput: the collection is missing or empty, or has migrated and the request is for its own encoder.
    """
    request = request or CalibrationRequest()
    with OpenCollection.open(name, settings or Settings.read(), device, console) as opened:
        stored, previous = opened.stored_calibration(), opened.calibration()
        migrated_to = query_encoder_spec(previous)
        if migrated_to and (request.maps or request.judged):
            refused = "these maps are for its own encoder's queries"
            raise BadInput(
                f"{name} has migrated to {migrated_to.encoder}, and "
                f"{refused if request.maps else 'nothing is decided by judgements there'}; "
                f"leave the migration first: dragoman rollback -c {name}"
            )
        if stored and (migrated_to or stored.summary.is_earlier):
            request = request.after(stored, previous)
        return calibrate_open(opened, request)


def calibrate_open(opened: OpenCollection, request: CalibrationRequest) -> CalibrationReport:
    """``calibrate`` an open collection, by the request alone."""
    require_writable(opened.engine, calibration_table.CalibrationRow)
    return keep(opened, fit(opened, request), taken_over=request.taken_over)


def fit(opened: OpenCollection, request: CalibrationRequest, encoder: Encoder | None = None) -> Decision:
    """Fit a calibration and decide how to rank; ``encoder`` is that of queries, if it is loaded already."""
    spec, maps = opened.encoder.spec, request.maps
    if maps:
        check_model(maps, opened.collection.model, opened.collection.dim)
    if request.weights:  # refuse weights that don't fit, before anything is encoded
        VectorParts(VectorParts.of(spec).widths, request.weights)
    if encoder is None and maps and maps.query_encoder:
        encoder = open_specified(opened.collection, maps.query_encoder, opened.device, opened.console)
    samples = draw_samples(
        opened.store,
        encoder or opened.encoder,
        document_spec=spec,
        logged_queries=request.logged_queries,
        encoded_queries=request.encoded_queries,
        seed=request.seed,
        console=opened.console,
    )
    with opened.console.waiting("deciding how to rank"):
        decision = decide(
            opened.store,
            samples,
            spec.model,
            balance=BALANCE if request.balance is None else request.balance,
            weights=request.weights,
            maps=maps,
            seed=request.seed,
        )
    if request.judged:
        return decide_by_judgements(opened.store, opened.encoder, decision, request.judged, request.seed)
    if before := request.judged_before:
        space = PLAIN_SPACE if decision.common_space and not before.space.name else decision.calibration.space
        return decision.judged(replace(decision.calibration, mates=before.mates, space=space))
    return replace(decision, decided_by="you") if request.balance is not None or request.weights else decision


def keep(opened: OpenCollection, decision: Decision, *, taken_over: bool = False) -> CalibrationReport:
    """Make a calibration the active one."""
    fitted, previous = decision.calibration, opened.calibration()
    maps = fitted.space.maps_of_documents
    lost: Literal["", "maps", "a common space"] = ""
    if previous and previous.space.maps_of_documents and not maps:
        lost = "maps"
    elif previous and previous.space.name and not fitted.space.name:
        lost = "a common space"
    summary = Summary.of(
        fitted,
        decision.decided_by,
        mates=decision.mates,
        map=maps
        and {
            **maps.about,
            "unknown": sorted(lang for lang in fitted.languages if not maps.knows(lang)),
            "stands_in": maps.stands_in,
        },
        common_space=decision.common_space,
    )
    doc_ids = sorted({doc_id for of_lang in fitted.languages.values() for doc_id in of_lang.sources} - {""})
    taught = taught_shares(
        encoders_with_methods(opened.collection, fitted),
        lambda: [stamp.text_hash for stamp in opened.store.stamps(fitted.model, doc_ids).values()],
        opened.console,
    )
    stored = calibration_table.keep(opened.engine, opened.row or opened.collection, fitted, summary)
    cancel_abandoned_migration(opened.engine, opened.collection.name)
    return CalibrationReport(stored, taken_over, lost, taught)
