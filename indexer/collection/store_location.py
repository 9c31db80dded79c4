"""Where a collection's stores are, and the stores that are there: embedded, on a server, or in a user's index."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from encoders.errors import BadInput, StoreError
from indexer.cluster.cluster_address import SCHEMES, Address, Credentials
from indexer.collection.settings import file_path
from indexer.stores.attached.attached_address import Attachment, is_attached
from indexer.stores.contract import VectorStore

if TYPE_CHECKING:
    from indexer.stores.attached.joined_store import JoinedStore


@dataclass(frozen=True)
class StoreLocation:
    """Where the stores of a collection are, one store a generation, and what opens them."""

    url: str  # a folder's path or ``file:`` URL, ``https://host:9200/prefix`` of Elasticsearch, or an ``Attachment``'s
    collection: str  # name of the collection
    credentials: Credentials | None = field(default=None, repr=False)  # None: of the URL or the environment
    database_id: str = ""  # of the collection's database; another database's index is neither opened nor removed

    def open(self, generation: int = 1, *, make: bool = True) -> VectorStore:
        """Open the store of a generation; with ``make`` a missing store is created.

        Raises BadInput: no store has such a URL, the name is invalid, or the store belongs to somebody else;
        MissingPart: a part is not installed; StoreError: the store can't be opened, or is missing without ``make``.
        """
        if is_attached(self.url):
            return self.open_attached(make=make)
        if self._is_on_server:
            from indexer.stores.clustered.store import ElasticStore  # noqa: PLC0415 - half a second

            credentials, address = self._server_credentials(), Address.parse(self.url)
            return ElasticStore(
                address, self.collection, credentials, generation, make=make, database_id=self.database_id
            )
        from indexer.stores.embedded import EmbeddedStore  # noqa: PLC0415 - imports NumPy

        return EmbeddedStore(self._folder(), self.collection, generation, make=make)

    def open_attached(self, *, make: bool = False) -> "JoinedStore":
        """Open the store of a collection that is attached to a user's index.

        Raises BadInput: vectors can't be attached to the index any more; StoreError: it is missing without ``make``.
        """
        credentials, attachment = self._server_credentials(), Attachment.parse(self.url)
        if attachment.companion:
            from indexer.stores.attached.companion_index import CompanionStore  # noqa: PLC0415 - half a second

            return CompanionStore(attachment, self.collection, credentials, make=make, database_id=self.database_id)
        from indexer.stores.attached.in_place import AttachedStore  # noqa: PLC0415

        return AttachedStore(attachment, credentials)

    def drop(self, generation: int = 1) -> None:
        """Remove a generation's store, even if it can't be opened any more, or was never created."""
        attachment = Attachment.parse(self.url) if is_attached(self.url) else None
        if attachment and not attachment.companion:
            from indexer.stores.attached.in_place import detach  # noqa: PLC0415 - HTTP's client

            detach(attachment, self._server_credentials())
        elif attachment or self._is_on_server:
            from indexer.stores.clustered import own_index  # noqa: PLC0415 - as above

            claim = own_index.Claim(self.collection, self.database_id, attachment.index if attachment else "")
            address = attachment.address if attachment else Address.parse(self.url)
            own_index.drop(address, claim, self._server_credentials(), 1 if attachment else generation)
        else:
            self._drop_file(generation)

    def generations(self) -> list[int]:
        """Numbers of the generations that have a store, also of generations that no row names any more."""
        if is_attached(self.url):
            return []  # an attached collection has a single generation, whose number is known
        if self._is_on_server:
            from indexer.stores.clustered import own_index  # noqa: PLC0415

            claim = own_index.Claim(self.collection, self.database_id)
            return own_index.generations(Address.parse(self.url), claim, self._server_credentials())
        from indexer.stores import embedded  # noqa: PLC0415

        return embedded.generations(self._folder(), self.collection)

    @property
    def _is_on_server(self) -> bool:
        return urlsplit(self.url).scheme in SCHEMES

    def _server_credentials(self) -> Credentials:
        return self.credentials or Credentials.read(self.url)

    def _drop_file(self, generation: int) -> None:
        from indexer.stores.embedded import path_of, remove_file  # noqa: PLC0415

        path = path_of(self._folder(), self.collection, generation)
        try:
            remove_file(path)
        except OSError as error:
            raise StoreError(f"the store {path} can't be removed ({error.strerror}); see that it is yours") from error

    def _folder(self) -> Path:
        parts = urlsplit(self.url)
        if parts.scheme and (parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.path[:1] != "/"):
            raise BadInput(
                f"there is no store for such {parts.scheme}: URLs; give a folder, file:///FOLDER, "
                "or https://HOST:9200/PREFIX of Elasticsearch"
            )
        return Path(file_path(parts.path) if parts.scheme else self.url).expanduser()
