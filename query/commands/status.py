"""``dragoman status``: collections, their documents, encoders, calibrations, index runs and refused records."""

from __future__ import annotations

from typing import Any

import click

from encoders.console import Console
from encoders.methods.vector_parts import shown_weights
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger import tables
from indexer.ledger.database import opened
from indexer.workers.controlling import last_run
from indexer.workers.watching import run_views
from query.collections.status import describe
from query.commands.options import common_options
from query.commands.output.run_progress import show_views


@click.command("status")
@click.option("-c", "--collection", "name", help="Only this collection, with everything refused in it.")
@click.option("--watch", "watched", is_flag=True, help="Look on while workers index a collection, until they are done.")
@click.option("--every", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between two looks.")
@common_options
def command(name: str | None, watched: bool, every: float, settings: Settings, console: Console) -> None:
    """Show collections: documents by language, encoder, calibrations, index runs, and what was refused and why."""
    if watched and not name:
        raise click.UsageError("--watch looks at one collection; name it with -c")
    with opened(settings.database) as engine:
        if watched and name:
            show_views(run_views(engine, last_run(engine, name).id, every, console), console)
            return
        selected = [collections.require(engine, name)] if name else collections.all_collections(engine)
        statuses = [describe(engine, collection, settings) for collection in selected]
    for status in statuses:
        console.emit(status)
    if console.json:
        return
    console.result(f"home: {settings.home}")
    if not statuses:
        console.result("nothing is indexed yet; begin with: dragoman demo, or: dragoman index SOURCE -c NAME")
    for status in statuses:
        _show_collection(console, status, full=bool(name))


def _show_collection(console: Console, status: dict[str, Any], *, full: bool) -> None:
    languages = "  ".join(f"{lang} {count:,}" for lang, count in status["languages"].items())
    console.result(
        f"\n{status['collection']}: {counted(status['documents'], 'document')}, languages: {len(status['languages'])}"
    )
    console.result(f"  {languages or status['trouble'] or 'no documents'}")
    console.result(
        f"  encoder {status['encoder']} by {status['method']} ({status['dim']} numbers, model {status['model']})"
    )
    console.result(f"  store {status['store']}")
    if absent := status["not_found"]:
        console.result(
            f"  {counted(absent, 'of them has', 'of them have')} no vector of this model: not found until indexed again"
        )
    if re_encoding := status["encoding_again"]:
        searched = re_encoding["searched"]
        advice = "the same dragoman migrate --re-encode goes on" if searched else "it is not asked by them now"
        having = counted(re_encoding["documents"], "of them has", "of them have")
        console.result(f"  {having} a vector of model {re_encoding['model']} too; {advice}")
    if previous := status["previous"]:
        rebuilt = previous["number"] != status["generation"]  # encoding again keeps both vectors in the same generation
        console.result(
            f"  generation {status['generation']}; dragoman rollback -c {status['collection']} returns to "
            + (f"{previous['number']}, " if rebuilt else "the vectors of ")
            + f"{previous['encoder']} by {previous['method']}"
        )
    if building := status["building"]:
        at_work = any(run["state"] in {tables.READING, tables.RUNNING, tables.PAUSED} for run in status["runs"])
        console.result(
            f"  being rebuilt as generation {building['number']}, {building['encoder']} by {building['method']}"
            + ("" if at_work else "; if no process is at it, give the same dragoman index --rebuild again")
        )
    _show_calibrations(console, status, full=full)
    _show_runs(console, status, full=full)
    for kind in ("refused", "remarks"):
        notes = status[kind]
        if notes:
            console.result(
                f"  {counted(len(notes), kind.removesuffix('s'), kind)}"
                + ("" if full else f": dragoman status -c {status['collection']}")
            )
        for note in notes if full else []:
            console.result(f"    {note['place']}: {note['text']}")


def _show_runs(console: Console, status: dict[str, Any], *, full: bool) -> None:
    for run in status["runs"] if full else status["runs"][-1:]:
        counts = f"{run['encoded']:,} encoded, {run['unchanged']:,} unchanged, {run['pruned']:,} pruned"
        state = "not ended" if run["state"] == "interrupted" else run["state"]
        console.result(f"  run {run['run']} {state}: {counts}; begun {run['started']} UTC")
        if len(run["builds"] or {}) > 1:
            by_build = ", ".join(f"{count:,} by {build}" for build, count in run["builds"].items())
            console.result(f"    builds of the model: {by_build}")
        if run["state"] == "interrupted":
            console.result("    interrupted, if no process is at it: give the same command again")
        if run["state"] == tables.RUNNING:
            console.result(f"    workers are at it: dragoman status --watch -c {status['collection']}")
        if run["state"] == tables.PAUSED:
            console.result(f"    go on: dragoman resume -c {status['collection']}")
        if run["state"] == tables.READING:
            console.result("    its sources are being read; going on, if that broke off: give the same command again")


def _show_calibrations(console: Console, status: dict[str, Any], *, full: bool) -> None:
    active = [calibration for calibration in status["calibrations"] if calibration["active"]]
    for calibration in status["calibrations"] if full else active:
        weights = f", weights {weights_text}" if (weights_text := shown_weights(calibration["weights"])) else ""
        setting = f"balance {calibration['balance']:g}, {calibration['margin']} margin{weights}"
        state = ", active" if calibration["active"] and full else ""
        console.result(
            f"  calibration {calibration['calibration']}: {setting}, decided by {calibration['decided_by']}{state}"
        )
        if calibration["map"]:
            console.result(f"    asked through maps: {calibration['map']}")
        if calibration["active"] and calibration["without"]:
            languages = ", ".join(calibration["without"])
            console.result(f"    without {languages}: make another: dragoman calibrate -c {status['collection']}")
    if not active:
        of_model = [calibration for calibration in status["calibrations"] if calibration["model"] == status["model"]]
        advice = "choose one: dragoman calibrate --use ID" if of_model else "make one: dragoman calibrate"
        console.result(f"  no calibration: plain cosine; {advice} -c {status['collection']}")
