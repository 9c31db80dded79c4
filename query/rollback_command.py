"""``dragoman rollback``: search the generation again that a rebuild took the place of."""

from __future__ import annotations

from dataclasses import asdict

import click

from encoders.console import Console, output_options
from indexer import generations
from indexer.database import connect
from indexer.settings import Settings, place_options


@click.command("rollback", short_help="Return to what a collection was before its last rebuild.")
@click.option("-c", "--collection", "name", required=True, help="The collection.")
@place_options
@output_options
def command(name: str, settings: Settings, console: Console) -> None:
    """Return to what a collection was before dragoman index --rebuild, with its encoder and its calibration.

    Nothing is lost: the same again goes forward. What was indexed since the rebuild is in the rebuilt one only.
    """
    engine = connect(settings.database)
    try:
        back = generations.roll_back(engine, name, settings)
    finally:
        engine.dispose()
    console.emit({"collection": name, **asdict(back)})
    console.result(
        f"{name} is searched as generation {back.number} again: {back.encoder} by {back.method} (model {back.model})"
    )
