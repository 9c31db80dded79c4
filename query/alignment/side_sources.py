"""The two sides of an alignment, from collections or from files."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.errors import BadInput, ModelMismatch
from encoders.languages import normalise
from encoders.machine.placement import Device
from encoders.phrases import counted
from indexer.collection import collection as collections
from indexer.collection.encoder import open_encoder_of
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.readers import elastic_source, irdatasets
from indexer.readers.source_documents import SourceDocuments, Sources
from onnx_export.models import DEFAULT, open_named
from query.alignment.side import Side, encoded_side, stored_side


@dataclass(frozen=True)
class _Place:
    """What A or B on the command line names: a language of a collection, or a source of documents."""

    name: str
    collection: collections.Collection | None = None
    lang: str = ""


@dataclass(frozen=True)
class Sides:
    """Opens two sides: languages of collections, which have vectors, or sources of documents, which are encoded."""

    settings: Settings
    console: Console
    gold: str = ""  # field whose value the documents of a true pair share; empty: there is none
    encoder: str | None = None  # name or folder, for sources; by default the collection's encoder, or else ``DEFAULT``
    method: str | None = None
    device: Device = "auto"

    def open(self, a: str, b: str) -> tuple[Side, Side]:
        """Open both sides. Raises BadInput: a name is no source or language; ModelMismatch: the models differ."""
        places = self._place(a), self._place(b)
        if (places[0].collection and places[0] == places[1]) or a == b:
            raise BadInput(f"{a} would be aligned with itself; name two languages or two files")
        stored = [place.collection for place in places if place.collection]
        if len(stored) == 2 and stored[0].model != stored[1].model:
            raise ModelMismatch(
                f"collection {stored[0].name} holds vectors of {stored[0].encoder} by {stored[0].method} "
                f"and {stored[1].name} of {stored[1].encoder} by {stored[1].method}; index one with the other's encoder"
            )
        if len(stored) == 2 and (self.encoder or self.method):
            raise BadInput("both sides are encoded already; leave --encoder and --method out")
        encoder = self._encoder(stored[0] if stored else None) if len(stored) < 2 else None
        first, second = (self._side(place, encoder) for place in places)
        return first, second

    def _place(self, name: str) -> _Place:
        if name.startswith((irdatasets.PREFIX, elastic_source.PREFIX)) or Path(name).expanduser().exists():
            return _Place(name)
        collection, colon, lang = name.rpartition(":")
        if not (colon and collection and lang):
            raise BadInput(f"{name} is no file or folder; name one, or COLLECTION:LANG as in news:de")
        with open_database(self.settings.database) as engine:
            return _Place(name, collections.require(engine, collection), normalise(lang))

    def _encoder(self, collection: collections.Collection | None) -> Encoder:
        if collection:
            return open_encoder_of(
                collection, self.console, reference=self.encoder, method=self.method, device=self.device
            )
        return open_named(self.encoder or DEFAULT, self.method, self.console, device=self.device)

    def _side(self, place: _Place, encoder: Encoder | None) -> Side:
        if place.collection or encoder is None:
            if place.collection is None:
                raise BadInput(f"{place.name} is no collection; name a file, or COLLECTION:LANG")
            place.collection.check_store(self.settings)
            with closing(place.collection.open_store(self.settings)) as store:
                languages = store.count()
                if place.lang not in languages:
                    raise BadInput(
                        f"{place.name}: the collection {place.collection.name} has no documents in {place.lang!r}; "
                        f"it has {', '.join(sorted(languages)) or 'none at all'}"
                    )
                side = stored_side(place.name, store, place.collection.model, place.lang, self.gold)
        else:
            documents = self._read(place.name)
            with self.console.progress(f"encoding {place.name}", None, "documents") as progress:
                side = encoded_side(place.name, documents, encoder, self.gold, progress)
        if side.unknown:
            self.console.warn(
                f"{counted(len(side.unknown), 'document is', 'documents are')} left out of {place.name}: the encoder "
                f"knows nothing there; the first is {side.unknown[0]}"
            )
        if not side.doc_ids:
            raise BadInput(f"{place.name} has no documents to align; name a source that has some")
        return side

    def _read(self, source: str) -> Iterator[Document]:
        documents = SourceDocuments(Sources([source]))
        yield from documents.read()
        if documents.refused:
            first = documents.refused[0]
            self.console.warn(
                f"{counted(len(documents.refused), 'record')} of {source} could not be read; "
                f"the first, {first.place}: {first.text}"
            )
