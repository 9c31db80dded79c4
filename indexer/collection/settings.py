"""Settings: home, store, database and broker, read once from options and ``DRAGOMAN_*`` variables."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import platformdirs

from encoders.errors import BadInput
from indexer.cluster.cluster_address import Credentials, without_credentials


@dataclass(frozen=True)
class Settings:
    """Where the store, the database and the broker are.

    Attributes:
        home: folder of all Dragoman's files; by default the platform's user-data folder.
        store: URL of the vector store, without credentials; by default a ``file:`` URL of a folder under the home.
        database: SQLAlchemy URL; by default SQLite under the home.
        broker: Celery broker URL; if empty, this process does the work.
        credentials: credentials of a store on a server, from the store's URL or the environment.
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
        """URL of the store in the home, the default place of collections."""
        return (self.home / "store").as_uri()

    def checkpoints(self, collection: str) -> Path:
        """Folder in the home for what is encoded of a collection's very long documents while a run goes on."""
        return self.home / f"{collection}.encoding"

    @classmethod
    def read(
        cls,
        home: str | Path | None = None,
        store: str | None = None,
        database: str | None = None,
        broker: str | None = None,
    ) -> "Settings":
        """Take missing values from ``DRAGOMAN_HOME``, ``_STORE``, ``_DATABASE`` and ``_BROKER``, then the defaults."""
        folder = Path(
            home or os.environ.get("DRAGOMAN_HOME") or platformdirs.user_data_dir("dragoman", appauthor=False)
        )
        folder = folder.expanduser().absolute()
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"the home {folder} is a file, not a folder; name another with --home or DRAGOMAN_HOME")
        store_url = store or os.environ.get("DRAGOMAN_STORE") or (folder / "store").as_uri()
        # SQLAlchemy's own function would import SQLAlchemy in commands that need none
        file = str(folder / "dragoman.db").replace("%", "%25").replace("?", "%3F")
        return cls(
            home=folder,
            store=without_credentials(store_url) if urlsplit(store_url).scheme else _absolute(store_url),
            credentials=Credentials.read(store_url),
            database=database or os.environ.get("DRAGOMAN_DATABASE") or f"sqlite:///{file}",
            broker=broker or os.environ.get("DRAGOMAN_BROKER") or "",
            store_stated=bool(store),
        )

    def states_other_store(self, store: str) -> bool:
        """Whether a store was named for this call, and it is not the store with this URL."""
        return self.store_stated and _comparable(self.store) != _comparable(store)


def _comparable(store: str) -> str:
    """A store's URL in a form to compare: a folder as its absolute path."""
    parts = urlsplit(store)
    folder = file_path(parts.path) if parts.scheme == "file" else "" if parts.scheme else store
    return _absolute(folder) if folder else store.rstrip("/")


def _absolute(folder: str) -> str:
    return str(Path(folder).expanduser().absolute())


def file_path(path: str) -> str:
    """A file's path from the path of its ``file:`` URL."""
    if os.name != "nt":
        return unquote(path)
    from urllib.request import url2pathname  # noqa: PLC0415 - imports HTTP's client

    return url2pathname(path)
