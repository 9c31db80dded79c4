"""Logged runs for a person, and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from encoders.console import Console, Part, values_of
from encoders.table_layout import Table
from query.commands.output.calibrations import taught_parts
from query.commands.output.evaluations import RELEVANT, relevant_counts_json, relevant_counts_parts
from query.evaluation.evaluation_log import LoggedRun
from query.evaluation.run_settings import ranking_in_words, settings_in_words
from query.evaluation.scored_runs import BASELINES, POOLED_KINDS


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
