"""Where aligned documents come from: sources that are encoded now, or a collection with the vectors it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoders.console import Console
from encoders.document import EncoderSpec
from encoders.errors import BadInput
from encoders.methods.registry import open_encoder
from encoders.session import Device
from indexer.collection import collection as collections
from indexer.ledger.database import connect
from indexer.readers import ReadOptions
from indexer.settings import Settings
from indexer.training.aligned_documents import ByConcept, encoded_by_concept, stored_by_concept
from onnx_export.models import find_model


@dataclass(frozen=True)
class AlignedSources:
    """What a person named.

    Attributes:
        sources: files, folders, ``ir-datasets:NAME``.
        collection: or a collection.
        languages: of the documents; all where none is named.
        encoder: name or folder.
        method: how a document's vector is made; the encoder's default where none is named.
        device: where to encode.
        options: how to read the sources.
        settings: where the collection is.
    """

    sources: Sequence[str]
    collection: str
    languages: Sequence[str]
    encoder: str
    method: str | None
    device: Device
    options: ReadOptions
    settings: Settings

    def load(self, console: Console) -> tuple[ByConcept, EncoderSpec]:
        """Vectors by language and concept, and what made them; sources win over a collection.

        Raises:
            BadInput: neither is named, or both, or they have no aligned documents.
        """
        if bool(self.sources) == bool(self.collection):
            raise BadInput("name either SOURCEs to encode, or a collection that holds vectors with -c")
        found, spec = self._stored(console) if self.collection else self._encoded(console)
        if found.duplicates:
            console.say(
                f"documents left out because their language had one of their concept already: {found.duplicates:,}"
            )
        if found.without:
            console.say(
                f"documents left out because they have no concept, or nothing the encoder knows: {found.without:,}"
            )
        for note in found.refused[:10]:
            console.say(f"  {note.where}: {note.reason}")
        return found.only(self.languages), spec

    def _encoded(self, console: Console) -> tuple[ByConcept, EncoderSpec]:
        encoder = open_encoder(find_model(self.encoder, console), self.method, device=self.device)
        return encoded_by_concept(self.sources, encoder, self.languages, self.options, console), encoder.spec

    def _stored(self, console: Console) -> tuple[ByConcept, EncoderSpec]:
        engine = connect(self.settings.database)
        try:
            found = collections.require(engine, self.collection)
        finally:
            engine.dispose()
        spec = EncoderSpec(found.encoder, found.method, found.dim, (), found.model, "")
        store = found.open_store(self.settings)
        try:
            return stored_by_concept(store, found.model, self.languages, console), spec
        finally:
            store.close()
