"""``dragoman pause``: workers finish their chunks and take no more chunks of a run."""

from __future__ import annotations

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.workers.run_control import pause
from query.commands.help import Command
from query.commands.options import collection_option, common_options


@click.command("pause", cls=Command)
@collection_option("Name of the collection.", from_environment=False)
@common_options
def command(name: str, settings: Settings, console: Console) -> None:
    """Let workers finish their chunks of a collection's run and take no more."""
    with open_database(settings.database) as engine:
        run = pause(engine, name)
    console.emit({"collection": name, "run": run.id, "state": run.state})
    console.result(f"run {run.id} paused; go on: dragoman resume -c {name}")
