"""A collection's row, whether SQLAlchemy read it or not."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from encoders.document import EncoderSpec
from encoders.errors import BadInput, ModelMismatch
from indexer.cluster.cluster_address import are_same_indices
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.plain_rows import Rows
from indexer.stores.attached.attached_address import is_attached
from indexer.stores.collection_names import NoCollection, check_collection_name
from indexer.stores.contract import VectorStore


class CollectionRecord:
    """What a collection's row says and opens; only rows that SQLAlchemy read can be held in a transaction."""

    if TYPE_CHECKING:
        name: Any
        store: Any
        encoder: Any
        method: Any
        model: Any
        dim: Any
        generation: Any
        building: Any
        previous: Any

    @property
    def generations(self) -> set[int]:
        """Numbers of the searched generation, of the one that is built and of the previous one."""
        others = [generation["number"] for generation in (self.building, self.previous) if generation]
        return {self.generation, *others}

    def open_store(
        self, settings: Settings, *, generation: int | None = None, make: bool = False, database_id: str = ""
    ) -> VectorStore:
        """Open the store of a generation, by default of the searched one; with ``make`` it is created if missing.

        Writers must give ``database_id``, the id of the collection's database. Raises BadInput: the store belongs to
        somebody else; StoreError: the store is gone or can't be opened.
        """
        number = self.generation if generation is None else generation
        return self.location(settings, database_id).open(number, make=make)

    def location(self, settings: Settings, database_id: str = "") -> StoreLocation:
        """Where the collection's stores are; writers must give the id of the database that has the collection."""
        return StoreLocation(self.place(settings), self.name, settings.credentials, database_id)

    def place(self, settings: Settings) -> str:
        """URL of the collection's stores."""
        return str(self.store or settings.home_store)

    def check_store(self, settings: Settings, *, rebuild: bool = False) -> None:
        """Raise ``BadInput`` if a store is stated that is not the collection's; a ``rebuild`` may change indices."""
        place = self.place(settings)
        if settings.states_other_store(place) and not (rebuild and are_same_indices(place, settings.store)):
            raise BadInput(
                f"collection {self.name} lives in {place}, not in {settings.store}; leave --store out, "
                "or name another collection with -c"
            )

    @property
    def emptiness(self) -> str:
        """The sentence that no document is there, and which command puts some in."""
        how = "attach" if is_attached(self.store) else "index SOURCE"
        return f"collection {self.name} holds no documents; put some in: dragoman {how} -c {self.name}"

    def refuse_attached(self, because: str) -> None:
        """Raise ``BadInput`` if the collection is attached; ``because`` ends its sentence: why, and what to do."""
        if is_attached(self.store):
            raise BadInput(f"collection {self.name} is attached to an index, and {because}")

    def check(self, spec: EncoderSpec) -> None:
        """Raise ``ModelMismatch`` if an encoder does not make this collection's vectors."""
        if spec.model != self.model:
            raise ModelMismatch(
                f"collection {self.name} holds vectors of {self.encoder} by {self.method} (model {self.model}), "
                f"and {spec.name} by {spec.method} is model {spec.model}; "
                "use the collection's encoder (if you trained it again, train it with its earlier settings), index "
                "into another collection with -c, or encode all documents again: dragoman index --rebuild"
            )


class PlainCollection(CollectionRecord, SimpleNamespace):
    """A row that was read without SQLAlchemy."""


def read_collections(rows: Rows, name: str | None = None) -> list[PlainCollection]:
    """All collections by name, or the collection of a name.

    Raises NoCollection: there is none of this name; BadInput: no collection can have it.
    """
    collections = [PlainCollection(**vars(row)) for row in rows("SELECT * FROM collections ORDER BY name")]
    if name is None:
        return collections
    check_collection_name(name)
    names = [collection.name for collection in collections]
    if name not in names:
        raise NoCollection.among(names, name)
    return [collections[names.index(name)]]
