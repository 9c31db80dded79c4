"""What the embedded store holds in memory."""

import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np

from encoders.document import Document, Passages, unit_rows
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore

MODEL, DIM, COUNT = "model-a", 384, 8_000


def test_reading_the_vectors_does_not_hold_them_twice(tmp_path: Path) -> None:
    vectors = unit_rows(np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32))
    passages = Passages(np.ones((1, DIM), np.int8), np.array([[0, 1]], np.int32))
    with closing(EmbeddedStore(tmp_path, "c")) as store:
        store.create(MODEL, DIM)
        documents = [Document(f"{number}", ("de", "en", "ja")[number % 3], "text") for number in range(COUNT)]
        store.put(MODEL, [StoredDocument(*pair, passages) for pair in zip(documents, vectors, strict=True)])
        tracemalloc.start()
        try:
            read = store.vectors(MODEL, ["7", "0"])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1.75 * vectors.nbytes
        assert read.tobytes() == vectors[[7, 0]].tobytes()
