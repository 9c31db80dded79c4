"""Texts → vectors by the methods that programs already call: those of sentence-transformers and of fastembed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from encoders.console import Console
from encoders.devices import Device
from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from encoders.methods.titled_windows import TitledWindows
from onnx_export.models import DEFAULT, open_named


class TextEncoder:
    """An encoder that sets the prefixes of queries and documents itself.

    The vectors are float32 rows of unit length, made as ``index`` and a search make them by default. A document is read
    whole, in windows; the end of a query that is longer than the encoder reads is left out.
    """

    def __init__(self, name: str = DEFAULT, *, device: Device = "auto") -> None:
        """Load the default encoder, or another by its name or folder.

        Raises:
            BadInput: there is no such encoder, or it encodes words and no texts.
            MissingPart: the device or the default encoder's weights are missing.
        """
        self._encoder = open_named(name, TitledWindows.method, Console(quiet=True), device=device)

    @property
    def embedding_size(self) -> int:
        """Width of the vectors."""
        return self._encoder.spec.dim

    def get_sentence_embedding_dimension(self) -> int:
        """Width of the vectors."""
        return self.embedding_size

    def encode(
        self, sentences: str | Sequence[str], *, batch_size: int = 64, normalize_embeddings: bool = True
    ) -> FloatArray:
        """Encode documents to (documents, dim) rows, or one text to (dim,).

        Raises:
            BadInput: ``batch_size`` is below 1, or other vectors than of unit length are asked for.
        """
        if not normalize_embeddings:
            raise BadInput("the encoder's vectors have unit length; leave normalize_embeddings out")
        if isinstance(sentences, str):
            return next(self.embed(sentences))
        return self._stacked(self.embed(sentences, batch_size))

    encode_document = encode

    def encode_query(self, sentences: str | Sequence[str]) -> FloatArray:
        """Encode queries to (queries, dim) rows, or one query to (dim,)."""
        if isinstance(sentences, str):
            return next(self.query_embed(sentences))
        return self._stacked(self.query_embed(sentences))

    def embed(self, documents: str | Iterable[str], batch_size: int = 64) -> Iterator[FloatArray]:
        """Encode documents one after the other, each to (dim,); ``batch_size`` documents are encoded at once.

        Raises:
            BadInput: ``batch_size`` is below 1.
        """
        if batch_size < 1:
            raise BadInput(f"batch_size is {batch_size}; give 1 or more")
        texts = iter([documents] if isinstance(documents, str) else documents)
        while batch := [_document(text) for text in islice(texts, batch_size)]:
            yield from self._encoder.encode_documents(batch).vectors

    passage_embed = embed

    def query_embed(self, query: str | Iterable[str]) -> Iterator[FloatArray]:
        """Encode queries one after the other, each to (dim,)."""
        for text in [query] if isinstance(query, str) else query:
            yield self._encoder.encode_queries([_document(text)])[0]

    def _stacked(self, rows: Iterable[FloatArray]) -> FloatArray:
        return np.array(list(rows), dtype=np.float32).reshape(-1, self.embedding_size)


def _document(text: str) -> Document:
    return Document("", UNDETERMINED, text)
