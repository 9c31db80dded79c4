"""The report: one page of HTML with a collection's bias, before and after, and how good its rankings are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder import file_hash
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.database import connect, now
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from query import __version__
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.table import KeptCalibration
from query.evaluation.experiment import languages_of
from query.evaluation.file_patterns import writable, write_lines
from query.evaluation.qrels import read_qrels
from query.fitting.bias import VectorSample
from query.report import sections
from query.report.evaluations import ShownEvaluation, by_topic, evaluations, main_measure
from query.report.first_hits import FirstHits
from query.report.language_pairs import PairTable, logged_rankings, map_by_pair, shares_by_pair
from query.report.page import ReportPage, Section, Table, html

_SECTIONS = 5


@dataclass(frozen=True)
class _Subject:
    """What a report is about."""

    engine: sa.Engine
    collection: Collection
    store: VectorStore
    calibration: Calibration | None
    kept: KeptCalibration | None
    shown: Sequence[ShownEvaluation]
    qrels: Sequence[Path]

    @property
    def name(self) -> str:
        return self.collection.name


def report(
    collection: str,
    settings: Settings,
    out: Path,
    *,
    evaluation: int | None = None,
    qrels: Sequence[Path] = (),
    console: Console,
) -> Path:
    """Write a page that shows how a collection's languages are treated, and how well its topics are answered.

    Args:
        collection: its name.
        settings: where things are.
        out: the file to write.
        evaluation: number of the one to show; the newest of the collection unless given.
        qrels: judgements of that evaluation, for MAP by language pair; shares of the first hits where there are none.
        console: where progress goes.

    Returns:
        The file.

    Raises:
        BadInput: there is no such collection or evaluation, nothing is in it, or the file can't be written.
        DragomanError: whatever store or database refuse.
    """
    writable(out)
    engine = connect(settings.database)
    try:
        found = collections.require(engine, collection)
        settings.check_store(collection, found.store or settings.home_store)
        calibration = calibration_table.load(engine, found)
        kept = calibration_table.active(engine, found)
        shown = evaluations(engine, collection, evaluation)
        store = found.open_store(settings)
        try:
            if not store.count():
                raise BadInput(
                    f"collection {collection} holds no documents; put some in: dragoman index SOURCE -c {collection}"
                )
            subject = _Subject(engine, found, store, calibration, kept, shown, qrels)
            write_lines(out, [html(_page(subject, console))])
        finally:
            store.close()
    finally:
        engine.dispose()
    return out


def _page(subject: _Subject, console: Console) -> ReportPage:
    counts = subject.store.count()
    with console.progress("report", _SECTIONS, "pictures") as advance:
        pictures = []
        if len(counts) < 2:
            pictures += sections.nothing_to_compare(list(counts))
            advance(len(pictures))
        else:
            sample = VectorSample.draw(subject.store, subject.collection.model, subject.calibration)
            pictures.append(sections.languages_section(sample, _how_to_calibrate(subject)))
            advance(1)
            pictures.append(sections.separability_section(sample))
            advance(1)
            pictures.append(_dial(subject))
            advance(1)
            pictures.append(_pairs(subject, console))
            advance(1)
        pictures.append(_topics(subject))
        advance(1)
    title = f"How {subject.name} treats its languages"
    footer = f"Made by dragoman {__version__} on {now():%Y-%m-%d %H:%M} UTC: dragoman report -c {subject.name}"
    table, note = _table(subject), _note(subject)
    return ReportPage(title, _summary(subject, counts), table, note, _facts(subject, counts), pictures, footer)


def _how_to_calibrate(subject: _Subject) -> str:
    if any(one.model == subject.collection.model for one in calibration_table.every(subject.engine, subject.name)):
        return (
            "It is searched without a calibration, as was chosen; for the picture of after choose one: "
            f"dragoman calibrate -c {subject.name} --list"
        )
    return f"It has no calibration yet; for the picture of after make one: dragoman calibrate -c {subject.name}"


def _dial(subject: _Subject) -> Section:
    if subject.calibration is None or subject.kept is None:
        return Section(sections.DIAL, "", _how_to_calibrate(subject))
    return sections.dial_section(subject.store, subject.calibration, subject.kept.summary)


def _pairs(subject: _Subject, console: Console) -> Section:
    if subject.shown and subject.qrels:
        return _judged_pairs(subject, console)
    each = f"Each cell is the share of the first {sections.FIRST} hits that are in the column's language"
    if subject.qrels:
        console.warn(f"there is no evaluation of {subject.name} for the qrels to judge")
    if subject.shown:
        tables = {one.title: _logged_shares(subject, one) for one in subject.shown}
        return sections.pairs_section(
            tables, "share of the first hits", f"{each}, for topics asked in the row's; with --qrels it is MAP."
        )
    if subject.calibration is not None:
        tables = sections.pair_shares(subject.store, subject.calibration)
        what = f"{each}, for queries in the row's: titles and first sentences of documents."
        return sections.pairs_section(tables, "share of the first hits", what)
    return Section(sections.PAIRS, "", _how_to_evaluate(subject))


def _judged_pairs(subject: _Subject, console: Console) -> Section:
    if file_hash(*subject.qrels) != subject.shown[-1].run.setup.qrels_hash:
        console.warn(
            f"evaluation {subject.shown[-1].run.evaluation} was scored with other judgements than "
            f"{', '.join(path.name for path in subject.qrels)}; MAP by language pair is of these"
        )
    judgements = read_qrels(subject.qrels)
    langs = languages_of(subject.store, subject.collection.model, {qrel.doc_id for qrel in judgements})
    tables = {
        one.title: map_by_pair(logged_rankings(subject.engine, one.run.evaluation), judgements, langs)
        for one in subject.shown
    }
    what = (
        "Each cell is the MAP of topics asked in the row's language over the relevant documents in the column's, which "
        "compete with irrelevant documents of all languages."
    )
    return sections.pairs_section(tables, "MAP", what)


def _logged_shares(subject: _Subject, one: ShownEvaluation) -> PairTable:
    rankings = logged_rankings(subject.engine, one.run.evaluation, sections.FIRST)
    first = [(lang, doc_ids) for lang, by_qid in rankings.items() for doc_ids in by_qid.values()]
    langs = languages_of(
        subject.store, subject.collection.model, {doc_id for _, doc_ids in first for doc_id in doc_ids}
    )
    hits = FirstHits(
        [lang for lang, _ in first], [[langs[doc_id] for doc_id in doc_ids if doc_id in langs] for _, doc_ids in first]
    )
    return shares_by_pair(hits, sorted(subject.store.count()))


def _topics(subject: _Subject) -> Section:
    if not subject.shown:
        return Section(sections.TOPICS, "", _how_to_evaluate(subject))
    if len(subject.shown) < 2:
        (one,) = subject.shown
        other = " --calibration none" if one.calibrated else ""
        text = (
            f"Evaluation {one.run.evaluation} is the only one of its topics; make another to compare it with, such as: "
            f"dragoman evaluate --topics T --qrels Q -c {subject.name}{other}"
        )
        return Section(sections.TOPICS, "", text)
    return sections.topics_section(by_topic(subject.engine, *subject.shown))


def _how_to_evaluate(subject: _Subject) -> str:
    return f"Nothing is evaluated yet; make a run: dragoman evaluate --topics T --qrels Q -c {subject.name}"


def _summary(subject: _Subject, counts: dict[str, int]) -> str:
    said = f"{counted(sum(counts.values()), 'document')} in {counted(len(counts), 'language')}."
    own = [(one.label, *one.own_language) for one in subject.shown if one.own_language]
    if not own:
        return said
    shares = " and ".join(f"{share:.0%} ({label})" for label, share, _ in own)
    depth = own[-1][2]
    return f"{said} Of the first {depth} hits {shares} are in the query's own language; {1 / depth:.0%} would be fair."


def _table(subject: _Subject) -> Table | None:
    if not subject.shown:
        return None
    measure = main_measure([one.run for one in subject.shown])
    runs = [one.run for one in subject.shown]
    rows: list[tuple[str, list[str]]] = []
    if measure:
        rows.append(("MAP" if measure == "AP" else measure, [f"{run.means[measure]:.3f}" for run in runs]))
    if any(one.own_language for one in subject.shown):
        shares = [f"{one.own_language[0]:.0%}" if one.own_language else "–" for one in subject.shown]
        rows.append(("own-language share of the first hits", shares))
    if any(one.peer is not None for one in subject.shown):
        rows.append(("PEER@100", [f"{one.peer:.3f}" if one.peer is not None else "–" for one in subject.shown]))
    return Table([one.title for one in subject.shown], rows)


def _note(subject: _Subject) -> str:
    if not subject.shown:
        return _how_to_evaluate(subject)
    return (
        "PEER is 1 where equally relevant documents stand at equal ranks whatever their language, 0 where not."
        if any(one.peer is not None for one in subject.shown)
        else ""
    )


def _facts(subject: _Subject, counts: dict[str, int]) -> dict[str, str]:
    collection, kept = subject.collection, subject.kept
    facts = {
        "Collection": f"{collection.name}: " + ", ".join(f"{lang} {count:,}" for lang, count in counts.items()),
        "Encoder": f"{collection.encoder} by {collection.method} ({collection.dim} numbers)",
        "Calibration": "none: plain cosine",
    }
    if kept is not None:
        setting = kept.summary.setting
        taken_out = f"{counted(setting.rank, 'direction')} of each language" if setting.rank else "each language's mean"
        facts["Calibration"] = (
            f"{kept.id}: balance {setting.balance:g}, {setting.margin} margin, {taken_out} taken out, "
            f"decided by {kept.summary.decided_by}"
        )
    for one in subject.shown:
        run = one.run
        facts[f"Evaluation {run.evaluation}"] = (
            f"{run.setup.topics}, {run.topics:,} topics{' over all languages' if run.kind == 'pooled' else ''}, "
            f"{run.created:%Y-%m-%d %H:%M} UTC"
        )
    return facts
