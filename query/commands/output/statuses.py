"""Statuses of collections, for a person and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from encoders.console import Console
from encoders.methods.vector_parts import shown_weights
from encoders.phrases import counted
from indexer.collection.settings import Settings
from query.commands.output.reports import all_notes

_ADVICE = {
    "interrupted": "interrupted, if no process is at it: give the same command again",
    "running": "handed out to workers; see them: dragoman status --watch -c {}",
    "paused": "go on: dragoman resume -c {}",
    "reading": "its sources are being read; going on, if that broke off: give the same command again",
}
"""What to do about a run, by its state."""


def show_statuses(statuses: Sequence[dict[str, Any]], settings: Settings, console: Console, *, full: bool) -> None:
    """Show the status of each collection as ``collection_status.statuses`` has it, and where they are kept.

    ``full``: with every calibration, run and note, else the active calibration, the last run and the number of notes.
    """
    if not statuses:
        console.print("nothing is indexed yet; begin with: dragoman demo, or: dragoman index SOURCE -c NAME")
    for status in statuses:
        console.show(status, _status_lines(status, full=full))
    console.print(f"home: {settings.home}")


def _status_lines(status: dict[str, Any], *, full: bool) -> Iterator[str]:
    languages = "  ".join(f"{lang} {count:,}" for lang, count in status["languages"].items())
    counts = f"{counted(status['documents'], 'document')}, languages: {len(status['languages'])}"
    yield f"{status['collection']}: {'the store could not be read' if status['trouble'] else counts}"
    yield f"  {languages or status['trouble'] or 'no documents'}"
    if absent := status["not_found"]:
        yield (
            f"  {counted(absent, 'of them has', 'of them have')} no vector of this model: not found until indexed again"
        )
    if previous := status["previous"]:
        rebuilt = previous["number"] != status["generation"]  # encoding again keeps both vectors in the same generation
        yield (
            f"  generation {status['generation']}; dragoman rollback -c {status['collection']} returns to "
            + (f"{previous['number']}, " if rebuilt else "the vectors of ")
            + f"{previous['encoder']} by {previous['method']}"
        )
    if building := status["building"]:
        at_work = any(run["state"] in {"reading", "running", "paused"} for run in status["runs"])
        yield (
            f"  being rebuilt as generation {building['number']}, {building['encoder']} by {building['method']}"
            + ("" if at_work else "; if no process is at it, give the same dragoman index --rebuild again")
        )
    yield from _runs(status, full=full)
    yield from _calibrations(status, full=full)
    for kind in ("refused", "remarks"):
        if notes := status[kind]:
            how = "" if full else f": dragoman status -c {status['collection']}"
            yield f"  {counted(len(notes), kind.removesuffix('s'), kind)}{how}"
        yield from (f"    {line}" for line in all_notes(notes) if full)
    yield f"  store {status['store']}"
    yield f"  encoder {status['encoder']} by {status['method']} ({status['dim']} numbers, model {status['model']})"
    yield from (f"  calibration {known['calibration']}" for known in status["calibrations"] if known["active"])
    yield ""


def _runs(status: dict[str, Any], *, full: bool) -> Iterator[str]:
    for run in status["runs"] if full else status["runs"][-1:]:
        counts = f"{run['encoded']:,} encoded, {run['unchanged']:,} unchanged, {run['pruned']:,} pruned"
        state = "not ended" if run["state"] == "interrupted" else run["state"]
        yield f"  run {run['run']} {state}: {counts}; begun {run['started']} UTC"
        if len(run["builds"] or {}) > 1:
            by_build = ", ".join(f"{count:,} by {build}" for build, count in run["builds"].items())
            yield f"    builds of the model: {by_build}"
        if advice := _ADVICE.get(run["state"]):
            yield f"    {advice.format(status['collection'])}"


def _calibrations(status: dict[str, Any], *, full: bool) -> Iterator[str]:
    active = [calibration for calibration in status["calibrations"] if calibration["active"]]
    for calibration in active:
        weights = f", weights {weights_text}" if (weights_text := shown_weights(calibration["weights"])) else ""
        more = f"; why, and earlier ones: dragoman status --calibration -c {status['collection']}" if full else ""
        yield f"  languages are balanced at {calibration['balance']:g} of 1{weights}{more}"
        if calibration["map"]:
            yield f"    asked through maps: {calibration['map']}"
        if calibration["without"]:
            languages = ", ".join(calibration["without"])
            yield f"    without {languages}: make another: dragoman calibrate -c {status['collection']}"
    if not active:
        of_model = [calibration for calibration in status["calibrations"] if calibration["model"] == status["model"]]
        advice = "choose one: dragoman calibrate --use ID" if of_model else "make one: dragoman calibrate"
        yield f"  no calibration: plain cosine; {advice} -c {status['collection']}"
