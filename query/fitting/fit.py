"""Calibrate a collection: statistics, probe, drift, the row in the database. What ``dragoman calibrate`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoder, EncoderSpec, FloatArray, unit_rows
from encoders.errors import BadInput, StoreError
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from encoders.methods.vector_parts import VectorParts
from encoders.session import Device
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger import database
from indexer.ledger.database import connect
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from onnx_export.models import open_named
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.lineage import give_up_if_left
from query.calibration.mapped_calibration import MappedCalibration, check_model
from query.calibration.table import KeptCalibration
from query.fitting import evidence
from query.fitting.bias import Sample
from query.fitting.drift import changes, drift
from query.fitting.probe import DEFAULT, UNBALANCED, Setting, Tried, probe
from query.fitting.separability import Separability, separability
from query.fitting.statistics import Samples, calibration, draw
from query.ranking.query_encoder import asker_of, open_asker

if TYPE_CHECKING:
    from ir_measures import Qrel

DRIFT = 0.25
"""Drift of a language from which on a collection is calibrated again: where documents have not changed it is below half
of this (docs/methods.md)."""


@dataclass(frozen=True)
class Judged:
    """Topics with judgements, to decide by.

    Attributes:
        topics: queries whose ids are the qrels' topic ids.
        qrels: the judgements.
    """

    topics: Sequence[Document]
    qrels: Sequence[Qrel]


@dataclass(frozen=True)
class Given:
    """What a person gave a calibration, and the next one takes over.

    Attributes:
        setting: how to rank, where a person or judgements decided it; none: it is decided anew.
        decided_by: what did.
        asked: queries out of a log, by language, (n, dim) unit rows.
        maps: of documents and queries.
    """

    setting: Setting | None = None
    decided_by: str = ""
    asked: Mapping[str, FloatArray] = field(default_factory=dict)
    maps: SpaceMaps | Networks | None = None

    @classmethod
    def of(cls, kept: KeptCalibration, calibration: Calibration | None) -> Given:
        """Of a calibration; of one that can't be read any more the setting alone."""
        asked = {
            lang: unit_rows(one.bank[[not doc_id for doc_id in one.sources]])
            for lang, one in (calibration.languages.items() if calibration else ())
            if "" in one.sources
        }
        decided_by = str(kept.summary["decided_by"])
        maps = calibration.maps if isinstance(calibration, MappedCalibration) else None
        if decided_by not in _LASTING and not maps:
            return cls(asked=asked)
        summary = kept.summary
        weights = tuple(summary.get("weights", ()))
        setting = Setting(summary["rank"], summary["margin"], summary["balance"], weights)
        return cls(setting, decided_by, asked, maps)


_LASTING = ("you", "judgements")


@dataclass(frozen=True)
class CalibrationReport:
    """What calibrating a collection found.

    Attributes:
        kept: the calibration, active now.
        setting: how it ranks.
        decided_by: ``judgements``, ``concepts``, ``titles``, ``languages`` that can't be told apart, ``you`` or
            ``default``.
        taken_over: whether that was decided for the calibration before.
        tried: what the probe tried.
        few: documents of the languages that have few, by language.
        drift: by language, the share of pseudo-queries whose first ten are others than with the calibration before;
            empty where there was none.
        maps_left: whether the calibration before ranked with maps, and this one doesn't.
    """

    kept: KeptCalibration
    setting: Setting
    decided_by: str
    taken_over: bool
    tried: Sequence[Tried]
    few: Mapping[str, int]
    drift: Mapping[str, float]
    maps_left: bool = False


@dataclass
class Opened:
    """A collection with its store and its encoder, while it is calibrated."""

    engine: sa.Engine
    collection: Collection
    store: VectorStore
    encoder: Encoder

    @classmethod
    def named(cls, name: str, settings: Settings, device: Device, console: Console) -> Opened:
        """Open it.

        Raises:
            BadInput: there is none of that name, or nothing is in it.
        """
        with ExitStack() as stack:
            engine = stack.enter_context(database.opened(settings.database))
            found = collections.require(engine, name)
            settings.check_store(name, found.store or settings.home_store)
            store = stack.enter_context(closing(found.open_store(settings)))
            if not store.count():
                raise BadInput(f"collection {name} holds no documents; put some in: dragoman index SOURCE -c {name}")
            encoder = open_named(found.encoder, found.method, console, device=device)
            found.check(encoder.spec)
            stack.pop_all()
        return cls(engine, found, store, encoder)

    def asker(self, maps: SpaceMaps | Networks | None, device: Device, console: Console) -> Encoder:
        """What encodes queries, where maps say which."""
        if maps is None or maps.asker is None:
            return self.encoder
        return open_asker(self.collection, maps.asker, device, console)

    def close(self) -> None:
        """Let go of both."""
        self.store.close()
        self.engine.dispose()


def calibrate(
    name: str,
    settings: Settings | None = None,
    *,
    judged: Judged | None = None,
    log: Sequence[Document] = (),
    setting: Setting | None = None,
    given: Given | None = None,
    seed: int = 0,
    device: Device = "auto",
    console: Console | None = None,
) -> CalibrationReport:
    """Calibrate a collection, and make the result the active calibration.

    Args:
        name: the collection.
        settings: where things are; read from the environment unless given.
        judged: topics and judgements to decide by; documents' ``concept`` or titles unless given.
        log: queries that were really asked, for the bank.
        setting: how to rank, where that is decided already: no probe is made.
        given: what a person gave the calibration that this one replaces, or gives this one: maps, too. The maps of
            a migration stay where none are given.
        seed: of the random samples.
        device: where to encode pseudo-queries.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: there is no such collection, it is empty, or it has migrated and what is given is for its own encoder.
        DragomanError: whatever store, database or encoder refuse.
    """
    console = console or Console(quiet=True)
    opened = Opened.named(name, settings or Settings.read(), device, console)
    try:
        before = _active(opened)
        given = _staying_migrated(opened, given or Given(), before, setting, judged)
        if given.maps:
            check_model(given.maps, opened.collection.model, opened.collection.dim)
        taken_over = given.setting if setting is None else None
        decided = setting or taken_over
        _see_that_it_fits(decided or DEFAULT, opened.encoder.spec)
        samples = draw(
            opened.store,
            opened.asker(given.maps, device, console),
            stored=opened.encoder.spec,
            log=log,
            asked=given.asked,
            seed=seed,
            console=console,
        )
        elsewhere = given.maps is not None and given.maps.asker is not None  # no vectors of one kind to probe with
        found = None if decided or elsewhere else _evidence(opened, samples, judged, seed)
        chosen, tried = (decided or DEFAULT), list[Tried]()
        unsure = not decided and not elsewhere and (found is None or found.kind == "titles")
        apart = _told_apart(opened, seed) if unsure else None
        if found:
            chosen, tried = probe(samples, opened.encoder.spec.model, found, apart)
        elif apart and apart.hidden:
            chosen = UNBALANCED
        if given.maps:
            chosen = replace(chosen, rank=0)
        made = calibration(samples, opened.encoder.spec.model, rank=chosen.rank)
        made = made.with_choice(balance=chosen.balance, margin=chosen.margin)
        made = made.with_weights(chosen.weights) if chosen.weights else made
        if given.maps:
            made = MappedCalibration.on(made, given.maps)
        changed = changes(opened.store, before, made) if before and asker_of(before) == asker_of(made) else {}
        drift = {lang: float((counts > 0).mean()) for lang, counts in changed.items()}
        decided_by = found.kind if found else "you" if setting else given.decided_by or "default"
        decided_by = "languages" if apart and apart.hidden else decided_by
        summary: dict[str, Any] = {"decided_by": decided_by, "probe": [one.as_dict() for one in tried]}
        if apart:
            summary["told_apart"] = {
                "accuracy": apart.accuracy,
                "languages": apart.languages,
                "bar": apart.threshold,
            }
        if given.maps:
            unknown = sorted(lang for lang in samples.documents if not given.maps.knows(lang))
            summary |= {"map": {**given.maps.about, "unknown": unknown, "stands_in": given.maps.stands_in}}
        kept = calibration_table.keep(opened.engine, name, made, {**summary, "few": samples.few(), "drift": drift})
        give_up_if_left(opened.engine, name)
        left = isinstance(before, MappedCalibration) and given.maps is None
        return CalibrationReport(kept, chosen, decided_by, bool(taken_over), tried, samples.few(), drift, left)
    finally:
        opened.close()


def _see_that_it_fits(setting: Setting, spec: EncoderSpec) -> None:
    """See that vectors are wide enough for a setting, and have as many parts as it has weights.

    Raises:
        BadInput: they are not, or have not.
    """
    parts = VectorParts.of(spec)
    if setting.rank >= (narrowest := min(parts.widths)):
        raise BadInput(
            f"{counted(setting.rank, 'direction')} can't be taken out of vectors of {narrowest} numbers; "
            "nothing would be left"
        )
    if setting.weights:
        VectorParts(parts.widths, setting.weights)


def _staying_migrated(
    opened: Opened, given: Given, before: Calibration | None, setting: Setting | None, judged: Judged | None
) -> Given:
    """What is given, with the maps of the migration that the collection is in: calibrating anew does not end it.

    Raises:
        BadInput: what is given is for vectors of the collection's own encoder on both sides.
    """
    asker = asker_of(before)
    if asker is None or (given.maps and given.maps.asker):
        return given
    name = opened.collection.name
    back = f"leave the migration first: dragoman rollback -c {name}"
    if given.maps:
        raise BadInput(
            f"{name} has migrated to {asker.encoder}, and these maps are for its own encoder's queries; {back}"
        )
    if judged:
        raise BadInput(f"{name} has migrated to {asker.encoder}, where nothing is decided by judgements; {back}")
    if setting and setting.rank:
        raise BadInput(f"{name} has migrated to {asker.encoder}, and its maps are for what the mean leaves; {back}")
    kept = calibration_table.active(opened.engine, opened.collection)
    return Given.of(kept, before) if kept else given


def _evidence(opened: Opened, samples: Samples, judged: Judged | None, seed: int) -> evidence.Evidence | None:
    model = opened.encoder.spec.model
    if judged:
        found = evidence.from_judgements(opened.store, opened.encoder, judged.topics, judged.qrels, seed=seed)
        if found is None:
            raise BadInput(
                "too few of the topics have a relevant document in the collection to decide anything by; "
                "give more, or leave --topics and --qrels out"
            )
        return found
    if len(samples.documents) < 2:
        return None
    return evidence.from_concepts(opened.store, model, samples, seed=seed) or evidence.from_titles(
        opened.store, model, samples, seed=seed
    )


def _told_apart(opened: Opened, seed: int) -> Separability | None:
    sample = Sample.draw(opened.store, opened.encoder.spec.model, None, seed=seed)
    return separability(sample.raw, sample.langs)


def _active(opened: Opened) -> Calibration | None:
    try:
        return calibration_table.load(opened.engine, opened.collection)
    except StoreError:  # damaged, or another version's: it is being replaced, which is what its message asks for
        return None


@dataclass(frozen=True)
class Upkeep:
    """What became of a collection's calibration after documents were added.

    Attributes:
        report: the new calibration, if one was made.
        reason: why it was, or was not.
    """

    report: CalibrationReport | None
    reason: str


def is_calibrated(name: str, settings: Settings) -> bool:
    """Whether a collection's calibration knows all its languages; one that a person searches without is all right."""
    engine = connect(settings.database)
    try:
        found = collections.require(engine, name)
        if calibration_table.active(engine, found) is None:
            return bool(calibration_table.every(engine, name))
        active = calibration_table.load(engine, found)
        store = found.open_store(settings)
        try:
            return active is None or not _new_languages(store, active)
        finally:
            store.close()
    except StoreError:
        return False  # what can't be read is made again
    finally:
        engine.dispose()


def keep_calibrated(
    name: str, settings: Settings | None = None, *, device: Device = "auto", console: Console | None = None
) -> Upkeep:
    """See to a collection's calibration after documents came or went: the active one stays as long as it fits.

    A new one is made where there is none, where a language has come, or where the documents have drifted. What a person
    gave the one before stays: a setting, judgements' decision, queries out of a log.
    """
    settings = settings or Settings.read()
    engine = connect(settings.database)
    try:
        found = collections.require(engine, name)
        kept = calibration_table.active(engine, found)
        if kept is None and any(one.model == found.model for one in calibration_table.every(engine, name)):
            return Upkeep(None, "it is searched without a calibration, as you chose")
        active, reason = None, "it had none"
        if kept:
            try:
                active = calibration_table.load(engine, found)
            except StoreError:
                reason = "the one it had can't be read"
        if active is not None:
            store = found.open_store(settings)
            try:
                reason, fits = _fit(store, active)
            finally:
                store.close()
            if fits:
                return Upkeep(None, reason)
    finally:
        engine.dispose()
    given = Given.of(kept, active) if kept else None
    return Upkeep(calibrate(name, settings, given=given, device=device, console=console), reason)


def _new_languages(store: VectorStore, active: Calibration) -> list[str]:
    """Languages of stored documents that a calibration knows nothing of."""
    return sorted(store.count().keys() - active.languages.keys())


def _fit(store: VectorStore, active: Calibration) -> tuple[str, bool]:
    """Whether a calibration still fits what is stored, and a sentence that says why."""
    if new := _new_languages(store, active):
        return f"new languages: {', '.join(new)}", False
    shares = drift(store, active)
    worst = max(shares, key=shares.__getitem__, default="")
    said = f"first tens that would change: {shares[worst]:.0%} in {worst}, the most" if worst else "there is no bank"
    return said, not worst or shares[worst] < DRIFT
