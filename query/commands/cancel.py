"""``dragoman cancel``: end an index run of workers; documents that are stored stay."""

from __future__ import annotations

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.workers.run_control import cancel
from query.commands.help import Command
from query.commands.options import collection_option, common_options


@click.command("cancel", cls=Command)
@collection_option("Name of the collection.", from_environment=False)
@common_options
def command(name: str, settings: Settings, console: Console) -> None:
    """End a collection's run of workers; stored documents stay, and the next dragoman index finds them unchanged."""
    with open_database(settings.database) as engine:
        run = cancel(engine, name)
    console.emit({"collection": name, "run": run.id, "state": run.state})
    console.result(f"run {run.id} is cancelled; stored documents stay: dragoman status -c {name}")
