"""One runner for all tables: the fields of a dataclass are its options, and ``compute`` makes the table."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import click
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Encoder
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, require_writable
from papers.cached_encoder import CachedEncoder
from query.commands.options.common_options import common_options
from query.commands.options.help import Command
from query.evaluation.evaluation_log import EvaluationRow


def option(*names: str | Callable[..., Any], **settings: Any) -> Any:
    """A field that an option gives, named as the field unless click's names are given.

    A decorator of ``query.commands.options`` stands in place of names. Without arguments the field gets its value from
    the option of another field.
    """
    return field(metadata={"names": names, "settings": settings})


@dataclass(frozen=True, kw_only=True)
class Table:
    """What every table of a paper gets; a subclass has the options in the order of its help."""

    settings: Settings
    console: Console

    def compute(self) -> None:
        """Compute the table, print it, and log its runs."""
        raise NotImplementedError

    def open_log(self) -> sa.Engine:
        """The evaluation log, open until the command ends."""
        engine: sa.Engine = click.get_current_context().with_resource(open_database(self.settings.database))
        require_writable(engine, EvaluationRow)
        return engine

    def cached(self, encoder: Encoder) -> CachedEncoder:
        """The encoder with the cache of vectors in the home."""
        return CachedEncoder(encoder, self.settings.home, self.console)


def command_of(table: type[Table], name: str) -> click.Command:
    """The command that computes a table; its help is the table's docstring."""

    def compute(**values: Any) -> None:
        table(**values).compute()

    compute.__doc__ = table.__doc__
    command = common_options(compute)
    for table_field in reversed(fields(table)):
        names, settings = table_field.metadata.get("names", ()), table_field.metadata.get("settings", {})
        if names and callable(names[0]):
            command = names[0](command)
        elif names or settings:
            command = click.option(*(names or [f"--{table_field.name.replace('_', '-')}"]), **settings)(command)
    return click.command(name, cls=Command)(command)
