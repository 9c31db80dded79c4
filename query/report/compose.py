"""The report: an HTML page on a collection's language bias, with and without calibration, and its ranking quality."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import now, open_database
from indexer.stores.contract import VectorStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_table import StoredCalibration
from query.evaluation.run_scoring import languages_of
from query.measures.consistency import RBO, overlaps, pair_means
from query.measures.fairness import DEPTH, LPR, PEER, TLR
from query.measures.quality_measures import mean_name
from query.report import sections
from query.report.bias import VectorSample
from query.report.language_pairs import FirstHits, PairTable, logged_rankings, map_by_pair, shares_by_pair
from query.report.report_page import ReportPage, Section, Table, render
from query.report.shown_evaluations import ShownEvaluation, by_topic, common_topics, evaluations, main_measure
from query.trec_files.file_patterns import content_hash
from query.trec_files.output_files import require_writable, write_lines
from query.trec_files.qrels import read_qrels

_SECTIONS = 4


@dataclass(frozen=True)
class _Subject:
    engine: sa.Engine
    collection: Collection
    store: VectorStore
    calibration: Calibration | None
    stored_calibration: StoredCalibration | None
    evaluations: Sequence[ShownEvaluation]
    qrels: Sequence[Path]

    @property
    def name(self) -> str:
        return self.collection.name

    def languages_of(self, doc_ids: Iterable[str]) -> dict[str, str]:
        return languages_of(self.store, self.collection.model, set(doc_ids))


def report(
    collection: str,
    settings: Settings,
    out: Path,
    *,
    evaluation: int | None = None,
    qrels: Sequence[Path] = (),
    console: Console,
) -> Path:
    """Write an HTML page on how fairly languages are ranked and how good the rankings are; returns ``out``.

    The ``evaluation`` is by default the newest. With ``qrels`` there is MAP by language pair, else shares of the first
    hits. Raises BadInput: the collection or the evaluation does not exist, or the file can't be written.
    """
    require_writable(out)
    with open_database(settings.database) as engine:
        row = collections.require(engine, collection)
        row.check_store(settings)
        calibration = calibration_table.load(engine, row)
        stored_calibration = calibration_table.active(engine, row)
        shown_evaluations = evaluations(engine, collection, evaluation)
        with closing(row.open_store(settings)) as store:
            if not store.count():
                raise BadInput(
                    f"collection {collection} holds no documents; put some in: dragoman index SOURCE -c {collection}"
                )
            subject = _Subject(engine, row, store, calibration, stored_calibration, shown_evaluations, qrels)
            write_lines(out, [render(_page(subject, console))])
    return out


def _page(subject: _Subject, console: Console) -> ReportPage:
    counts = subject.store.count()
    shown_sections: list[Section] = []
    with console.progress("report", _SECTIONS, "pictures") as advance:
        for section in _sections(subject, list(counts), console):
            shown_sections.append(section)
            advance(1)
    title = f"How {subject.name} treats its languages"
    footer = f"Made by dragoman {version('dragoman')} on {now():%Y-%m-%d %H:%M} UTC: dragoman report -c {subject.name}"
    table, note = _table(subject), _how_to_evaluate(subject)
    if subject.evaluations:
        peer = "PEER is 1 where equally relevant documents stand at equal ranks whatever their language, 0 where not."
        has_peer = any(PEER in evaluation.means for evaluation in subject.evaluations)
        note = f"{common_topics(subject.evaluations)} {peer if has_peer else ''}".strip()
    return ReportPage(title, _summary(subject, counts), table, note, _facts(subject, counts), shown_sections, footer)


def _sections(subject: _Subject, languages: Sequence[str], console: Console) -> Iterator[Section]:
    if len(languages) < 2:
        yield from sections.nothing_to_compare(languages)
    else:
        sample = VectorSample.draw(subject.store, subject.collection.model, subject.calibration)
        yield sections.languages_section(sample, _how_to_calibrate(subject))
        if subject.calibration is None:
            yield Section(sections.BALANCE, "", _how_to_calibrate(subject))
        else:
            yield sections.balance_section(subject.store, subject.calibration)
        rankings = {
            evaluation.title: logged_rankings(subject.engine, evaluation.run.evaluation, evaluation.ranked, DEPTH)
            for evaluation in subject.evaluations
        }
        by_title = {title: pair_means(overlaps(of_title)) for title, of_title in rankings.items()}
        yield sections.with_overlaps(_pairs(subject, console), by_title)
    yield _topics(subject)


def _how_to_calibrate(subject: _Subject) -> str:
    calibrations = calibration_table.all_calibrations(subject.engine, subject.name)
    if any(calibration.model == subject.collection.model for calibration in calibrations):
        return (
            "It is searched without a calibration, as was chosen; for the picture of after choose one: "
            f"dragoman status -c {subject.name} --calibration"
        )
    return f"It has no calibration yet; for the picture of after make one: dragoman calibrate -c {subject.name}"


def _pairs(subject: _Subject, console: Console) -> Section:
    if subject.evaluations and subject.qrels:
        return _judged_pairs(subject, console)
    cell_meaning = f"Each cell is the share of the first {sections.FIRST} hits that are in the column's language"
    if subject.qrels:
        console.warn(f"there is no evaluation of {subject.name} for the qrels to judge")
    if subject.evaluations:
        tables = {evaluation.title: _logged_shares(subject, evaluation) for evaluation in subject.evaluations}
        return sections.pairs_section(
            tables, "share of the first hits", f"{cell_meaning}, for topics asked in the row's; with --qrels it is MAP."
        )
    if subject.calibration is not None:
        tables = sections.pair_shares(subject.store, subject.calibration)
        sentence = f"{cell_meaning}, for queries in the row's: titles and first sentences of documents."
        return sections.pairs_section(tables, "share of the first hits", sentence)
    return Section(sections.PAIRS, "", _how_to_evaluate(subject))


def _judged_pairs(subject: _Subject, console: Console) -> Section:
    if content_hash(subject.qrels) != subject.evaluations[-1].run.setup.qrels_hash:
        console.warn(
            f"evaluation {subject.evaluations[-1].run.evaluation} was scored with other judgements than "
            f"{', '.join(path.name for path in subject.qrels)}; MAP by language pair is of these"
        )
    judgements = read_qrels(subject.qrels)
    judged = subject.evaluations[-1].run.setup.judged_languages
    of_documents = subject.languages_of(qrel.doc_id for qrel in judgements)
    langs = {doc_id: lang for doc_id, lang in of_documents.items() if judged is None or lang in judged}
    tables = {}
    for evaluation in subject.evaluations:
        rankings = logged_rankings(subject.engine, evaluation.run.evaluation, evaluation.ranked)
        tables[evaluation.title] = map_by_pair(rankings, judgements, langs)
    sentence = (
        "Each cell is the MAP of topics asked in the row's language over the relevant documents in the column's, which "
        "compete with irrelevant documents of all languages."
    )
    return sections.with_verdicts(sections.pairs_section(tables, "MAP", sentence), *list(tables.items())[-1])


def _logged_shares(subject: _Subject, evaluation: ShownEvaluation) -> PairTable:
    rankings = logged_rankings(subject.engine, evaluation.run.evaluation, evaluation.ranked, sections.FIRST)
    first_hits = [(lang, doc_ids) for lang, by_qid in rankings.items() for doc_ids in by_qid.values()]
    langs = subject.languages_of(doc_id for _, doc_ids in first_hits for doc_id in doc_ids)
    hit_langs = [[langs[doc_id] for doc_id in doc_ids if doc_id in langs] for _, doc_ids in first_hits]
    hits = FirstHits([lang for lang, _ in first_hits], hit_langs)
    return shares_by_pair(hits, sorted(subject.store.count()))


def _topics(subject: _Subject) -> Section:
    if not subject.evaluations:
        return Section(sections.TOPICS, "", _how_to_evaluate(subject))
    if len(subject.evaluations) < 2:
        (evaluation,) = subject.evaluations
        option = " --calibration none" if evaluation.run.calibrated else ""
        text = (
            f"No other evaluation can be compared with evaluation {evaluation.run.evaluation}: it needs other "
            "settings, the same judgements, and common topics in the same languages; make it, such as: "
            f"dragoman evaluate --topics T --qrels Q -c {subject.name}{option}"
        )
        return Section(sections.TOPICS, "", text)
    return sections.topics_section(by_topic(*subject.evaluations))


def _how_to_evaluate(subject: _Subject) -> str:
    return f"Nothing is evaluated yet; make a run: dragoman evaluate --topics T --qrels Q -c {subject.name}"


def _summary(subject: _Subject, counts: dict[str, int]) -> str:
    documents = f"{counted(sum(counts.values()), 'document')} in {counted(len(counts), 'language')}."
    own = [
        (evaluation.label, *evaluation.own_language) for evaluation in subject.evaluations if evaluation.own_language
    ]
    if not own:
        return documents
    shares, depth = " and ".join(f"{share:.0%} ({label})" for label, share, _ in own), own[-1][2]
    return (
        f"{documents} Of the first {depth} hits {shares} are in the query's own language; "
        f"{1 / depth:.0%} would be fair."
    )


def _table(subject: _Subject) -> Table | None:
    if not subject.evaluations:
        return None
    measure = main_measure([evaluation.run for evaluation in subject.evaluations])
    rows: list[tuple[str, list[str]]] = []
    if measure:
        rows.append((mean_name(measure), [f"{evaluation.means[measure]:.3f}" for evaluation in subject.evaluations]))
    shares = [evaluation.own_language for evaluation in subject.evaluations]
    if any(shares):
        rows.append(("own-language share of the first hits", [f"{share[0]:.0%}" if share else "–" for share in shares]))
    for measure in (PEER, TLR, LPR, RBO):
        means = [evaluation.means.get(measure) for evaluation in subject.evaluations]
        if any(mean is not None for mean in means):
            rows.append((measure, [f"{mean:.3f}" if mean is not None else "–" for mean in means]))
    return Table([evaluation.title for evaluation in subject.evaluations], rows)


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
    for evaluation in subject.evaluations:
        run = evaluation.run
        taught = "".join(
            f"; {share:.0%} of the relevant documents taught {encoder}"
            for encoder, share in run.setup.settings.get("taught", {}).items()
        )
        facts[f"Evaluation {run.evaluation}"] = (
            f"{run.setup.topics}, {run.topics:,} topics{' over all languages' if run.kind == 'pooled' else ''}, "
            f"{run.created:%Y-%m-%d %H:%M} UTC{taught}"
        )
    return facts
