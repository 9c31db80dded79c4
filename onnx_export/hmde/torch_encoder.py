"""A document encoder in torch as the rest of Dragoman sees encoders: for tables of papers, not for an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, int8_rows, short_hash
from encoders.text.tokens import Tokenizer
from onnx_export.hmde.trainable import Trainable, part_of


class TorchEncoder:
    """A trainable encoder as it is; the one passage of a document is its whole text.

    Attributes:
        trainable: what encodes, and can learn; encoding here replaces the documents that it has taken.
    """

    def __init__(self, encoder: Trainable, method: str) -> None:
        """Take what encodes, and how that is called."""
        self.trainable = encoder
        config = encoder.config
        model = config.model_id(method, tokens=config.max_tokens)
        self.spec = EncoderSpec(
            config.name, method, config.dim, config.languages, model, short_hash(config.weights, "torch")
        )

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents → their vectors; a zero row for a text with nothing known."""
        part = self.trainable.prepare(documents)
        self.trainable.lower.take([part])
        vectors = self._vectors(len(documents))
        known = part["counts"] > 0
        passages = [
            Passages(
                int8_rows(vectors[[row]] if there else vectors[:0]),
                np.array([[0, len(document.content)]] if there else [], dtype=np.int32).reshape(-1, 2),
            )
            for row, (document, there) in enumerate(zip(documents, known.tolist(), strict=True))
        ]
        return Encoded(vectors, passages, known.reshape(-1, 1))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries with the model's query prefix → (queries, dim) unit rows."""
        tokenizer: Tokenizer = self.trainable.lower.tokenizer
        limit = self.trainable.config.max_tokens - tokenizer.query_overhead
        asked = [tokenizer.query(text.ids[:limit]) for text in tokenizer.tokenize([one.content for one in queries])]
        self.trainable.lower.take([part_of([[ids] for ids in asked])])
        return self._vectors(len(queries))

    def _vectors(self, rows: int) -> FloatArray:
        with torch.no_grad():
            found: FloatArray = self.trainable.documents(range(rows)).cpu().numpy()
        return found
