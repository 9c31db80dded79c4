"""The sample of a migration: whose passages it has, and that each is the same text on both sides."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.migration.candidate_maps import PairedSample
from query.migration.paired_sample import paired_sample
from tests.query.synthetic import LosingStore

DOCUMENTS = [
    Document(f"d{at}", "en", f"{at} bees live in a hive of {at} rooms and {at * at} doors") for at in range(60)
]


@dataclass(frozen=True)
class Cutting:
    """An encoder that cuts texts into so many passages, and makes of each text a vector of its own."""

    name: str
    passages: int

    @property
    def spec(self) -> EncoderSpec:
        return EncoderSpec(self.name, "segments", 16, (), self.name, self.name)

    def of(self, texts: Sequence[str]) -> FloatArray:
        rows = [np.random.default_rng(zlib.crc32(f"{self.name}{text}".encode())).standard_normal(16) for text in texts]
        return unit_rows(np.array(rows, dtype=np.float32))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return list(pairwise(np.linspace(0, len(text), self.passages + 1).astype(int).tolist()))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        passages = [
            Passages(
                int8_rows(self.of([one.content[start:end] for start, end in self.spans(one.content)])),
                np.array(self.spans(one.content), dtype=np.int32),
            )
            for one in documents
        ]
        return Encoded(self.encode_queries(documents), passages, np.ones((len(documents), 1), dtype=np.bool_))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return self.of([query.content for query in queries])


def sampled(
    tmp_path: Path, old: Cutting, new: Cutting, open_store: type[EmbeddedStore] = EmbeddedStore
) -> PairedSample:
    store = open_store(tmp_path, "sample")
    store.create(old.spec.model, old.spec.dim)
    encoded = old.encode_documents(DOCUMENTS)
    store.put(old.spec.model, [StoredDocument.of(one, encoded, at) for at, one in enumerate(DOCUMENTS)])
    both = paired_sample(store, old, new, 60, 0, Console(quiet=True))
    store.close()
    return both


@pytest.mark.parametrize("of_new", [1, 2, 3])
def test_passages_are_the_new_encoders_unless_more_are_stored(tmp_path: Path, of_new: int) -> None:
    """One passage is as of method *first*: the document's vector again."""
    old, new = Cutting("old", 2), Cutting("new", of_new)
    both = sampled(tmp_path, old, new)
    cutter = old if of_new < 2 else new
    assert both.passages_of.tolist() == [row for row in range(60) for _ in range(cutter.passages)]
    texts = [one.content[start:end] for one in both.documents for start, end in cutter.spans(one.content)]
    for encoder, found in ((old, both.old_passages), (new, both.new_passages)):
        np.testing.assert_allclose(np.sum(found * encoder.of(texts), axis=1), 1, atol=1e-3)
        assert np.allclose(found, encoder.of(texts), atol=1e-6) == (encoder is not cutter)  # its own are int8


@pytest.mark.parametrize("passages", [1, 3])
def test_eight_passages_are_taken_at_most_and_deleted_documents_are_left_out(tmp_path: Path, passages: int) -> None:
    both = sampled(tmp_path / "eight", Cutting("old", 2), Cutting("new", 11))
    assert both.passages_of.tolist() == [row for row in range(60) for _ in range(8)]
    assert len(both.old_passages) == len(both.new_passages) == 480
    old, new = Cutting("old", 2), Cutting("new", passages)
    both = sampled(tmp_path, old, new, LosingStore)
    assert 50 < len(both.documents) < 60
    for encoder, vectors in ((old, both.old), (new, both.new)):
        np.testing.assert_allclose(vectors, encoder.encode_queries(both.documents), atol=1e-6)
