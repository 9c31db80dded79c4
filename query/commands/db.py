"""``dragoman db``: look after the SQL database."""

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from indexer.ledger.database import open_engine, upgrade
from query.commands.options.common_options import common_options
from query.commands.options.help import Group


@click.group("db", cls=Group)
def command() -> None:
    """Look after the SQL database of ledger and evaluation log."""


@command.command("upgrade")
@common_options
def upgrade_command(settings: Settings, console: Console) -> None:
    """Bring the database's tables to this version; on SQLite this happens by itself."""
    engine = open_engine(settings.database)
    try:
        version = upgrade(engine)
    finally:
        engine.dispose()
    console.show({"version": version}, f"the tables are of version {version}")
