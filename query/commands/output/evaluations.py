"""Evaluations and logged runs for a person, and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from encoders.console import Alert, Console, Note, Part, values_of
from encoders.table_layout import Table
from query.commands.output.calibrations import taught_parts
from query.commands.output.comparisons import comparison_json, comparison_parts, matrix_parts, pair_matrix_json
from query.evaluation.collection_evaluation import Evaluation
from query.evaluation.evaluation_log import LoggedRun
from query.evaluation.run_settings import ranking_in_words, settings_in_words
from query.evaluation.scored_runs import BASELINES, POOLED_KINDS, RunKind
from query.measures.consistency import PERSISTENCE, RBO
from query.measures.fairness import DEPTH, LPR, OWN_LANGUAGE, PEER, TLR, TLR_DEPTH, RelevantCounts, is_fairness
from query.measures.quality_measures import JUDGED, mean_name, pooled
from query.measures.significance import Comparison

RELEVANT = "the relevant documents"
"""What an encoder is measured by in an evaluation."""


def evaluation_parts(evaluation: Evaluation) -> Iterator[Part]:
    """An evaluation's remarks and its table of runs, for people."""
    number, scored_runs = evaluation.number, evaluation.scored_runs
    yield from map(Alert, scored_runs.remarks)
    yield _runs_table(evaluation)
    yield f"{JUDGED}: share of the first ten hits that are judged; the others count as not relevant."
    for measure in scored_runs.main.scores.means:
        if is_fairness(measure):
            yield _meaning(measure, len(scored_runs.targets))
    yield from _overlap_parts(scored_runs.main.overlaps)
    yield from relevant_counts_parts(scored_runs.main.relevant_counts)
    yield from taught_parts(evaluation.taught, RELEVANT)
    for run in scored_runs.runs:
        if run.kind == "language" and (count := len(run.scores.unjudged)):
            yield Note(f"topics in {run.lang} that have nothing relevant in the qrels, and are left out: {count}")
        if run.kind == "language" and (count := len(run.scores.without_hits)):
            yield Note(f"topics in {run.lang} that found nothing, and count 0: {count}")
    if (seconds := evaluation.setup.settings.get("reranking_seconds")) is not None:
        yield Note(f"reranking took {seconds:,.1f} s in all")
    yield Note(f"Logged as evaluation {number}; every topic's scores: dragoman runs show {number}")


def _runs_table(evaluation: Evaluation) -> Table:
    scored_runs, plan = evaluation.scored_runs, evaluation.plan
    measures = [str(measure) for measure in plan.measures]
    kinds: tuple[RunKind, ...] = ("same", "bm25")
    own_language = {  # means of the first measure within each topic language; ``mul`` is the pool
        kind: {lang: of_lang.means[measures[0]] for lang, of_lang in scores.items()}
        | {"mul": pooled(scores, plan.measures).means[measures[0]]}
        for kind in kinds
        if (scores := scored_runs.of_kind(kind))
    }
    measures += [measure for measure in scored_runs.main.scores.means if is_fairness(measure)]
    headings = ["topics in", ">topics", *(f">{_heading(measure)}" for measure in measures)]
    headings += [f">{_heading(measures[0])} same\nlanguage"] if own_language else []
    headings += [f">{BASELINES[kind]}\nthere" for kind in own_language if kind in BASELINES]
    rows = []
    for run in scored_runs.runs:
        if run.kind in {"language", "pooled", "psq", "psq-pooled"}:
            topics_in = "all, pooled" if run.kind in POOLED_KINDS else run.lang
            row = [f"{topics_in}, PSQ" if run.kind in BASELINES else topics_in, f"{len(run.scores.topics):,}"]
            row += [_figure(measure, run.scores.means.get(measure)) for measure in measures]
            means = [None if run.kind in BASELINES else by_lang.get(run.lang) for by_lang in own_language.values()]
            row += [f"{mean:.3f}" if mean is not None else "–" for mean in means]
            rows.append([*row, f"{evaluation.number}.{run.name}"])
    return Table([*headings, "run"], rows, f"{plan.tag}, evaluation {evaluation.number}")


def show_compared(evaluation: Evaluation, console: Console) -> None:
    """Show an evaluation, its matrices of pairs, and its comparisons if it has runs to compare with."""
    matrices = {"pairs": evaluation.pair_matrix(), "psq_pairs": evaluation.psq_pair_matrix()}
    shown = {name: matrix for name, matrix in matrices.items() if matrix}
    comparisons = evaluation.comparisons()
    values = evaluation_json(evaluation, comparisons) | {name: pair_matrix_json(shown[name]) for name in shown}
    parts = chain(evaluation_parts(evaluation), *map(matrix_parts, shown.values()))
    console.show(values, chain(parts, comparison_parts(comparisons) if comparisons else ()))


def _heading(measure: str) -> str:
    return "own\nlanguage" if measure == OWN_LANGUAGE else mean_name(measure)


def _figure(measure: str, mean: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.0%}" if measure == OWN_LANGUAGE else f"{mean:.3f}"


def _meaning(measure: str, targets: int) -> str:
    return {
        OWN_LANGUAGE: f"own language: of the first {targets} hits, the share in the topic's language; "
        f"{1 / max(targets, 1):.0%} would be fair, one hit for each of the {targets} languages.",
        PEER: f"{PEER}: 1 where equally relevant documents stand at equal ranks whatever their language, 0 where not.",
        TLR: f"{TLR}: share of the relevant documents in other languages than the topic's that are in the first "
        f"{TLR_DEPTH} hits.",
        LPR: f"{LPR}: share of topics whose first relevant hit is in the topic's language, over topics with relevant "
        "documents in that and another language.",
        RBO: f"{RBO}: rank-biased overlap (p {PERSISTENCE:g}) of a topic's ranking with those of the same topic in the "
        "other languages; 1 where all are the same.",
    }[measure]


def _overlap_parts(overlaps: Mapping[tuple[str, str], float]) -> Iterator[Part]:
    """The matrix of RBO by pair of topic languages, if there are more than two."""
    langs = sorted({lang for lang, _ in overlaps})
    if len(langs) > 2:
        rows = [[lang, *(f"{overlaps.get((lang, other), 1):.3f}" for other in langs)] for lang in langs]
        yield Table([RBO, *(f">{lang}" for lang in langs)], rows)


def evaluation_json(evaluation: Evaluation, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """An evaluation as JSON values."""
    number, scored_runs = evaluation.number, evaluation.scored_runs
    return {
        "evaluation": number,
        **asdict(evaluation.setup),
        "runs": [
            {
                "id": f"{number}.{run.name}",
                **values_of(run, "kind", "lang"),
                "topics": len(run.scores.topics),
                "means": run.scores.means,
                "found": relevant_counts_json(run.relevant_counts),
                "overlaps": {f"{lang}-{other}": mean for (lang, other), mean in run.overlaps.items() if lang < other},
                **values_of(run.scores, "unjudged", "without_hits"),
            }
            for run in scored_runs.runs
        ],
        "comparisons": list(map(comparison_json, comparisons)),
        "remarks": scored_runs.remarks,
    }


def relevant_counts_parts(counts_by_lang: Mapping[str, RelevantCounts]) -> Iterator[Part]:
    """A table of the relevant documents among the first hundred, by language; nothing if none was counted."""
    if counts_by_lang:
        rows = [
            [lang, f"{counts.relevant:,}", f"{counts.retrieved:,}", f"{counts.share:.1%}"]
            for lang, counts in counts_by_lang.items()
        ]
        yield Table(["documents in", ">relevant", f">in the first {DEPTH}", ">share"], rows)


def relevant_counts_json(counts_by_lang: Mapping[str, RelevantCounts]) -> dict[str, Any]:
    """Relevant documents, and those retrieved, by language as JSON values."""
    return {
        lang: {"found": counts.retrieved, "relevant": counts.relevant, "share": round(counts.share, 6)}
        for lang, counts in counts_by_lang.items()
    }


def show_logged_runs(runs: Sequence[LoggedRun], console: Console) -> None:
    """List runs with their means, by at most ten measures."""
    for run in runs:
        console.show(_run_json(run))
    if not runs:
        console.say("No runs are logged yet; make one: dragoman evaluate --topics T --qrels Q -c NAME")
    measures = list(dict.fromkeys(measure for run in runs for measure in run.means))[:10]
    records = [
        {
            "run": run.id,
            "-ranking": ranking_in_words(run),
            "-collection": run.setup.collection or "–",
            "-when (UTC)": f"{run.created:%Y-%m-%d %H:%M}",
            "-tag": run.system,
            "topics in": _topics_in(run),
            ">topics": f"{run.topics:,}",
            **{f">{measure}": f"{run.means[measure]:.3f}" if measure in run.means else "–" for measure in measures},
        }
        for run in runs
    ]
    console.print([Table.of(records)])


def _topics_in(run: LoggedRun) -> str:
    languages = "all, pooled" if run.kind in POOLED_KINDS else " → ".join([run.lang, *(run.documents_in or ())])
    return f"{languages}, {BASELINES[run.kind]}" if run.kind in BASELINES else languages


def show_logged_run(
    run: LoggedRun, scores: Mapping[str, Mapping[str, float]], other_runs: Sequence[str], console: Console
) -> None:
    """Show the settings of a run, its ``scores`` by topic id and measure, and ids of its evaluation's other runs."""
    console.show({**_run_json(run), "scores": scores}, _run_parts(run, scores, other_runs))


def _run_parts(run: LoggedRun, scores: Mapping[str, Mapping[str, float]], other_runs: Sequence[str]) -> Iterator[Part]:
    on = f" on {run.setup.collection}" if run.setup.collection else ""
    yield f"run {run.id} of {run.created:%Y-%m-%d %H:%M} UTC{on}, {_topics_in(run)}"
    has_ids = run.setup.model and run.kind not in BASELINES
    names = values_of(run.setup, "model", "build", "space") if has_ids else {}
    yield f"tag {run.system}" + "".join(f" · {name} {value}" for name, value in names.items() if value)
    yield " · ".join(f"{name} {value}" for name, value in settings_in_words(run).items())
    yield f"topics {run.setup.topics} ({run.setup.topics_hash}) · qrels {run.setup.qrels_hash}"
    if other_runs:
        yield f"with {', '.join(other_runs)}"
    for topics, trait in (
        (run.unjudged, "have nothing relevant, and are left out"),
        (run.without_hits, "found nothing, and count 0"),
    ):
        if topics:
            yield f"topics that {trait} ({len(topics)}): {', '.join(topics[:10])}{' …' if len(topics) > 10 else ''}"
    rows = [
        [qid, *(f"{values[measure]:.4f}" if measure in values else "–" for measure in run.means)]
        for qid, values in scores.items()
    ]
    rows.append(["mean", *(f"{mean:.4f}" for mean in run.means.values())])
    yield Table(["topic", *(f">{measure}" for measure in run.means)], rows)
    yield from relevant_counts_parts(run.relevant_counts)
    if run.kind not in BASELINES:
        yield from taught_parts(run.setup.settings.get("taught", {}), RELEVANT)


def _run_json(run: LoggedRun) -> dict[str, Any]:
    return {
        **values_of(run, "id", "evaluation", "created", "name", "kind", "lang", "main"),
        **values_of(run, "topics", "unjudged", "without_hits", "means"),
        "created": f"{run.created.isoformat()}Z",
        **asdict(run.setup),
        "topics": run.topics,
        "topic_files": run.setup.topics,
        "ranking": ranking_in_words(run),
        "found": relevant_counts_json(run.relevant_counts),
    }
