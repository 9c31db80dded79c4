"""Where things are: read once at the edge from options and ``DRAGOMAN_*`` variables, passed on as a plain value."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import platformdirs

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Settings:
    """Where the store, the database and the broker are.

    Attributes:
        home: folder of everything Dragoman keeps; the platform's user-data folder unless said.
        store: URL of the vector store; a ``file:`` URL of a folder under the home unless said.
        database: SQLAlchemy URL of ledger, calibrations and evaluation log; SQLite under the home unless said.
        broker: Celery broker URL; empty: work in this process.
    """

    home: Path
    store: str
    database: str
    broker: str = ""

    @classmethod
    def read(
        cls,
        home: str | Path | None = None,
        store: str | None = None,
        database: str | None = None,
        broker: str | None = None,
    ) -> Settings:
        """Fill what is not given from ``DRAGOMAN_HOME``, ``_STORE``, ``_DATABASE``, ``_BROKER``, then from the defaults."""
        folder = Path(
            home or os.environ.get("DRAGOMAN_HOME") or platformdirs.user_data_dir("dragoman", appauthor=False)
        )
        folder = folder.expanduser().absolute()
        return cls(
            home=folder,
            store=store or os.environ.get("DRAGOMAN_STORE") or (folder / "store").as_uri(),
            database=database or os.environ.get("DRAGOMAN_DATABASE") or f"sqlite:///{folder / 'dragoman.db'}",
            broker=broker or os.environ.get("DRAGOMAN_BROKER") or "",
        )


def place_options(command: Command) -> Command:
    """Add ``--home``, ``--store``, ``--database``, ``--broker``: collect them with ``Settings.read``."""
    for name, text in (
        ("broker", "Broker URL of Celery workers; none: work in this process.  [env: DRAGOMAN_BROKER]"),
        (
            "database",
            "SQLAlchemy URL of the ledger and the evaluation log; default: SQLite in the home.  [env: DRAGOMAN_DATABASE]",
        ),
        ("store", "URL of the vector store; default: a folder in the home.  [env: DRAGOMAN_STORE]"),
        ("home", "Folder of everything Dragoman keeps.  [env: DRAGOMAN_HOME]"),
    ):
        command = click.option(f"--{name}", metavar="DIR" if name == "home" else "URL", help=text)(command)
    return command
