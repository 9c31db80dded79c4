"""Where vectors live: one contract, two stores."""

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from encoders.errors import BadInput, StoreError
from indexer.stores.contract import VectorStore


def open_store(url: str, collection: str, *, make: bool = True) -> VectorStore:
    """Open the store of a collection by the store's URL: ``file:///folder``, or a folder's path.

    Args:
        url: where stores are.
        collection: whose.
        make: make the store where there is none.

    Raises:
        BadInput: the URL is of no kind of store there is, or the collection's name is none a store can carry.
        StoreError: the store can't be opened, or is not there and must be.
    """
    path = _folder(url) / f"{collection}.db"
    if not make and not path.is_file():
        raise StoreError(f"the store {path} is gone; bring it back, or remove the collection and index it again")
    from indexer.stores.embedded import EmbeddedStore  # noqa: PLC0415 - with it comes SQLAlchemy

    return EmbeddedStore(_folder(url), collection)


def drop_store(url: str, collection: str) -> None:
    """Remove a collection's store, also one that can't be opened any more.

    Raises:
        BadInput: the URL is of no kind of store there is.
        StoreError: the store can't be removed.
    """
    from indexer.stores.embedded import remove_file  # noqa: PLC0415

    path = _folder(url) / f"{collection}.db"
    try:
        remove_file(path)
    except OSError as error:
        raise StoreError(f"the store {path} can't be removed ({error.strerror}); see that it is yours") from error


def _folder(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme not in {"", "file"}:
        raise BadInput(f"there is no store for {parts.scheme}: URLs; give a folder, or a file: URL of one")
    return Path(url2pathname(parts.path) if parts.scheme else url).expanduser()
