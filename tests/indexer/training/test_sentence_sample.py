"""A sample of sentences: as many of each language, whatever their order, in bounded memory."""

import random
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from encoders.document import Document
from indexer.training.sentence_sample import SentenceSample


def _documents(counts: dict[str, int]) -> list[Document]:
    return [
        Document(f"{lang}:{number}", lang, f"{lang} is {number}.\nIt ends {number}.")
        for lang, count in counts.items()
        for number in range(count)
    ]


def _draw(documents: list[Document], size: int, seed: int = 0) -> dict[str, list[str]]:
    sample = SentenceSample(size, seed)
    for document in documents:
        sample.add(document)
    return sample.by_language()


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(
    counts=st.dictionaries(st.sampled_from(["de", "en", "fi", "ja"]), st.integers(1, 40), min_size=1),
    size=st.integers(1, 120),
    turn=st.integers(0, 9),
)
def test_each_language_has_an_equal_part_whatever_the_order(counts: dict[str, int], size: int, turn: int) -> None:
    documents = _documents(counts)
    drawn = _draw(documents, size)
    part = max(size // len(counts), 1)
    assert {lang: len(texts) for lang, texts in drawn.items()} == {
        lang: min(part, 2 * count) for lang, count in counts.items()
    }
    random.Random(turn).shuffle(documents)
    assert _draw(documents, size) == drawn


def test_every_sentence_is_as_likely_as_any_other() -> None:
    documents = _documents({"en": 50})
    seen = dict.fromkeys((f"{a} {number}." for number in range(50) for a in ("en is", "It ends")), 0)
    for seed in range(400):
        for text in _draw(documents, 10, seed)["en"]:
            seen[text] += 1
    assert sum(seen.values()) == 4000
    assert min(seen.values()) > 15
    assert max(seen.values()) < 75


def test_another_seed_draws_another_sample_and_a_larger_one_holds_the_smaller() -> None:
    documents = _documents({"en": 50, "de": 50})
    assert _draw(documents, 10, 1) == _draw(documents, 10, 1) != _draw(documents, 10, 2)
    samples = [_draw(documents, size) for size in (2, 10, 40, 1000)]
    for small, large in pairwise(samples):
        assert all(set(small[lang]) <= set(large[lang]) for lang in small)


def test_no_more_is_kept_than_asked_for_while_documents_come() -> None:
    sample = SentenceSample(20)
    for document in _documents({"en": 60, "de": 60, "fi": 60}):
        sample.add(document)
        assert sum(map(len, sample.by_language().values())) <= 20
    assert sample.documents == 180
    sample.add(Document("1", "sv", " \n\n "))
    assert "sv" not in sample.by_language()
