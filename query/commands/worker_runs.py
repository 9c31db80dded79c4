"""``dragoman pause``, ``resume`` and ``cancel``: index runs of workers."""

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.ledger.tables import IndexRun
from indexer.workers import run_control
from indexer.workers.hints import Hints
from query.commands.options.common_options import collection_option, common_options, common_options_and_broker
from query.commands.options.help import Command

_collection_option = collection_option("Name of the collection.", required=True)


@click.command("pause", cls=Command)
@_collection_option
@common_options
def pause(name: str, settings: Settings, console: Console) -> None:
    """Let workers finish their chunks of a collection's run and take no more."""
    with open_database(settings.database) as engine:
        run = run_control.pause(engine, name)
    _show(console, name, run, f"paused; go on: dragoman resume -c {name}")


@click.command("resume", cls=Command)
@_collection_option
@common_options_and_broker("needed, here or in the variable.")
def resume(name: str, settings: Settings, console: Console) -> None:
    """Let workers go on with a collection's run after a pause, or after the broker lost its messages."""
    with open_database(settings.database) as engine:
        run = run_control.resume(engine, name, Hints(settings.broker))
    _show(console, name, run, f"goes on; watch it: dragoman status --watch -c {name}")


@click.command("cancel", cls=Command)
@_collection_option
@common_options
def cancel(name: str, settings: Settings, console: Console) -> None:
    """End a collection's run of workers; stored documents stay, and the next dragoman index finds them unchanged."""
    with open_database(settings.database) as engine:
        run = run_control.cancel(engine, name)
    _show(console, name, run, f"is cancelled; stored documents stay: dragoman status -c {name}")


def _show(console: Console, name: str, run: IndexRun, sentence: str) -> None:
    console.show({"collection": name, "run": run.id, "state": run.state}, f"run {run.id} {sentence}")
