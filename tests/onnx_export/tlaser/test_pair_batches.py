"""Batches by tokens, each of one direction, in an order that can be gone on with."""

from collections import Counter

import numpy as np
import pytest

from encoders.tlaser.joint_vocabulary import END_ID, PAD_ID, TAG_ID, learn_vocabulary
from encoders.tlaser.token_corpus import Corpus, Direction, Sentences
from onnx_export.tlaser.pair_batches import Batch, Batches

TEXTS = {
    "de": [f"das Haus Nummer {n} " + "ist groß " * (n % 7) for n in range(40)],
    "en": [f"house number {n} " + "is large " * (n % 7) for n in range(40)],
    "es": [f"la casa número {n} " + "es grande " * (n % 7) for n in range(12)],
}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    tokenizer = learn_vocabulary((text for texts in TEXTS.values() for text in texts), 200, "ct")
    both = [("de", "en", 40), ("de", "es", 12), ("en", "es", 12), ("es", "en", 12)]
    return Corpus(
        languages=("de", "en", "es"),
        pivots=("en", "es"),
        sentences={lang: Sentences(tokenizer, texts) for lang, texts in TEXTS.items()},
        directions=[Direction(a, b, np.stack([np.arange(n)] * 2, axis=1)) for a, b, n in both],
        validation={},
    )


def _bytes(batch: Batch) -> tuple[bytes, bytes, int]:
    return batch.source.tobytes(), batch.labels.tobytes(), batch.language


def test_a_batch_stays_within_its_budget_and_says_the_same_sentence_on_both_sides(corpus: Corpus) -> None:
    batches = Batches(corpus, "ct", 100, 0)
    for batch in (next(batches) for _ in range(60)):
        rows, width = batch.source.shape
        assert rows == 1 or rows * max(width, batch.labels.shape[1]) <= 100
        assert (batch.source[:, 0] == TAG_ID).all()
        assert (batch.decoder_input[:, 0] == END_ID).all()
        assert batch.tokens == (batch.labels != PAD_ID).sum()
        assert ((batch.labels == END_ID).sum(axis=1) == 1).all()
        said = np.where(batch.labels == END_ID, PAD_ID, batch.labels)
        assert np.array_equal(batch.decoder_input[:, 1:], said[:, :-1])
        assert np.array_equal(batch.target[:, 1:], batch.decoder_input[:, 1:])
    source = next(Batches(corpus, "laser", 100, 0)).source
    assert ((source == END_ID).sum(axis=1) == 1).all()
    assert not (source == TAG_ID).any()


def test_the_order_goes_on_where_it_stood(corpus: Corpus) -> None:
    whole, first, second, other = (Batches(corpus, "ct", 100, seed) for seed in (5, 5, 5, 6))
    expected = [_bytes(next(whole)) for _ in range(50)]
    before = [_bytes(next(first)) for _ in range(23)]
    second.drawn = list(first.drawn)
    assert before + [_bytes(next(second)) for _ in range(27)] == expected
    assert [_bytes(next(other)) for _ in range(50)] != expected


def test_directions_are_drawn_alike_however_many_pairs_they_have(corpus: Corpus) -> None:
    batches = Batches(corpus, "ct", 100, 0)
    for _ in range(2000):
        next(batches)
    assert 400 < min(batches.drawn) <= max(batches.drawn) < 600


def test_a_pass_takes_every_pair_once(corpus: Corpus) -> None:
    batches = Batches(corpus, "ct", 100, 0)
    seen: Counter[bytes] = Counter()
    while batches.drawn[0] < 100:
        before = batches.drawn[0]
        batch = next(batches)
        if batches.drawn[0] > before:
            seen.update(row[row != PAD_ID].tobytes() for row in batch.source)
    assert len(seen) == 40
    assert max(seen.values()) - min(seen.values()) <= 1
