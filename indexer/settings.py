"""Where things are: read once at the edge from options and ``DRAGOMAN_*`` variables, passed on as a plain value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import platformdirs

from encoders.errors import BadInput
from indexer.elastic.address import Credentials, without_credentials


@dataclass(frozen=True)
class Settings:
    """Where the store, the database and the broker are.

    Attributes:
        home: folder of everything Dragoman keeps; the platform's user-data folder unless said.
        store: URL of the vector store, without credentials; a ``file:`` URL of a folder under the home unless said.
        database: SQLAlchemy URL of ledger, calibrations and evaluation log; SQLite under the home unless said.
        broker: Celery broker URL; empty: work in this process.
        credentials: for a store on a server; of the URL it was given by, or the environment.
        store_stated: whether the store was named for this call, and not in the environment or by default.
    """

    home: Path
    store: str
    database: str
    broker: str = ""
    credentials: Credentials = field(default_factory=Credentials, repr=False)
    store_stated: bool = False

    @property
    def home_store(self) -> str:
        """URL of the store in the home: where collections are unless ``store`` says otherwise."""
        return (self.home / "store").as_uri()

    @classmethod
    def read(
        cls,
        home: str | Path | None = None,
        store: str | None = None,
        database: str | None = None,
        broker: str | None = None,
    ) -> Settings:
        """Fill what is not given from ``DRAGOMAN_HOME``, ``_STORE``, ``_DATABASE``, ``_BROKER``, then by default."""
        folder = Path(
            home or os.environ.get("DRAGOMAN_HOME") or platformdirs.user_data_dir("dragoman", appauthor=False)
        )
        folder = folder.expanduser().absolute()
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"the home {folder} is a file, not a folder; name another with --home or DRAGOMAN_HOME")
        place = store or os.environ.get("DRAGOMAN_STORE") or (folder / "store").as_uri()
        return cls(
            home=folder,
            store=without_credentials(place),
            credentials=Credentials.read(place),
            database=database or os.environ.get("DRAGOMAN_DATABASE") or f"sqlite:///{folder / 'dragoman.db'}",
            broker=broker or os.environ.get("DRAGOMAN_BROKER") or "",
            store_stated=bool(store),
        )

    def check_store(self, collection: str, store: str) -> None:
        """Refuse a store named for a collection that lives in another: where it lives was settled when it was made.

        Raises:
            BadInput: it does.
        """
        if self.store_stated and _place(self.store) != _place(store):
            raise BadInput(
                f"collection {collection} lives in {store}, not in {self.store}; leave --store out, "
                "or name another collection with -c"
            )


def _place(store: str) -> str:
    """A store's URL as it compares: folders by their absolute path."""
    parts = urlsplit(store)
    folder = url2pathname(parts.path) if parts.scheme == "file" else "" if parts.scheme else store
    return str(Path(folder).expanduser().absolute()) if folder else store.rstrip("/")
