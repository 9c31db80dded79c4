"""Evaluations for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from encoders.console import Console
from query.commands.output.calibrations import show_taught
from query.commands.output.comparisons import comparison_json, show_comparisons
from query.commands.output.pair_matrices import pair_matrix_json, show_pair_matrix
from query.evaluation.collection_evaluation import Evaluation
from query.evaluation.scored_runs import BASELINES, POOLED_KINDS, EvaluationPlan, RunKind, ScoredRuns
from query.measures.fairness import DEPTH, LPR, OWN_LANGUAGE, PEER, TLR, TLR_DEPTH, RelevantCounts, is_fairness
from query.measures.quality_measures import mean_name, pooled
from query.measures.significance import Comparison

RELEVANT = "the relevant documents"
"""What an encoder is measured by in an evaluation."""


def show_evaluation(evaluation: Evaluation, console: Console) -> None:
    """Print an evaluation's remarks and its table of runs."""
    number, scored_runs, plan = evaluation.number, evaluation.scored_runs, evaluation.plan
    for remark in scored_runs.remarks:
        console.warn(remark)
    own_language = _own_language_means(scored_runs, plan)
    measures = [str(measure) for measure in plan.measures]
    fair = [measure for measure in scored_runs.main.scores.means if is_fairness(measure)]
    columns = ["topics in", ">topics", *(f">{_heading(measure)}" for measure in [*measures, *fair])]
    columns += [f">{_heading(measures[0])} same\nlanguage"] if own_language else []
    columns += [f">{BASELINES[kind]}\nthere" for kind in own_language if kind in BASELINES]
    rows = []
    for run in scored_runs.runs:
        if run.kind not in {"language", "pooled", "psq", "psq-pooled"}:
            continue
        topics_in = "all, pooled" if run.kind in POOLED_KINDS else run.lang
        row = [f"{topics_in}, PSQ" if run.kind in BASELINES else topics_in, f"{len(run.scores.topics):,}"]
        row += [_figure(measure, run.scores.means.get(measure)) for measure in [*measures, *fair]]
        means = [None if run.kind in BASELINES else by_lang.get(run.lang) for by_lang in own_language.values()]
        row += [f"{mean:.3f}" if mean is not None else "–" for mean in means]
        rows.append([*row, f"{number}.{run.name}"])
    console.table([*columns, "run"], rows, title=f"{plan.tag}, evaluation {number}")
    for measure in fair:
        console.result(_meaning(measure, len(scored_runs.targets)))
    show_relevant_counts(scored_runs.main.relevant_counts, console)
    show_taught(evaluation.taught, RELEVANT, console)
    for sentence in _omitted_topics(scored_runs):
        console.say(sentence)
    if (seconds := evaluation.setup.settings.get("reranking_seconds")) is not None:
        console.say(f"reranking took {seconds:,.1f} s in all")
    console.say(f"Logged as evaluation {number}; every topic's scores: dragoman runs show {number}")


def show_compared(evaluation: Evaluation, console: Console) -> None:
    """Print an evaluation, and its comparisons if it has runs to compare with."""
    show_evaluation(evaluation, console)
    matrix = evaluation.pair_matrix()
    if matrix:
        show_pair_matrix(matrix, console)
    psq_matrix = evaluation.psq_pair_matrix()
    if psq_matrix:
        show_pair_matrix(psq_matrix, console)
    comparisons = evaluation.comparisons()
    if comparisons:
        show_comparisons(comparisons, console)
    matrices = {"pairs": matrix, "psq_pairs": psq_matrix}
    console.emit(
        {
            **evaluation_json(evaluation, comparisons),
            **{name: pair_matrix_json(shown) for name, shown in matrices.items() if shown},
        }
    )


def _own_language_means(scored_runs: ScoredRuns, plan: EvaluationPlan) -> dict[RunKind, dict[str, float]]:
    """Means of the first measure within each topic language, by the kind of run; ``mul`` is the pool."""
    measure = str(plan.measures[0])
    kinds: tuple[RunKind, ...] = ("same", "bm25")
    by_kind = {kind: scores for kind in kinds if (scores := scored_runs.of_kind(kind))}
    return {
        kind: {lang: of_lang.means[measure] for lang, of_lang in scores.items()}
        | {"mul": pooled(scores, plan.measures).means[measure]}
        for kind, scores in by_kind.items()
    }


def _omitted_topics(scored_runs: ScoredRuns) -> Iterable[str]:
    for run in scored_runs.runs:
        if run.kind == "language" and (count := len(run.scores.unjudged)):
            yield f"topics in {run.lang} that have nothing relevant in the qrels, and are left out: {count}"
        if run.kind == "language" and (count := len(run.scores.without_hits)):
            yield f"topics in {run.lang} that found nothing, and count 0: {count}"


def _heading(measure: str) -> str:
    return "own\nlanguage" if measure == OWN_LANGUAGE else mean_name(measure)


def _figure(measure: str, mean: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.0%}" if measure == OWN_LANGUAGE else f"{mean:.3f}"


def _meaning(measure: str, targets: int) -> str:
    return {
        OWN_LANGUAGE: f"own language: of the first {targets} hits, the share in the topic's language; "
        f"{1 / targets:.0%} would be fair, one hit for each of the {targets} languages.",
        PEER: f"{PEER}: 1 where equally relevant documents stand at equal ranks whatever their language, 0 where not.",
        TLR: f"{TLR}: share of the relevant documents in other languages than the topic's that are in the first "
        f"{TLR_DEPTH} hits.",
        LPR: f"{LPR}: share of topics whose first relevant hit is in the topic's language, over topics with relevant "
        "documents in that and another language.",
    }[measure]


def evaluation_json(evaluation: Evaluation, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """An evaluation as JSON values."""
    number, scored_runs = evaluation.number, evaluation.scored_runs
    return {
        "evaluation": number,
        **asdict(evaluation.setup),
        "runs": [
            {
                "id": f"{number}.{run.name}",
                "kind": run.kind,
                "lang": run.lang,
                "topics": len(run.scores.topics),
                "means": dict(run.scores.means),
                "found": relevant_counts_json(run.relevant_counts),
                "unjudged": list(run.scores.unjudged),
                "without_hits": list(run.scores.without_hits),
            }
            for run in scored_runs.runs
        ],
        "comparisons": [comparison_json(comparison) for comparison in comparisons],
        "remarks": scored_runs.remarks,
    }


def show_relevant_counts(counts_by_lang: Mapping[str, RelevantCounts], console: Console) -> None:
    """Print a table of the relevant documents among the first hundred, by language; nothing if none was counted."""
    if counts_by_lang:
        console.table(
            ["documents in", ">relevant", f">in the first {DEPTH}", ">share"],
            [
                [lang, f"{counts.relevant:,}", f"{counts.retrieved:,}", f"{counts.share:.1%}"]
                for lang, counts in counts_by_lang.items()
            ],
        )


def relevant_counts_json(counts_by_lang: Mapping[str, RelevantCounts]) -> dict[str, Any]:
    """Relevant documents, and those retrieved, by language as JSON values."""
    return {
        lang: {"found": counts.retrieved, "relevant": counts.relevant, "share": round(counts.share, 6)}
        for lang, counts in counts_by_lang.items()
    }


def show_weeks(weeks: Mapping[str, tuple[int, float]], console: Console) -> None:
    """Print MAP of the rankings that people were shown, by week."""
    rows = [[week, f"{searches:,}", f"{value:.3f}"] for week, (searches, value) in weeks.items()]
    console.table(["week of", ">searches", ">MAP of what was shown"], rows, title="by week")
    console.emit({"weeks": {week: {"searches": searches, "AP": value} for week, (searches, value) in weeks.items()}})
