"""``dragoman status``: what is indexed, with what, and what was refused."""

from __future__ import annotations

from typing import Any

import click

from encoders.console import Console
from encoders.methods.vector_parts import shown_weights
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.ledger import tables
from indexer.ledger.database import opened
from indexer.settings import Settings
from indexer.workers.controlling import last_run
from indexer.workers.watching import watch
from query.collections.status import describe
from query.commands.options import output_options, place_options


@click.command("status", short_help="Collections, languages, encoders, calibrations, index runs, refusals.")
@click.option("-c", "--collection", "name", help="Only this collection, with everything refused in it.")
@click.option("--watch", "watched", is_flag=True, help="Look on while workers index a collection, until they are done.")
@click.option("--every", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between two looks.")
@place_options
@output_options
def command(
    name: str | None,
    watched: bool,
    every: float,
    settings: Settings,
    console: Console,
) -> None:
    """Show collections: documents by language, encoder, calibrations, index runs, and what was refused and why."""
    if watched and not name:
        raise click.UsageError("--watch looks at one collection; name it with -c")
    with opened(settings.database) as engine:
        if watched and name:
            watch(engine, last_run(engine, name).id, every, console)
            return
        shown = [collections.require(engine, name)] if name else collections.every(engine)
        described = [describe(engine, collection, settings) for collection in shown]
    for one in described:
        console.emit(one)
    if console.json:
        return
    console.result(f"home: {settings.home}")
    if not described:
        console.result("nothing is indexed yet; begin with: dragoman demo, or: dragoman index SOURCE -c NAME")
    for one in described:
        _show(console, one, whole=bool(name))


def _show(console: Console, one: dict[str, Any], *, whole: bool) -> None:
    languages = "  ".join(f"{lang} {count:,}" for lang, count in one["languages"].items())
    console.result(
        f"\n{one['collection']}: {counted(one['documents'], 'document')}, languages: {len(one['languages'])}"
    )
    console.result(f"  {languages or one['trouble'] or 'no documents'}")
    console.result(f"  encoder {one['encoder']} by {one['method']} ({one['dim']} numbers, model {one['model']})")
    console.result(f"  store {one['store']}")
    if lost := one["not_found"]:
        console.result(
            f"  {counted(lost, 'of them has', 'of them have')} no vector of this model: not found until indexed again"
        )
    if again := one["encoding_again"]:
        do = "the same dragoman migrate --re-encode goes on" if again["searched"] else "it is not asked by them now"
        have = counted(again["documents"], "of them has", "of them have")
        console.result(f"  {have} a vector of model {again['model']} too; {do}")
    if previous := one["previous"]:
        other = previous["number"] != one["generation"]  # encoding again leaves both vectors in one
        console.result(
            f"  generation {one['generation']}; dragoman rollback -c {one['collection']} returns to "
            + (f"{previous['number']}, " if other else "the vectors of ")
            + f"{previous['encoder']} by {previous['method']}"
        )
    if building := one["building"]:
        at_work = any(run["state"] in {tables.READING, tables.RUNNING, tables.PAUSED} for run in one["runs"])
        console.result(
            f"  being rebuilt as generation {building['number']}, {building['encoder']} by {building['method']}"
            + ("" if at_work else "; if no process is at it, give the same dragoman index --rebuild again")
        )
    _show_calibrations(console, one, whole=whole)
    _show_runs(console, one, whole=whole)
    for kind in ("refused", "remarks"):
        notes = one[kind]
        if notes:
            console.result(
                f"  {counted(len(notes), kind.removesuffix('s'), kind)}"
                + ("" if whole else f": dragoman status -c {one['collection']}")
            )
        for note in notes if whole else []:
            console.result(f"    {note['place']}: {note['text']}")


def _show_runs(console: Console, one: dict[str, Any], *, whole: bool) -> None:
    for run in one["runs"] if whole else one["runs"][-1:]:
        done = f"{run['encoded']:,} encoded, {run['unchanged']:,} unchanged, {run['pruned']:,} pruned"
        state = "not ended" if run["state"] == "interrupted" else run["state"]
        console.result(f"  run {run['run']} {state}: {done}; begun {run['started']} UTC")
        if len(run["builds"] or {}) > 1:
            by_build = ", ".join(f"{count:,} by {build}" for build, count in run["builds"].items())
            console.result(f"    builds of the model: {by_build}")
        if run["state"] == "interrupted":
            console.result("    interrupted, if no process is at it: give the same command again")
        if run["state"] == tables.RUNNING:
            console.result(f"    workers are at it: dragoman status --watch -c {one['collection']}")
        if run["state"] == tables.PAUSED:
            console.result(f"    go on: dragoman resume -c {one['collection']}")
        if run["state"] == tables.READING:
            console.result("    its sources are being read; going on, if that broke off: give the same command again")


def _show_calibrations(console: Console, one: dict[str, Any], *, whole: bool) -> None:
    active = [kept for kept in one["calibrations"] if kept["active"]]
    for kept in one["calibrations"] if whole else active:
        weights = f", weights {said}" if (said := shown_weights(kept["weights"])) else ""
        settings = f"balance {kept['balance']:g}, {kept['margin']} margin{weights}, decided by {kept['decided_by']}"
        state = ", active" if kept["active"] and whole else ""
        console.result(f"  calibration {kept['calibration']}: {settings}{state}")
        if kept["map"]:
            console.result(f"    asked through maps: {kept['map']}")
        if kept["active"] and kept["without"]:
            languages = ", ".join(kept["without"])
            console.result(f"    without {languages}: make another: dragoman calibrate -c {one['collection']}")
    if not active:
        of_model = [kept for kept in one["calibrations"] if kept["model"] == one["model"]]
        do = "choose one: dragoman calibrate --use ID" if of_model else "make one: dragoman calibrate"
        console.result(f"  no calibration: plain cosine; {do} -c {one['collection']}")
