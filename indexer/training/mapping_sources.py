"""Aligned documents from sources, which are encoded now, or from a collection with stored vectors."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from encoders.console import Console
from encoders.document import EncoderSpec
from encoders.errors import BadInput
from encoders.machine.placement import Device
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.readers.records.source import ReadOptions
from indexer.readers.source_documents import SourceDocuments, Sources
from indexer.training.aligned_documents import AlignedVectors, add_encoded, stored_by_concept
from onnx_export.models import open_named


@dataclass(frozen=True)
class AlignedSources:
    """The user's choice of aligned documents."""

    sources: Sequence[str]  # files, folders, ``ir-datasets:NAME``; empty: a collection
    collection: str | None  # name of a collection; None: sources
    languages: Sequence[str]  # of the documents; empty: all
    encoder: str
    method: str | None  # how a document's vector is made; None: the encoder's default
    device: Device
    options: ReadOptions
    settings: Settings

    def load(self, console: Console) -> tuple[AlignedVectors, EncoderSpec]:
        """Load vectors and their encoder. Raises BadInput: not just sources or a collection, or nothing is aligned."""
        if bool(self.sources) == bool(self.collection):
            raise BadInput("name either SOURCEs to encode, or a collection that holds vectors with -c")
        vectors, spec = self._stored(self.collection, console) if self.collection else self._encoded(console)
        if vectors.duplicates:
            console.say(
                f"documents left out because their language had one of their concept already: {vectors.duplicates:,}"
            )
        if vectors.without:
            console.say(
                f"documents left out because they have no concept, or nothing the encoder knows: {vectors.without:,}"
            )
        for refusal in vectors.refused[:10]:
            console.say(f"  {refusal.place}: {refusal.text}")
        return vectors.only(self.languages), spec

    def _encoded(self, console: Console) -> tuple[AlignedVectors, EncoderSpec]:
        encoder = open_named(self.encoder, self.method, console, device=self.device)
        documents = SourceDocuments(Sources(self.sources, self.options, self.languages))
        vectors = add_encoded(AlignedVectors(refused=documents.refused), documents.read(), encoder, console)
        return vectors, encoder.spec

    def _stored(self, name: str, console: Console) -> tuple[AlignedVectors, EncoderSpec]:
        with open_database(self.settings.database) as engine:
            collection = collections.require(engine, name)
        spec = EncoderSpec(collection.encoder, collection.method, collection.dim, (), collection.model, "")
        with closing(collection.open_store(self.settings)) as store:
            return stored_by_concept(store, collection.model, self.languages, console), spec
