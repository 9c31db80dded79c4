"""The sample of a migration has the same texts on both sides; a map is judged by queries that chose nothing."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.calibration_fitting.document_samples import shares
from query.migration.candidate_maps import MapQuality, MapRecipe, PairedSample, learn_map, map_learner
from query.migration.paired_sample import paired_sample
from tests.query.synthetic import LosingStore

LANGS = ("de", "en", "fr")
EACH, DIM = 120, 24
DOCUMENTS = [
    Document(f"d{at}", "en", f"{at} bees live in a hive of {at} rooms and {at * at} doors") for at in range(60)
]


def noise(rows: int, seed: int, dim: int = DIM) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)


def sampled(new: Callable[[FloatArray], FloatArray], *, concepts: bool = True) -> PairedSample:
    """Documents of concepts: a direction each, and noise; the new encoder's vectors are made of the old ones."""
    about = noise(EACH, 0)
    documents = [
        Document(f"{lang}{at}", lang, "text", fields={"concept": str(at)} if concepts else {})
        for lang in LANGS
        for at in range(EACH)
    ]
    by_lang = [unit_rows(about + 0.7 * noise(EACH, 10 + number) + number) for number in range(len(LANGS))]
    asked_by_lang = [unit_rows(rows + 0.1 * noise(EACH, 20 + number)) for number, rows in enumerate(by_lang)]
    old, asked = np.concatenate(by_lang), np.concatenate(asked_by_lang)
    new_rows, new_asked = (np.concatenate([new(rows) for rows in groups]) for groups in (by_lang, asked_by_lang))
    passages = np.zeros((0, DIM), np.float32), np.zeros((0, new_rows.shape[1]), np.float32)
    return PairedSample(documents, old, new_rows, asked, new_asked, np.zeros(0, np.intp), *passages)


TURN = np.linalg.qr(noise(40, 5, 40))[0][:DIM].astype(np.float32)


@pytest.mark.parametrize("concepts", [True, False])
def test_an_encoder_that_turns_its_vectors_is_mapped_to_without_loss(concepts: bool) -> None:
    weights, _, worth = learn_map(sampled(lambda rows: rows @ TURN, concepts=concepts), 0)
    assert weights.shape == TURN.shape
    assert worth.kept > 0.97
    assert abs(worth.old - worth.new) < 1e-6


def test_categories_for_concepts_hold_out_documents_and_without_pseudo_queries_nothing_is_gained() -> None:
    sample = sampled(lambda rows: rows @ TURN)
    for at, document in enumerate(sample.documents):
        document.fields["concept"] = "news" if at % 2 else "sport"  # type: ignore[index]
    _, _, worth = learn_map(sample, 0)
    assert worth.queries == 36
    assert worth.kept > 0.97
    _, _, worth = learn_map(replace(sample, new_queries=np.zeros_like(sample.new_queries)), 0)
    assert (worth.queries, worth.kept, worth.pays) == (0, 0.0, False)


def oracle(sample: PairedSample, way: MapRecipe, seed: int) -> MapQuality:
    """Worth by a plain transcription: every second held-out concept reports, all documents are ranked."""
    names = sorted(str(at) for at in range(EACH))
    held = [int(name) for name in np.random.default_rng(seed).permutation(names).tolist()[: EACH // 5]]
    reports = [row for row in range(len(sample.documents)) if row % EACH in held[1::2]]
    seen = np.array([row % EACH not in held for row in range(len(sample.documents))])
    weights = map_learner(sample, seen)(way)

    def unit(rows: FloatArray, turned: FloatArray | None = None) -> FloatArray:
        spans = [slice(start, start + EACH) for start in range(0, len(rows), EACH)]
        rows = np.concatenate([rows[span] - rows[span][seen[span]].mean(axis=0) for span in spans])
        return unit_rows(rows if turned is None else rows @ turned)

    def found(queries: FloatArray, documents: FloatArray) -> float:
        ranks = [1 / (1 + np.argsort(-(documents @ queries[row])).tolist().index(row)) for row in reports]
        return float(np.mean(ranks))

    return MapQuality(
        found(unit(sample.old_queries), unit(sample.old)),
        found(unit(sample.new_queries), unit(sample.new)),
        found(unit(sample.new_queries), unit(sample.old, weights)),
        len(reports),
    )


def test_what_is_reported_is_of_queries_that_did_not_choose_and_the_map_is_learnt_again_from_all() -> None:
    sample = sampled(lambda rows: rows @ TURN + 0.2 * noise(len(rows), 3, 40))
    weights, way, worth = learn_map(sample, 4)
    expected = oracle(sample, way, 4)
    assert worth.queries == expected.queries
    for name in ("old", "new", "mapped"):
        assert getattr(worth, name) == pytest.approx(getattr(expected, name), abs=1e-5)
    assert np.array_equal(weights, map_learner(sample, np.ones(len(sample.documents), dtype=np.bool_))(way))


def test_a_large_language_gets_what_small_ones_leave() -> None:
    small = {f"l{number:02}": 1 for number in range(40)}
    assert shares({"en": 1_000_000, **small}, 2000) == {**small, "en": 1960}
    assert shares({"a": 30, "b": 500, "c": 500}, 300) == {"a": 30, "b": 135, "c": 135}
    assert shares({"a": 5, "b": 5}, 1) == {"a": 1, "b": 1}
    assert shares({"a": 5, "b": 7}, 100) == {"a": 5, "b": 7}


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


def drawn(tmp_path: Path, old: Cutting, new: Cutting, open_store: type[EmbeddedStore] = EmbeddedStore) -> PairedSample:
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
    both = drawn(tmp_path, old, new)
    cutter = old if of_new < 2 else new
    assert both.passages_of.tolist() == [row for row in range(60) for _ in range(cutter.passages)]
    texts = [one.content[start:end] for one in both.documents for start, end in cutter.spans(one.content)]
    for encoder, found in ((old, both.old_passages), (new, both.new_passages)):
        np.testing.assert_allclose(np.sum(found * encoder.of(texts), axis=1), 1, atol=1e-3)
        assert np.allclose(found, encoder.of(texts), atol=1e-6) == (encoder is not cutter)  # its own are int8


@pytest.mark.parametrize("passages", [1, 3])
def test_eight_passages_are_taken_at_most_and_deleted_documents_are_left_out(tmp_path: Path, passages: int) -> None:
    both = drawn(tmp_path / "eight", Cutting("old", 2), Cutting("new", 11))
    assert both.passages_of.tolist() == [row for row in range(60) for _ in range(8)]
    assert len(both.old_passages) == len(both.new_passages) == 480
    old, new = Cutting("old", 2), Cutting("new", passages)
    both = drawn(tmp_path, old, new, LosingStore)
    assert 50 < len(both.documents) < 60
    for encoder, vectors in ((old, both.old), (new, both.new)):
        np.testing.assert_allclose(vectors, encoder.encode_queries(both.documents), atol=1e-6)
