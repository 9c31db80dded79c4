"""A study: rankings of a collection by the same topics, with tables, paired tests, pictures, and a page in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from encoders.console import Console
from encoders.errors import BadInput
from encoders.machine.placement import Device
from encoders.phrases import counted
from indexer.collection.settings import Settings
from indexer.ledger.database import now, open_database
from query.calibration.calibration import NONE
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import Evaluation, evaluate_collection, pair_runs
from query.evaluation.drawing import difference_figure, save_figure
from query.evaluation.pair_matrix import MATRICES, matrix_figure, pair_matrix, write_matrix
from query.evaluation.run_table import RunTable, TableRow
from query.evaluation.scored_runs import EvaluationPlan, RunKind, topic_of
from query.lexical_baselines.lexicons import Lexicons
from query.measures.fairness import is_fairness
from query.measures.quality_measures import JUDGED, mean_name, means_of
from query.measures.significance import HIGHER, LOWER, Comparison, Topics, compare, corrected
from query.ranking.ranking_options import RankingOptions
from query.report.figures import inline_svg
from query.report.report_page import ReportPage, Section, Table, render
from query.trec_files.output_files import write_lines
from query.trec_files.topic_set import TopicSet

PLAIN, FAIR = "plain cosine", "fair"
RANKINGS: Mapping[str, RankingOptions] = {
    PLAIN: RankingOptions(NONE),
    "balance 0": RankingOptions(balance=0.0),
    "balance 0.5": RankingOptions(balance=0.5),
    "balance 1": RankingOptions(balance=1.0),
    FAIR: RankingOptions(),
    "hybrid": RankingOptions(hybrid=True),
}
"""The rankings by name: the first is what the others are compared with; fair is as the calibration decides."""

VERDICTS = {HIGHER: "significantly higher", LOWER: "significantly lower", "": "not significantly different"}


@dataclass(frozen=True)
class StudyTable:
    """Systems over the same topics, each compared with the first."""

    file: str  # its files' name
    title: str
    systems: Mapping[str, Topics]  # values by topic id and measure, by name
    measures: Sequence[str]
    kind: RunKind  # whether topics are ``qid.lang``

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """All comparisons with the first system, corrected together."""
        (first, scores), *others = self.systems.items()
        topic = partial(topic_of, self.kind)
        tested = (compare(first, scores, name, of_name, self.measures, topic=topic) for name, of_name in others)
        return corrected([comparison for of_system in tested for comparison in of_system])

    @property
    def run_table(self) -> RunTable:
        """The table as files have it."""
        rows = [TableRow(name, name, len(topics), means_of(topics)) for name, topics in self.systems.items()]
        return RunTable.of(self.measures, rows, self.comparisons)

    def section(self) -> Section:
        """The table, and a sentence on each measure: what is significant and what is not."""
        table = self.run_table
        marks = {key: comparison.mark for key, comparison in table.comparisons.items()}
        rows = [
            (table.label(row), [f"{row.means[name]:.3f}{marks.get((row.run, name), '')}" for name in self.measures])
            for row in table.rows
        ]
        sentences = []
        for measure in self.measures:
            by_mark: dict[str, list[str]] = {}
            for comparison in self.comparisons:
                if comparison.measure == measure:
                    by_mark.setdefault(comparison.mark, []).append(f"{comparison.run} (p {comparison.p_holm:.2g})")
            parts = "; ".join(f"{VERDICTS[mark]}: {', '.join(by_mark[mark])}" for mark in VERDICTS if mark in by_mark)
            sentences.append(f"{mean_name(measure)}, against {next(iter(self.systems))}: {parts}.")
        return Section(self.title, "", " ".join(sentences), Table([*map(mean_name, self.measures)], rows))


def finding(comparison: Comparison) -> str:
    """A comparison as a sentence."""
    return (
        f"{mean_name(comparison.measure)} is {comparison.run_mean:.3f} ({comparison.run}) against "
        f"{comparison.baseline_mean:.3f} ({comparison.baseline}), {VERDICTS[comparison.mark]}: p "
        f"{comparison.p_holm:.2g}, {counted(comparison.observations, 'topic')}."
    )


def study(
    collection: str,
    topic_set: TopicSet,
    settings: Settings,
    plan: EvaluationPlan,
    folder: Path,
    *,
    device: Device = "auto",
    console: Console,
) -> dict[str, Evaluation]:
    """Evaluate a collection by ``RANKINGS``, write the study into a folder, and return the logged evaluations.

    ``plan`` has the measures, and the lexicons of PSQ. Raises BadInput: as ``evaluate_collection``, or the collection
    has no calibration or no relevant document; OSError: the folder can't be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    evaluations = {}
    for name, ranking in RANKINGS.items():
        console.say(f"{name}:")
        is_whole = name in (PLAIN, FAIR)  # with pairs of languages, and beside BM25
        of_name = replace(plan, tag=name, pairs=is_whole, baseline="bm25" if is_whole else "none")
        of_name = of_name if name == FAIR else replace(of_name, lexicons=Lexicons())
        evaluations[name] = evaluate_collection(
            collection, topic_set, settings, of_name, ranking=ranking, device=device, console=console
        )
        if is_whole and not pair_runs(name, evaluations[name].scored_runs.runs):
            raise BadInput(
                f"the collection {collection} has no document that is relevant to a topic; name the collection that "
                "the judgements are of, or other judgements"
            )
    runs = {name: str(evaluation.number) for name, evaluation in evaluations.items()}
    psq = [run.name for run in evaluations[FAIR].scored_runs.runs if run.kind in {"psq", "psq-pooled"}]
    runs |= {"PSQ": f"{runs[FAIR]}.{psq[-1]}"} if psq else {}
    judged = evaluations[FAIR].scored_runs.qrels
    with open_database(settings.database) as engine:
        for name, run_id in runs.items():
            file = folder / f"{name.replace(' ', '-')}.run.txt"
            write_lines(file, evaluation_log.export(engine, run_id))
            write_lines(Path(f"{file}.qrels"), evaluation_log.export_judgements(engine, run_id, judged))
    _write_page(folder, f"A study of {collection}", evaluations)
    return evaluations


def tables(evaluations: Mapping[str, Evaluation]) -> list[StudyTable]:
    """All rankings; bias between languages; the topics' own language beside BM25; topics without an answer in it."""
    fair, runs = evaluations[FAIR], {name: evaluation.scored_runs for name, evaluation in evaluations.items()}
    kind: RunKind = fair.scored_runs.main.kind

    def of_languages(ranking: str, of_kind: RunKind) -> Topics:
        return {
            f"{qid}.{lang}" if kind == "pooled" else qid: values
            for lang, scores in runs[ranking].of_kind(of_kind).items()
            for qid, values in scores.topics.items()
        }

    quality = [str(measure) for measure in fair.plan.measures if str(measure) != JUDGED] or [JUDGED]
    systems = {name: of_name.main.scores.topics for name, of_name in runs.items()}
    psq = of_languages(FAIR, "psq")
    with_psq = systems | ({"PSQ": psq} if psq else {})
    study_tables = [StudyTable("systems", "Which ranking is better", with_psq, quality, kind)]
    if bias := [name for name in fair.means if is_fairness(name)]:
        study_tables.append(StudyTable("bias", "Bias between languages", systems, bias, kind))
    own = {"BM25": of_languages(FAIR, "bm25"), PLAIN: of_languages(PLAIN, "same"), FAIR: of_languages(FAIR, "same")}
    if own[FAIR]:
        study_tables.append(StudyTable("own-language", "Within the topics' own language", own, quality, kind))
    for title, has_answer in (("with", True), ("without", False)):
        group = {
            name: chosen
            for name, topics in study_tables[0].systems.items()
            if (chosen := {qid: values for qid, values in topics.items() if (qid in own[FAIR]) == has_answer})
        }
        if FAIR in group and group[FAIR].keys() != systems[FAIR].keys():
            heading = f"Topics {title} an answer in their own language"
            study_tables.append(StudyTable(f"{title}-own-answer", heading, group, quality, kind))
    return study_tables


def _write_page(folder: Path, title: str, evaluations: Mapping[str, Evaluation]) -> None:
    """Write tables, pictures and the page."""
    study_tables = tables(evaluations)
    for table in study_tables:
        for ending in (".tex", ".csv"):
            table.run_table.write(folder / f"{table.file}{ending}")
    pairs = {name: pair_runs(name, evaluations[name].scored_runs.runs) for name in (FAIR, PLAIN)}
    matrix = pair_matrix(FAIR, study_tables[0].measures[0], pairs[FAIR], PLAIN, pairs[PLAIN])
    for ending in MATRICES:
        write_matrix(matrix, folder / f"pairs{ending}")
    main = next(c for c in study_tables[0].comparisons if (c.run, c.measure) == (FAIR, matrix.measure))
    save_figure(difference_figure([main]), folder / "topics.png")
    marks = [matrix.mark(pair) for pair in matrix.means]
    of_pairs = (
        f"{mean_name(matrix.measure)} of topics among documents in one language, ranked fairly. Of "
        f"{counted(len(marks), 'pair')} {marks.count(HIGHER)} are significantly higher than by plain cosine, "
        f"{marks.count(LOWER)} lower, {marks.count('')} not significantly different."
    )
    of_topics = f"Ranked fairly, {counted(main.wins, 'topic')} are better, {main.losses} worse, {main.ties} alike."
    pictures = (
        ("Pairs of languages", partial(matrix_figure, matrix), "pairs", of_pairs),
        ("Topic by topic", partial(difference_figure, [main]), "topics", of_topics),
    )
    drawn = [Section(heading, inline_svg(draw, name, text), text) for heading, draw, name, text in pictures]
    note = (
        f"{HIGHER} and {LOWER}: significantly higher or lower than the first row by the paired randomisation test over "
        f"topics, Holm's correction over a table. Of the first ten hits {evaluations[FAIR].means[JUDGED]:.0%} are "
        "judged, ranked fairly; the others count as not relevant."
    )
    numbers = ", ".join(f"{evaluation.number} {name}" for name, evaluation in evaluations.items())
    settings = evaluations[FAIR].setup.settings
    facts = {"Topics": evaluations[FAIR].topic_set.name, "Encoder": settings["encoder"], "Evaluations": numbers}
    facts["Documents"] = ", ".join(f"{lang} {count:,}" for lang, count in settings["languages"].items())
    facts |= {"PSQ ranks by": ", ".join(settings["lexicons"])} if "lexicons" in settings else {}
    sections = [table.section() for table in study_tables] + drawn
    page = ReportPage(title, finding(main), None, note, facts, sections, f"{now():%Y-%m-%d}")
    write_lines(folder / "study.html", [render(page)])
