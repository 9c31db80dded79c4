"""The language probe: how well languages are told apart, and what must go until they are not."""

import numpy as np
import pytest

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from papers.separability import accuracy_by_component, bar, smallest_rank


def vectors_of(sizes: dict[str, int], shift: float, dim: int = 24) -> tuple[FloatArray, list[str], list[str]]:
    """Random vectors, each language moved along an axis of its own; their languages, and a document for each."""
    chance = np.random.default_rng(0)
    parts = []
    for at, size in enumerate(sizes.values()):
        rows = chance.standard_normal((size, dim)).astype(np.float32)
        rows[:, at] += shift * np.sqrt(dim)
        parts.append(rows)
    langs = [lang for lang, size in sizes.items() for _ in range(size)]
    return unit_rows(np.concatenate(parts)), langs, [str(row) for row in range(len(langs))]


def accuracy(sizes: dict[str, int], shift: float) -> float:
    return accuracy_by_component(*vectors_of(sizes, shift), 1)[0]


def test_languages_apart_are_told_and_mixed_ones_are_not() -> None:
    sizes = {"en": 300, "de": 300}
    assert accuracy(sizes, 2.0) > 0.97
    assert 0.3 < accuracy(sizes, 0.0) < 0.7


def test_a_large_language_does_not_hide_a_small_one() -> None:
    assert accuracy({"en": 900, "fi": 40}, 0.0) < 0.75


def test_the_rule_takes_the_smallest_rank_below_the_bar() -> None:
    choice = smallest_rank(*vectors_of({"en": 400, "de": 400}, 2.0), ranks=[1, 2, 4])
    assert choice.accuracies[0] > 0.97
    assert choice.bar == pytest.approx(0.55)
    if choice.rank is None:
        assert min(choice.accuracies.values()) >= 0.55
    else:
        assert choice.accuracies[choice.rank] < 0.55
        assert all(value >= 0.55 for rank, value in choice.accuracies.items() if rank < choice.rank)
    assert choice.accuracies[1] < 0.7


def test_a_classifier_that_knows_the_documents_tells_nothing_of_documents_it_has_not_seen() -> None:
    chance = np.random.default_rng(0)
    documents = chance.standard_normal((80, 24)).astype(np.float32)
    vectors = unit_rows(np.repeat(documents, 10, axis=0) + 0.1 * chance.standard_normal((800, 24)).astype(np.float32))
    langs = ["en" if row // 10 % 2 else "de" for row in range(800)]
    names = [str(row // 10) for row in range(800)]
    by_rows, _, _ = accuracy_by_component(vectors, langs, [str(row) for row in range(800)], 1)
    by_documents, _, _ = accuracy_by_component(vectors, langs, names, 1)
    assert by_documents < by_rows - 0.1
    assert smallest_rank(vectors, langs, names, [1]).accuracies[0] == by_documents
    with pytest.raises(BadInput, match="too few documents to be tested on others"):
        accuracy_by_component(vectors, langs, ["all"] * 800, 1)


def test_no_rank_is_an_answer() -> None:
    choice = smallest_rank(*vectors_of({"en": 100, "de": 100}, 2.0), ranks=[])
    assert choice.rank is None
    assert list(choice.accuracies) == [0]


def test_the_language_is_in_the_component_and_not_in_the_rest() -> None:
    whole, inside, outside = accuracy_by_component(*vectors_of({"en": 400, "de": 400}, 2.0), rank=1)
    assert whole > 0.97
    assert inside > 0.97
    assert outside < 0.65


def test_the_bar_is_a_tenth_above_chance() -> None:
    assert bar(2) == pytest.approx(0.55)
    assert bar(10) == pytest.approx(0.19)


def test_the_same_seed_gives_the_same_figure() -> None:
    data = vectors_of({"en": 100, "de": 100}, 0.3)
    assert accuracy_by_component(*data, 1, 4) == accuracy_by_component(*data, 1, 4)


def test_one_language_or_a_handful_of_vectors_is_refused() -> None:
    with pytest.raises(BadInput, match="takes two of them at least"):
        smallest_rank(*vectors_of({"en": 50}, 1.0))
    with pytest.raises(BadInput, match="3 vectors in fi are too few"):
        smallest_rank(*vectors_of({"en": 50, "fi": 3}, 1.0))
