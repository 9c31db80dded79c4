"""``dragoman rollback``: undo a migration, or search the generation from before a rebuild."""

from __future__ import annotations

from dataclasses import asdict

import click

from encoders.console import Console
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.calibration import calibration_table
from query.calibration.lineage import leave_migration
from query.commands.help import Command
from query.commands.options import collection_option, common_options
from query.ranking.query_encoder import query_encoder_spec


@click.command("rollback", cls=Command)
@collection_option("The collection.", from_environment=False)
@common_options
def command(name: str, settings: Settings, console: Console) -> None:
    """Undo dragoman migrate, or else dragoman index --rebuild.

    Nothing is deleted. After a rebuild or a complete --re-encode is undone, the same command returns to it; documents
    indexed since are only there. After any other migration is undone, dragoman migrate migrates again.
    """
    with open_database(settings.database) as engine:
        if calibration_id := leave_migration(engine, name):
            console.emit({"collection": name, "calibration": calibration_id})
            collection = collections.require(engine, name)
            if query_encoder := query_encoder_spec(calibration_table.load(engine, collection)):
                console.result(
                    f"{name} is asked by {query_encoder.encoder} by {query_encoder.method} again "
                    f"(calibration {calibration_id})"
                )
                console.say(f"dragoman rollback once more leaves that migration too: dragoman rollback -c {name}")
                return
            plain = calibration_id == calibration_table.NONE
            ranking = "without a calibration" if plain else f"by calibration {calibration_id}"
            console.result(f"{name} is asked by its own encoder again, and ranked {ranking}")
            if collection.previous:
                console.say("dragoman rollback once more returns to what it was before its rebuild")
            return
        generation = generations.roll_back(engine, name, settings)
    console.emit({"collection": name, **asdict(generation)})
    console.result(
        f"{name} is searched as generation {generation.number} again: "
        f"{generation.encoder} by {generation.method} (model {generation.model})"
    )
