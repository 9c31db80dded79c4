"""A document encoder in torch with Dragoman's encoder interface: for the tables of papers, not for an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from encoders.document import Document, Encoded, FloatArray, Passages, int8_rows, short_hash
from encoders.text.tokens import Tokenizer
from papers.trainable import Trainable, part_of


class TorchEncoder:
    """Encodes by the current weights of a trainable encoder; the only passage of a document is its whole text.

    Attributes:
        trainable: the encoder, which can learn; encoding here replaces the documents that it has taken.
    """

    def __init__(self, encoder: Trainable, method: str) -> None:
        """Take the encoder and the name of its method."""
        self.trainable = encoder
        config = encoder.config
        spec = config.spec(method, tokens=config.max_tokens)
        self.spec = replace(spec, build=short_hash(config.weights, "torch"))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents → (documents, dim) unit rows; a text without known words has a zero row."""
        part = self.trainable.prepare(documents)
        self.trainable.lower.take([part])
        vectors = self._vectors(len(documents))
        known = part["counts"] > 0
        passages = [
            Passages(
                int8_rows(vectors[[row]] if is_known else vectors[:0]),
                np.array([[0, len(document.content)]] if is_known else [], dtype=np.int32).reshape(-1, 2),
            )
            for row, (document, is_known) in enumerate(zip(documents, known.tolist(), strict=True))
        ]
        return Encoded(vectors, passages, known.reshape(-1, 1))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries, with the model's query prefix → (queries, dim) unit rows."""
        tokenizer: Tokenizer = self.trainable.lower.tokenizer
        limit = self.trainable.config.max_tokens - tokenizer.query_overhead
        texts = tokenizer.tokenize([query.content for query in queries])
        self.trainable.lower.take([part_of([[tokenizer.query(text.ids[:limit])] for text in texts])])
        return self._vectors(len(queries))

    def _vectors(self, count: int) -> FloatArray:
        with torch.no_grad():
            vectors: FloatArray = self.trainable.documents(range(count)).cpu().numpy()
        return vectors
