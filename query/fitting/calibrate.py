"""Calibrate a collection: fit statistics, decide space and mates, keep the result. What ``dragoman calibrate`` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from encoders.console import Console
from encoders.devices import Device
from encoders.errors import BadInput
from encoders.methods.vector_parts import VectorParts
from indexer.collection.settings import Settings
from indexer.ledger.database import require_writable
from onnx_export.models import taught_shares
from query.calibration import table as calibration_table
from query.calibration.calibration import BALANCE, Calibration
from query.calibration.lineage import cancel_abandoned_migration
from query.calibration.space import PLAIN_SPACE, check_model
from query.calibration.summary import MapSummary, Summary
from query.calibration.table import StoredCalibration
from query.fitting.decision import Decision, decide, decide_by_judgements
from query.fitting.drift import changed_hits
from query.fitting.open_collection import OpenCollection
from query.fitting.request import CalibrationRequest, InheritedInput
from query.fitting.statistics import CalibrationSamples, draw_samples
from query.ranking.query_encoder import encoders_with_methods, query_encoder_spec


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
    inherited: InheritedInput | None = None,
    device: Device = "auto",
    console: Console | None = None,
) -> CalibrationReport:
    """Calibrate a collection, and make the result the active calibration.

    Unless ``inherited`` is given, only a migration is inherited, and what a person gave an earlier version.

    Raises:
        BadInput: there is no such collection, it is empty, or it has migrated and the request is for its own encoder.
        DragomanError: store, database or encoder fail.
    """
    with OpenCollection.open(name, settings or Settings.read(), device, console) as opened:
        stored = None if inherited else calibration_table.active(opened.engine, opened.collection)
        if stored and stored.summary.is_earlier:
            inherited = InheritedInput.of(stored, opened.calibration())
        return calibrate_open(opened, request or CalibrationRequest(), inherited or InheritedInput())


def calibrate_open(opened: OpenCollection, request: CalibrationRequest, inherited: InheritedInput) -> CalibrationReport:
    """``calibrate`` an open collection."""
    require_writable(opened.engine, calibration_table.CalibrationRow)
    spec = opened.encoder.spec
    previous = opened.calibration()
    inherited = _with_migration(opened, previous, request, inherited)
    maps = request.maps or inherited.maps
    if maps:
        check_model(maps, opened.collection.model, opened.collection.dim)
    weights = request.weights or inherited.weights
    if weights:
        VectorParts(VectorParts.of(spec).widths, weights)  # refuses weights that don't fit, before anything is encoded
    samples = draw_samples(
        opened.store,
        opened.open_query_encoder(maps),
        document_spec=spec,
        logged_queries=request.logged_queries,
        encoded_queries=inherited.encoded_queries,
        seed=request.seed,
        console=opened.console,
    )
    if not any(moments.count for moments in samples.documents.values()):
        raise opened.empty()
    balance = request.balance if request.balance is not None else inherited.balance
    with opened.console.waiting("deciding how to rank"):
        decision = decide(
            opened.store,
            samples,
            spec.model,
            balance=BALANCE if balance is None else balance,
            weights=weights,
            maps=maps,
            seed=request.seed,
        )
    taken_over = request.balance is None and not request.judged and inherited.balance is not None
    if request.judged:
        decision = decide_by_judgements(opened.store, opened.encoder, decision, request.judged, request.seed)
    elif inherited.decided_by == "judgements" and taken_over:
        space = PLAIN_SPACE if decision.common_space and not inherited.has_space else decision.calibration.space
        decision = decision.judged(replace(decision.calibration, mates=inherited.mates, space=space))
    elif request.balance is not None or request.weights or inherited.decided_by == "you":
        decision = replace(decision, decided_by="you")
    return _keep(opened, previous, decision, samples, taken_over=taken_over)


def _keep(
    opened: OpenCollection,
    previous: Calibration | None,
    decision: Decision,
    samples: CalibrationSamples,
    *,
    taken_over: bool,
) -> CalibrationReport:
    """Make a calibration the active one, and measure its drift from the previous one."""
    name, fitted = opened.collection.name, decision.calibration
    comparable = previous is not None and query_encoder_spec(previous) == query_encoder_spec(fitted)
    changed = changed_hits(opened.store, previous, fitted) if previous and comparable else {}
    maps = fitted.space.maps_of_documents
    summary = Summary.of(
        fitted,
        decision.decided_by,
        few=samples.few(),
        drift={lang: float((counts > 0).mean()) for lang, counts in changed.items()},
        mates=decision.mates,
        maps=maps
        and MapSummary(maps.about, sorted(lang for lang in samples.documents if not maps.knows(lang)), maps.stands_in),
        common_space=decision.common_space,
    )
    doc_ids = sorted({doc_id for sources in samples.sources.values() for doc_id in sources} - {""})
    taught = taught_shares(
        encoders_with_methods(opened.collection, fitted),
        lambda: [stamp.text_hash for stamp in opened.store.stamps(fitted.model, doc_ids).values()],
        opened.console,
    )
    stored = calibration_table.keep(opened.engine, name, fitted, summary)
    cancel_abandoned_migration(opened.engine, name)
    return CalibrationReport(stored, taken_over, _lost(previous, fitted), taught)


def _lost(previous: Calibration | None, fitted: Calibration) -> Literal["", "maps", "a common space"]:
    """What the previous calibration ranked with and the new one does not."""
    if previous is None:
        return ""
    if previous.space.maps_of_documents:
        return "" if fitted.space.maps_of_documents else "maps"
    return "a common space" if previous.space.name and not fitted.space.name else ""


def _with_migration(
    opened: OpenCollection, previous: Calibration | None, request: CalibrationRequest, inherited: InheritedInput
) -> InheritedInput:
    """The inherited input, or that of the collection's migration: a new calibration does not end a migration.

    Raises:
        BadInput: the collection has migrated and the request is for queries by the collection's own encoder.
    """
    query_encoder, maps = query_encoder_spec(previous), request.maps or inherited.maps
    if query_encoder is None or (maps and maps.query_encoder):
        return inherited
    if maps or request.judged:
        name, refused = opened.collection.name, "these maps are for its own encoder's queries"
        raise BadInput(
            f"{name} has migrated to {query_encoder.encoder}, and "
            f"{refused if maps else 'nothing is decided by judgements there'}; "
            f"leave the migration first: dragoman rollback -c {name}"
        )
    stored = calibration_table.active(opened.engine, opened.collection)
    return InheritedInput.of(stored, previous) if stored else inherited
