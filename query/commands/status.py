"""``dragoman status``: collections, their documents, encoders, calibrations, index runs and refused records."""

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from query.collections.collection_status import statuses
from query.commands.options.common_options import collection_option, common_options
from query.commands.options.help import Command
from query.commands.options.option_types import default_option, seconds
from query.commands.output.statuses import show_statuses


@click.command("status", cls=Command)
@collection_option("Only this collection, with each reason of a refusal; --json names each file.")
@click.option("--calibration", "decided", is_flag=True, help="What was decided about ranking, and by what.")
@click.option("--watch", "watched", is_flag=True, help="Look on while workers index a collection, until they are done.")
@default_option("--every", seconds(0.1), 2.0, "Seconds between two looks.")
@common_options
def command(name: str | None, decided: bool, watched: bool, every: float, settings: Settings, console: Console) -> None:
    """Show collections: their documents by language, index runs, and what was refused and why."""
    if watched and not name:
        raise click.UsageError("--watch looks at one collection; name it with -c")
    if not (watched or decided):
        show_statuses(statuses(settings, name), settings, console, full=bool(name))
        return
    from indexer.collection import collection as collections  # noqa: PLC0415 - imports SQLAlchemy
    from indexer.ledger.database import open_database  # noqa: PLC0415
    from indexer.workers.run_control import last_run  # noqa: PLC0415
    from indexer.workers.run_watch import run_views  # noqa: PLC0415
    from query.calibration.calibration_table import all_calibrations  # noqa: PLC0415
    from query.commands.output.calibrations import show_calibrations  # noqa: PLC0415
    from query.commands.output.run_progress import show_view  # noqa: PLC0415

    with open_database(settings.database) as engine:
        if watched and name:
            for view in run_views(engine, last_run(engine, name).id, every, console):
                show_view(view, console)
            return
        for collection in [collections.require(engine, name)] if name else collections.all_collections(engine):
            show_calibrations(all_calibrations(engine, collection.name), collection.name, collection.model, console)
