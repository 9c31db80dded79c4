"""Calibrate a collection: decide how to rank, fit statistics, keep the result. What ``dragoman calibrate`` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from encoders.console import Console
from encoders.devices import Device
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from indexer.ledger.database import require_writable
from onnx_export.models import taught_shares
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import DEFAULT
from query.calibration.common_space import CommonSpaceCalibration
from query.calibration.lineage import cancel_abandoned_migration
from query.calibration.mapped_calibration import MappedCalibration, check_model
from query.calibration.margin import centring
from query.calibration.summary import CommonSpaceSummary, MapSummary, Summary
from query.calibration.table import StoredCalibration
from query.fitting.calibration_decision import Decision, check_choice, decide
from query.fitting.common_space import SAMPLE, LearntSpace, can_learn, learn_common_space
from query.fitting.drift import changed_hits
from query.fitting.mined_mates import mine_mates
from query.fitting.open_collection import OpenCollection
from query.fitting.request import CalibrationRequest, InheritedInput
from query.fitting.statistics import CalibrationSamples, draw_samples, fit_statistics
from query.ranking.query_encoder import encoders_with_methods, query_encoder_spec


@dataclass(frozen=True)
class CalibrationReport:
    """The result of calibrating a collection.

    Attributes:
        stored: the new calibration, now active.
        lost: what the previous calibration ranked with and the new one does not: maps, or a common space; or nothing.
        taught: share of the sampled documents that taught an encoder, by the encoder's name.
    """

    stored: StoredCalibration
    decision: Decision
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

    Only a migration is inherited unless ``inherited`` is given.

    Raises:
        BadInput: there is no such collection, it is empty, or it has migrated and the request is for its own encoder.
        DragomanError: store, database or encoder fail.
    """
    with OpenCollection.open(name, settings or Settings.read(), device, console) as opened:
        return calibrate_open(opened, request or CalibrationRequest(), inherited or InheritedInput())


def calibrate_open(opened: OpenCollection, request: CalibrationRequest, inherited: InheritedInput) -> CalibrationReport:
    """``calibrate`` an open collection."""
    require_writable(opened.engine, calibration_table.CalibrationRow)
    document_spec = opened.encoder.spec
    previous = opened.calibration()
    inherited = _with_migration(opened, previous, request, inherited)
    request = replace(request, maps=request.maps or inherited.maps)
    if request.maps:
        check_model(request.maps, opened.collection.model, opened.collection.dim)
    check_choice(request.choice or inherited.choice or DEFAULT, document_spec)
    samples = draw_samples(
        opened.store,
        opened.open_query_encoder(request.maps),
        document_spec=document_spec,
        logged_queries=request.logged_queries,
        encoded_queries=inherited.encoded_queries,
        seed=request.seed,
        console=opened.console,
    )
    if not any(moments.count for moments in samples.documents.values()):
        raise opened.empty()
    decision = decide(opened, samples, request, inherited)
    fitted = fit_statistics(samples, document_spec.model, rank=decision.choice.rank).with_choice(decision.choice)
    space = None
    if request.maps:
        fitted = MappedCalibration.on(fitted, request.maps)
    elif space := _common_space(opened, fitted, samples, request.seed):
        fitted = CommonSpaceCalibration.on(fitted, space.maps)
    return _keep(opened, previous, fitted, decision, samples, space)


def _common_space(
    opened: OpenCollection, fitted: Calibration, samples: CalibrationSamples, seed: int
) -> LearntSpace | None:
    """Maps learnt from the collection's mates; none without full centring, or where they don't help."""
    if centring(fitted.balance) < 1.0 or not can_learn(fitted):
        return None
    with opened.console.progress("learning a common space", 2, "steps") as advance:
        mined = mine_mates(opened.store, fitted, samples, SAMPLE, seed)
        advance(1)
        space = learn_common_space(opened.store, fitted, mined)
        advance(1)
        return space


def _keep(
    opened: OpenCollection,
    previous: Calibration | None,
    fitted: Calibration,
    decision: Decision,
    samples: CalibrationSamples,
    space: LearntSpace | None,
) -> CalibrationReport:
    """Make a calibration the active one, and measure its drift from the previous one."""
    name = opened.collection.name
    comparable = previous is not None and query_encoder_spec(previous) == query_encoder_spec(fitted)
    changed = changed_hits(opened.store, previous, fitted) if previous and comparable else {}
    drift = {lang: float((counts > 0).mean()) for lang, counts in changed.items()}
    summary = Summary.of(
        fitted,
        decision.decided_by,
        tried=decision.tried,
        few=samples.few(),
        drift=drift,
        separability=decision.separability,
        mates=decision.mates,
        maps=_map_summary(fitted, samples),
        common_space=space and CommonSpaceSummary(space.subjects, space.ridge, space.before, space.after),
    )
    taught = _taught(opened, fitted, samples)
    stored = calibration_table.keep(opened.engine, name, fitted, summary)
    cancel_abandoned_migration(opened.engine, name)
    return CalibrationReport(stored, decision, _lost(previous, fitted), taught)


def _taught(opened: OpenCollection, fitted: Calibration, samples: CalibrationSamples) -> dict[str, float]:
    """Share of the pseudo-queries' documents that taught the encoder of documents, and that of queries."""
    doc_ids = sorted({doc_id for sources in samples.sources.values() for doc_id in sources} - {""})

    def text_hashes() -> list[str]:
        return [stamp.text_hash for stamp in opened.store.stamps(opened.collection.model, doc_ids).values()]

    return taught_shares(encoders_with_methods(opened.collection, fitted), text_hashes, opened.console)


def _lost(previous: Calibration | None, fitted: Calibration) -> Literal["", "maps", "a common space"]:
    """What the previous calibration ranked with and the new one does not."""
    if isinstance(previous, MappedCalibration) and not isinstance(fitted, MappedCalibration):
        return "maps"
    had_space = isinstance(previous, CommonSpaceCalibration)
    return "a common space" if had_space and not isinstance(fitted, CommonSpaceCalibration | MappedCalibration) else ""


def _map_summary(fitted: Calibration, samples: CalibrationSamples) -> MapSummary | None:
    if not isinstance(fitted, MappedCalibration):
        return None
    maps = fitted.maps
    unknown = sorted(lang for lang in samples.documents if not maps.knows(lang))
    return MapSummary(maps.about, unknown, maps.stands_in)


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
    name = opened.collection.name
    advice = f"leave the migration first: dragoman rollback -c {name}"
    if maps:
        raise BadInput(
            f"{name} has migrated to {query_encoder.encoder}, and these maps are for its own encoder's queries; "
            f"{advice}"
        )
    if request.judged:
        raise BadInput(
            f"{name} has migrated to {query_encoder.encoder}, where nothing is decided by judgements; {advice}"
        )
    if request.choice and request.choice.rank:
        raise BadInput(
            f"{name} has migrated to {query_encoder.encoder}, and its maps are for what the mean leaves; {advice}"
        )
    stored = calibration_table.active(opened.engine, opened.collection)
    return InheritedInput.of(stored, previous) if stored else inherited
