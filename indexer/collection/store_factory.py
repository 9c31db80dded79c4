"""Open and remove stores by their URL: embedded, on a server, or attached to a user's index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from encoders.errors import BadInput, StoreError
from indexer.elastic.address import SCHEMES, Address, Credentials
from indexer.stores.attached.address import Attachment, is_attached
from indexer.stores.contract import VectorStore
from indexer.stores.elastic.own_index import Claim, drop, generations

if TYPE_CHECKING:
    from indexer.stores.attached.base import JoinedStore


def open_store(
    url: str,
    collection: str,
    generation: int = 1,
    *,
    make: bool = True,
    credentials: Credentials | None = None,
    database_id: str = "",
) -> VectorStore:
    """Open the store of a collection by the store's URL.

    Args:
        url: ``file:///folder`` or a folder's path, or ``https://host:9200/prefix`` of Elasticsearch.
        collection: name of the collection.
        generation: number of the collection's generation.
        make: create a missing store; otherwise a missing store is an error.
        credentials: credentials for a server; None: those in the URL or the environment.
        database_id: id of the database that has the collection: on a server, a collection of the same name in another
            database is not opened.

    Raises:
        BadInput: there is no store for such a URL, the collection's name is invalid, or the store belongs to somebody
            else.
        MissingPart: the store needs a part that is not installed.
        StoreError: the store can't be opened, or is missing and ``make`` is false.
    """
    if is_attached(url):
        credentials = credentials or Credentials.read(url)
        return open_attached(Attachment.parse(url), collection, credentials, make=make, database_id=database_id)
    if urlsplit(url).scheme in SCHEMES:
        from indexer.stores.elastic.store import ElasticStore  # noqa: PLC0415 - half a second

        credentials = credentials or Credentials.read(url)
        return ElasticStore(Address.parse(url), collection, credentials, generation, make=make, database_id=database_id)
    from indexer.stores.embedded import EmbeddedStore, path_of  # noqa: PLC0415 - imports SQLAlchemy

    path = path_of(_folder(url), collection, generation)
    if not make and not path.is_file():
        raise StoreError(f"the store {path} is gone; bring it back, or remove the collection and index it again")
    return EmbeddedStore(_folder(url), collection, generation)


def open_attached(
    attachment: Attachment, collection: str, credentials: Credentials, *, make: bool = False, database_id: str = ""
) -> JoinedStore:
    """Open the store of a collection that is attached to a user's index.

    Raises:
        BadInput: the users' index is gone, or vectors can't be attached to it any more.
        StoreError: the store can't be opened, or is missing and ``make`` is false.
    """
    if attachment.companion:
        from indexer.stores.attached.companion_index import CompanionStore  # noqa: PLC0415 - half a second

        return CompanionStore(attachment, collection, credentials, make=make, database_id=database_id)
    from indexer.stores.attached.in_place import AttachedStore  # noqa: PLC0415

    return AttachedStore(attachment, credentials)


def drop_store(
    url: str, collection: str, generation: int = 1, *, credentials: Credentials | None = None, database_id: str = ""
) -> None:
    """Remove a generation's store, even if it can't be opened any more, or was never created.

    The parameters are those of ``open_store``. On a server, another database's index stays.

    Raises:
        BadInput: there is no store for such a URL.
        StoreError: the store can't be removed.
    """
    if is_attached(url):
        _drop_attached(Attachment.parse(url), collection, credentials or Credentials.read(url), database_id)
        return
    if urlsplit(url).scheme in SCHEMES:
        drop(Address.parse(url), Claim(collection, database_id), credentials or Credentials.read(url), generation)
        return
    from indexer.stores.embedded import path_of, remove_file  # noqa: PLC0415

    path = path_of(_folder(url), collection, generation)
    try:
        remove_file(path)
    except OSError as error:
        raise StoreError(f"the store {path} can't be removed ({error.strerror}); see that it is yours") from error


def stored_generations(
    url: str, collection: str, *, credentials: Credentials | None = None, database_id: str = ""
) -> list[int]:
    """Numbers of a collection's generations that have a store, also of those that no row names any more.

    Raises:
        BadInput: there is no store for such a URL.
        StoreError: the server is away or refuses.
    """
    if is_attached(url):
        return []  # an attached collection has a single generation, whose number is known
    if urlsplit(url).scheme in SCHEMES:
        return generations(Address.parse(url), Claim(collection, database_id), credentials or Credentials.read(url))
    from indexer.stores import embedded  # noqa: PLC0415

    return embedded.generations(_folder(url), collection)


def _drop_attached(attachment: Attachment, collection: str, credentials: Credentials, database_id: str) -> None:
    if attachment.companion:
        drop(attachment.address, Claim(collection, database_id, attachment.index), credentials)
        return
    from indexer.stores.attached.in_place import detach  # noqa: PLC0415

    detach(attachment, credentials)


def _folder(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme not in {"", "file"}:
        raise BadInput(
            f"there is no store for {parts.scheme}: URLs; give a folder, a file: URL of one, "
            "or https://HOST:9200/PREFIX of Elasticsearch"
        )
    return Path(url2pathname(parts.path) if parts.scheme else url).expanduser()
