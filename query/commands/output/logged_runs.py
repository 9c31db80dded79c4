"""Logged runs for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from encoders.console import Console, values_of
from query.commands.output.calibrations import show_taught
from query.commands.output.evaluations import RELEVANT, relevant_counts_json, show_relevant_counts
from query.evaluation.evaluation_log import LoggedRun
from query.evaluation.run_settings import ranking_in_words, settings_in_words
from query.evaluation.scored_runs import BASELINES, POOLED_KINDS

_RUN_NAMES = (
    "id",
    "evaluation",
    "created",
    "name",
    "kind",
    "lang",
    "main",
    "topics",
    "unjudged",
    "without_hits",
    "means",
)


def show_logged_runs(runs: Sequence[LoggedRun], console: Console) -> None:
    """List runs with their means, by at most nine measures."""
    for run in runs:
        console.emit(_run_json(run))
    if not runs:
        console.say("No runs are logged yet; make one: dragoman evaluate --topics T --qrels Q -c NAME")
        return
    measures = list(dict.fromkeys(measure for run in runs for measure in run.means))[:9]
    console.records(
        [
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
    )


def _topics_in(run: LoggedRun) -> str:
    languages = "all, pooled" if run.kind in POOLED_KINDS else " → ".join([run.lang, *(run.documents_in or ())])
    return f"{languages}, {BASELINES[run.kind]}" if run.kind in BASELINES else languages


def show_logged_run(
    run: LoggedRun, scores: Mapping[str, Mapping[str, float]], other_runs: Sequence[str], console: Console
) -> None:
    """Show the settings of a run and every topic's scores.

    Args:
        run: the run.
        scores: its scores by topic id and measure.
        other_runs: ids of the other runs of its evaluation.
        console: shows all this.
    """
    console.emit({**_run_json(run), "scores": scores})
    on = f" on {run.setup.collection}" if run.setup.collection else ""
    console.result(f"run {run.id} of {run.created:%Y-%m-%d %H:%M} UTC{on}, {_topics_in(run)}")
    has_ids = run.setup.model and run.kind not in BASELINES
    names = {"model": run.setup.model, "build": run.setup.build, "space": run.setup.space} if has_ids else {}
    ids = "".join(f" · {name} {value}" for name, value in names.items() if value)
    console.result(f"tag {run.system}{ids}")
    console.result(" · ".join(f"{name} {value}" for name, value in settings_in_words(run).items()))
    console.result(f"topics {run.setup.topics} ({run.setup.topics_hash}) · qrels {run.setup.qrels_hash}")
    if other_runs:
        console.result(f"with {', '.join(other_runs)}")
    if run.unjudged:
        console.result(
            f"topics that have nothing relevant, and are left out ({len(run.unjudged)}): {_first_ten(run.unjudged)}"
        )
    if run.without_hits:
        console.result(
            f"topics that found nothing, and count 0 ({len(run.without_hits)}): {_first_ten(run.without_hits)}"
        )
    rows = [
        [qid, *(f"{values[measure]:.4f}" if measure in values else "–" for measure in run.means)]
        for qid, values in scores.items()
    ]
    rows.append(["mean", *(f"{mean:.4f}" for mean in run.means.values())])
    console.table(["topic", *(f">{measure}" for measure in run.means)], rows)
    show_relevant_counts(run.relevant_counts, console)
    if run.kind not in BASELINES:
        show_taught(run.setup.settings.get("taught", {}), RELEVANT, console)


def _first_ten(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (" …" if len(names) > 10 else "")


def _run_json(run: LoggedRun) -> dict[str, Any]:
    """A logged run as JSON values."""
    return {
        **values_of(run, *_RUN_NAMES),
        "created": f"{run.created.isoformat()}Z",
        **asdict(run.setup),
        "topics": run.topics,
        "topic_files": run.setup.topics,
        "ranking": ranking_in_words(run),
        "found": relevant_counts_json(run.relevant_counts),
    }
