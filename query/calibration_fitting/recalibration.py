"""Keep a collection's calibration while it fits the documents, and calibrate again when it does not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from encoders.console import QUIET, Console
from encoders.document import Encoder, unit_rows
from encoders.machine.cores import on_all_cores
from encoders.machine.placement import Device
from encoders.methods.moments import PartMoments
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from indexer.ledger.index_runs import runs
from indexer.ledger.tables import ACTIVE
from indexer.stores.contract import VectorStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_table import StoredCalibration
from query.calibration_fitting.calibration_fit import CalibrationReport, calibrate_open
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.document_samples import draw_each
from query.calibration_fitting.language_statistics import SAMPLE, ShrunkMeans, document_moments
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.fair_ranker import FairRanker

if TYPE_CHECKING:
    from indexer.index_sources import BeforeSwitch

DRIFT = 0.25
"""Least drift of a language that makes a collection be calibrated again; drift of unchanged documents is below half of
this (docs/methods/fair-ranking.md)."""
QUERIES = 256
"""Maximum pseudo-queries over all languages."""
_EACH = 8
"""Least pseudo-queries of a language; so the ``QUERIES / _EACH`` languages with the most documents are looked at."""
_HITS = 10
_CHANCE = 0.9
"""Quantile, over a language's queries, of the changes between the halves: up to there a change counts as chance."""


class UpkeepReport(NamedTuple):
    """The report of a collection's new calibration, none if the old one stays; why; and how fair searches are."""

    report: CalibrationReport | None
    reason: str
    languages: int = 0  # languages of the collection
    own_language: float | None = None  # see ``own_language_share``; none if it was not measured


def finish_indexing(
    name: str, settings: Settings, *, calibrate: bool = True, device: Device = "auto", console: Console = QUIET
) -> UpkeepReport | None:
    """The last step of indexing: keep the collection calibrated, if runs changed it since this was last looked at.

    Without ``calibrate`` the calibration stays as it is. None: nothing was due. After an interruption call it again.
    """
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        checked = [run for run in runs(engine, name) if run.id > collection.checked_run and run.state not in ACTIVE]
        changed = any(run.encoded or run.pruned for run in checked)
        report = None
        if calibrate and (changed or not is_calibrated(name, settings)):
            report = keep_calibrated(name, settings, device=device, console=console)
        if checked:
            with transaction(engine) as session:
                collections.hold(session, collection, as_searched=False)
                session.get_one(Collection, name).checked_run = checked[-1].id
    return report


def calibrating_before_switch(device: Device = "auto", console: Console = QUIET) -> "BeforeSwitch":
    """Calibrate a rebuilt collection whose model has no calibration, so that no search meets it without."""

    def calibrate(engine: sa.Engine, name: str, store: VectorStore, encoder: Encoder) -> None:
        row = collections.require(engine, name)
        if row.building and all(
            known.model != encoder.spec.model for known in calibration_table.all_calibrations(engine, name)
        ):
            built = dict(row.building)
            # as the collection will be; this is no row of the database
            switched = Collection(name=name, store=row.store, generation=built.pop("number"), **built)
            opened = OpenCollection(engine, switched, store, device, console, row)
            opened.encoder = encoder
            calibrate_open(opened, CalibrationRequest())

    return calibrate


def is_calibrated(name: str, settings: Settings) -> bool:
    """Whether a calibration knows all languages of a collection, or a person chose to search without a calibration."""
    with OpenCollection.open(name, settings) as opened:
        return _left_without(opened) or not _misfit(opened, opened.stored_calibration(), opened.calibration())


def keep_calibrated(
    name: str, settings: Settings | None = None, *, device: Device = "auto", console: Console = QUIET
) -> UpkeepReport:
    """Calibrate a collection again, unless the active calibration still fits; a person's input to the old stays.

    It does not fit if there is none, an earlier version made it, it lacks a language, or the documents have drifted.
    """
    with OpenCollection.open(name, settings or Settings.read(), device, console) as opened:
        if _left_without(opened):
            return UpkeepReport(None, "it is searched without a calibration, as you chose")
        stored, active = opened.stored_calibration(), opened.calibration()
        reason = _misfit(opened, stored, active)
        if active and not reason:
            shares = drift(opened.store, active)
            worst = max(shares, key=shares.__getitem__, default="")
            if not worst:
                return UpkeepReport(None, "it has no pseudo-queries to measure drift with")
            reason = f"it would change the first ten hits of {shares[worst]:.0%} of the queries in {worst}"
            if shares[worst] < DRIFT:
                return UpkeepReport(None, "it still fits", *_fairness(opened, active))
        request = CalibrationRequest()
        report = calibrate_open(opened, request.after(stored, active) if stored else request)
        return UpkeepReport(report, reason, *_fairness(opened, opened.calibration()))


def _fairness(opened: OpenCollection, calibration: Calibration | None) -> tuple[int, float | None]:
    with opened.console.waiting("looking at how fair searches are"):
        return len(opened.store.count()), own_language_share(opened.store, calibration) if calibration else None


def _left_without(opened: OpenCollection) -> bool:
    """Whether a person chose that none of the calibrations of a collection's model is active."""
    calibrations = calibration_table.all_calibrations(opened.engine, opened.collection.name)
    of_model = [stored for stored in calibrations if stored.model == opened.collection.model]
    return bool(of_model) and not any(stored.active for stored in of_model)


def _misfit(opened: OpenCollection, stored: StoredCalibration | None, active: Calibration | None) -> str:
    """Why a collection needs another calibration, whatever its drift; empty: the active calibration may stay."""
    if stored is None:
        return "it had no calibration"
    if stored.summary.is_earlier:
        return "an earlier version of Dragoman made its calibration, with settings that are gone"
    if active is None:
        return "its calibration can't be read"
    new = sorted(opened.store.count().keys() - active.languages.keys())
    return f"new languages: {', '.join(new)}" if new else ""


def drift(store: VectorStore, active: Calibration) -> dict[str, float]:
    """By language, the share of the bank's queries whose first ten documents a calibration of today would change.

    They count as changed only if more of them change than between two calibrations of one half of today's sample each:
    halves differ by more than two whole samples would, so unchanged documents have nearly no drift.
    """
    drawn = draw_each(store, active.model, SAMPLE)
    first, second = (
        {lang: document_moments(store, active.model, active.vector_parts, ids[half::2]) for lang, ids in drawn.items()}
        for half in (0, 1)
    )
    if not first:
        return {}
    today = {lang: moments + second[lang] for lang, moments in first.items()}
    chance = changed_hits(store, with_documents(active, first), with_documents(active, second))
    return {
        lang: float((changed > np.quantile(chance[lang], _CHANCE, method="higher")).mean())
        for lang, changed in changed_hits(store, active, with_documents(active, today)).items()
        if lang in chance
    }


def own_language_share(store: VectorStore, calibration: Calibration) -> float | None:
    """Mean share of the query's language among the first hits of pseudo-queries, as many hits as there are languages.

    None if there is nothing to measure: one language, or no pseudo-queries.
    """
    languages = sorted(store.count())
    banks = {lang: statistics for lang, statistics in calibration.languages.items() if len(statistics.bank)}
    asked = sorted(banks.keys() & set(languages))[: QUERIES // _EACH]
    if len(languages) < 2 or not asked:
        return None
    ranker = FairRanker(store, calibration, passages=False)

    def shares_in(lang: str) -> float:
        queries, sources = unit_rows(banks[lang].bank[:_EACH]), banks[lang].sources[:_EACH]
        rankings = ranker.rank(queries, lang, languages, len(languages), without=[{source} for source in sources])
        return float(np.mean([list(ranking.langs).count(lang) / len(languages) for ranking in rankings]))

    return float(np.mean(on_all_cores(shares_in, asked)))


def with_documents(active: Calibration, moments: Mapping[str, PartMoments]) -> Calibration:
    """The calibration with the means of documents from ``moments``."""
    shrunk = ShrunkMeans(moments)
    languages = {
        lang: replace(statistics, means={**statistics.means, "document": shrunk.means[lang]})
        for lang, statistics in active.languages.items()
        if lang in moments
    }
    return replace(active, languages=languages, pooled={**active.pooled, "document": shrunk.pooled})


def changed_hits(store: VectorStore, before: Calibration, after: Calibration) -> dict[str, npt.NDArray[np.intp]]:
    """By language, (pseudo-queries,) how many of the first ten documents differ between two calibrations.

    Passages, whose statistics do not change, are not compared. Mates do not count, so a small difference stays small.
    """
    documents = store.count()
    banks = {lang: statistics.bank for lang, statistics in before.languages.items() if len(statistics.bank)}
    languages = sorted(banks, key=lambda lang: -documents.get(lang, 0))[: QUERIES // _EACH] if documents else []
    rankers = [FairRanker(store, replace(made, mates=False), passages=False) for made in (before, after)]

    def changes_in(lang: str) -> npt.NDArray[np.intp]:
        queries = unit_rows(banks[lang][: QUERIES // len(languages)])
        old, new = (ranker.rank(queries, lang, sorted(documents), _HITS) for ranker in rankers)
        changes = [len({*was.doc_ids} - {*now.doc_ids}) for was, now in zip(old, new, strict=True)]
        return np.array(changes, dtype=np.intp)

    return dict(zip(languages, on_all_cores(changes_in, languages), strict=True))
