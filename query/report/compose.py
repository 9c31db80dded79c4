"""The report: an HTML page on a collection's language bias, with and without calibration, and its newest scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import now
from indexer.stores.contract import VectorStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_table import StoredCalibration
from query.calibration_fitting.open_collection import OpenCollection
from query.evaluation import evaluation_log
from query.evaluation.evaluation_log import LoggedRun
from query.evaluation.run_scoring import languages_of
from query.evaluation.run_settings import ranking_in_words
from query.measures.consistency import overlaps, pair_means
from query.measures.fairness import DEPTH, OWN_LANGUAGE, PEER, is_fairness
from query.measures.quality_measures import JUDGED, mean_name
from query.report import sections
from query.report.bias import VectorSample
from query.report.language_pairs import FirstHits, PairTable, logged_rankings, shares_by_pair
from query.report.report_page import ReportPage, Section, Table, render
from query.trec_files.output_files import require_writable, write_lines

_SECTIONS = 3


@dataclass(frozen=True)
class _Subject:
    engine: sa.Engine
    collection: Collection
    store: VectorStore
    calibration: Calibration | None
    stored_calibration: StoredCalibration | None
    run: LoggedRun | None  # the main run of the evaluation that is shown

    @property
    def name(self) -> str:
        return self.collection.name


def report(collection: str, settings: Settings, out: Path, *, evaluation: int | None = None, console: Console) -> Path:
    """Write an HTML page on how fairly languages are ranked, with an evaluation's scores; returns ``out``.

    The ``evaluation`` is by default the newest. Raises BadInput: the collection or the evaluation does not exist, or
    the file can't be written.
    """
    require_writable(out)
    with OpenCollection.open(collection, settings) as opened:
        engine, row, store = opened.engine, opened.collection, opened.store
        calibration, run = calibration_table.load(engine, row), _shown_run(engine, collection, evaluation)
        if not store.count():
            raise BadInput(row.emptiness)
        subject = _Subject(engine, row, store, calibration, opened.stored_calibration(), run)
        write_lines(out, [render(_page(subject, console))])
    return out


def _shown_run(engine: sa.Engine, collection: str, number: int | None) -> LoggedRun | None:
    """The main run of an evaluation, by default of the newest; none: there is none. Raises BadInput: no such number."""
    runs = [run for run in evaluation_log.runs(engine, collection) if "file" not in run.setup.settings]
    if number is not None and number not in {run.evaluation for run in runs}:
        numbers = ", ".join(str(run.evaluation) for run in runs) or "none yet"
        raise BadInput(
            f"{collection} has no evaluation {number} (there are: {numbers}); "
            f"see them: dragoman runs list -c {collection}"
        )
    return next((run for run in runs if number in (None, run.evaluation)), None)


def _page(subject: _Subject, console: Console) -> ReportPage:
    counts = subject.store.count()
    shown_sections: list[Section] = []
    with console.progress("report", _SECTIONS, "pictures") as advance:
        for section in _sections(subject, list(counts)):
            shown_sections.append(section)
            advance(1)
    title = f"How {subject.name} treats its languages"
    footer = f"Made by dragoman {version('dragoman')} on {now():%Y-%m-%d %H:%M} UTC: dragoman report -c {subject.name}"
    table, note = None, _how_to_evaluate(subject)
    if subject.run:
        table = _table(subject.run)
        peer = "PEER is 1 where equally relevant documents stand at equal ranks whatever their language, 0 where not."
        note = f"{peer} " if PEER in subject.run.means else ""
        note += f"Rankings are compared by: dragoman study -c {subject.name} --topics T --qrels Q -o FOLDER"
    return ReportPage(title, _summary(subject, counts), table, note, _facts(subject, counts), shown_sections, footer)


def _sections(subject: _Subject, languages: Sequence[str]) -> Iterator[Section]:
    if len(languages) < 2:
        text = f"All documents are in one language ({', '.join(languages)}): there is none to compare it with."
        yield from (Section(title, "", text) for title in (sections.LANGUAGES, sections.BALANCE, sections.PAIRS))
    else:
        sample = VectorSample.draw(subject.store, subject.collection.model, subject.calibration)
        yield sections.languages_section(sample, _how_to_calibrate(subject))
        if subject.calibration is None:
            yield Section(sections.BALANCE, "", _how_to_calibrate(subject))
        else:
            yield sections.balance_section(subject.store, subject.calibration)
        yield _pairs(subject)


def _how_to_calibrate(subject: _Subject) -> str:
    calibrations = calibration_table.all_calibrations(subject.engine, subject.name)
    if any(calibration.model == subject.collection.model for calibration in calibrations):
        return (
            "It is searched without a calibration, as was chosen; for the picture of after choose one: "
            f"dragoman status -c {subject.name} --calibration"
        )
    return f"It has no calibration yet; for the picture of after make one: dragoman calibrate -c {subject.name}"


def _pairs(subject: _Subject) -> Section:
    cell_meaning = f"Each cell is the share of the first {sections.FIRST} hits that are in the column's language"
    if subject.run:
        rankings = logged_rankings(subject.engine, subject.run.evaluation, DEPTH)
        tables = {_title(subject.run): _logged_shares(subject, rankings)}
        section = sections.pairs_section(tables, f"{cell_meaning}, for topics asked in the row's.")
        return sections.with_overlaps(section, pair_means(overlaps(rankings)))
    if subject.calibration is not None:
        tables = sections.pair_shares(subject.store, subject.calibration)
        sentence = f"{cell_meaning}, for queries in the row's: titles and first sentences of documents."
        return sections.pairs_section(tables, sentence)
    return Section(sections.PAIRS, "", _how_to_evaluate(subject))


def _logged_shares(subject: _Subject, rankings: Mapping[str, Mapping[str, Sequence[str]]]) -> PairTable:
    first = [(lang, doc_ids[: sections.FIRST]) for lang, by_qid in rankings.items() for doc_ids in by_qid.values()]
    ids = {doc_id for _, doc_ids in first for doc_id in doc_ids}
    langs = languages_of(subject.store, subject.collection.model, ids)
    hit_langs = [[langs[doc_id] for doc_id in doc_ids if doc_id in langs] for _, doc_ids in first]
    return shares_by_pair(FirstHits([lang for lang, _ in first], hit_langs), sorted(subject.store.count()))


def _how_to_evaluate(subject: _Subject) -> str:
    return f"Nothing is evaluated yet; make a run: dragoman evaluate --topics T --qrels Q -c {subject.name}"


def _summary(subject: _Subject, counts: dict[str, int]) -> str:
    documents = f"{counted(sum(counts.values()), 'document')} in {counted(len(counts), 'language')}."
    share, depth = (subject.run.means.get(OWN_LANGUAGE), subject.run.targets) if subject.run else (None, 0)
    if share is None or not depth:
        return documents
    return (
        f"{documents} Of the first {depth} hits {share:.0%} are in the query's own language; {1 / depth:.0%} would be "
        "fair."
    )


def _title(run: LoggedRun) -> str:
    return f"{ranking_in_words(run)} (evaluation {run.evaluation})"


def _table(run: LoggedRun) -> Table:
    """The first measure and those of fairness."""
    shown = [name for name in run.means if name != JUDGED]
    shown = [name for name in shown if name == shown[0] or is_fairness(name)]
    rows = [
        (mean_name(name), [f"{run.means[name]:.0%}" if name == OWN_LANGUAGE else f"{run.means[name]:.3f}"])
        for name in shown
    ]
    return Table([_title(run)], rows)


def _facts(subject: _Subject, counts: dict[str, int]) -> dict[str, str]:
    collection, stored = subject.collection, subject.stored_calibration
    facts = {
        "Collection": f"{collection.name}: " + ", ".join(f"{lang} {count:,}" for lang, count in counts.items()),
        "Encoder": f"{collection.encoder} by {collection.method} ({collection.dim} numbers)",
        "Calibration": "none: plain cosine",
    }
    if stored is not None:
        mates = "mates count, " if subject.calibration and subject.calibration.mates else ""
        facts["Calibration"] = (
            f"{stored.id}: balance {stored.summary.balance:g}, {mates}decided by {stored.summary.decided_by}"
        )
    if run := subject.run:
        taught = "".join(
            f"; {share:.0%} of the relevant documents taught {encoder}"
            for encoder, share in run.setup.settings.get("taught", {}).items()
        )
        facts[f"Evaluation {run.evaluation}"] = (
            f"{run.setup.topics}, {run.topics:,} topics{' over all languages' if run.kind == 'pooled' else ''}, "
            f"{run.created:%Y-%m-%d %H:%M} UTC{taught}"
        )
    return facts
