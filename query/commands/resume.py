"""``dragoman resume``: continue a paused run, or send the messages again that a broker lost."""

from __future__ import annotations

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.workers.hints import Hints
from indexer.workers.run_control import resume
from query.commands.help import Command
from query.commands.options import collection_option, common_options_and_needed_broker


@click.command("resume", cls=Command)
@collection_option("Name of the collection.", from_environment=False)
@common_options_and_needed_broker
def command(name: str, settings: Settings, console: Console) -> None:
    """Let workers go on with a collection's run after a pause, or after the broker lost its messages."""
    with open_database(settings.database) as engine:
        run = resume(engine, name, Hints(settings.broker))
    console.emit({"collection": name, "run": run.id, "state": run.state})
    console.result(f"run {run.id} goes on; watch it: dragoman status --watch -c {name}")
