"""``dragoman cancel``: end an index run of workers; documents that are stored stay."""

from __future__ import annotations

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.workers.run_control import cancel
from query.commands.options import collection_option, common_options


@click.command("cancel")
@collection_option("Name of the collection.", from_environment=False)
@common_options
def command(name: str, settings: Settings, console: Console) -> None:
    """Give up a collection's run of workers. What is stored stays, and the next dragoman index finds it unchanged."""
    with open_database(settings.database) as engine:
        run = cancel(engine, name)
    console.emit({"collection": name, "run": run.id, "state": run.state})
    console.result(f"run {run.id} is given up; what is stored stays: dragoman status -c {name}")
