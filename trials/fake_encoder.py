"""A fake encoder for tests, which takes no time."""

import zlib
from collections.abc import Sequence

import numpy as np

from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows


class FakeEncoder:
    """An encoder whose vectors depend on the text's bytes; it lists what it encoded, and can break."""

    def __init__(self) -> None:
        self.spec = EncoderSpec("fake", "segments", 8, (), "model-c", "build-c")
        self.encoded: list[str] = []
        self.broken_at = -1

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        if 0 <= self.broken_at <= len(self.encoded):
            raise RuntimeError("the power went out")
        self.encoded += [document.doc_id for document in documents]
        rows = [
            np.random.default_rng(zlib.crc32(document.content.encode())).standard_normal(8) for document in documents
        ]
        vectors = unit_rows(np.array(rows, dtype=np.float32).reshape(-1, 8))
        passages = [Passages(int8_rows(vector[None]), np.array([[0, 1]], np.int32)) for vector in vectors]
        known = np.array([["nothing" not in document.text] for document in documents], dtype=np.bool_).reshape(-1, 1)
        return Encoded(np.where(known, vectors, 0).astype(np.float32), passages, known)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return self.encode_documents(queries).vectors
