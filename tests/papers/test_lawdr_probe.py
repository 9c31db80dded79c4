"""The language probe: how well languages are told apart, and what must go until they are not."""

import numpy as np
import pytest

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from papers.lawdr_probe import Probe, probe


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


def probed(sizes: dict[str, int], shift: float, rank: int | None = None) -> Probe:
    return probe(*vectors_of(sizes, shift), rank)


def test_languages_apart_are_told_by_their_component_and_mixed_ones_are_not() -> None:
    sizes = {"en": 400, "de": 400}
    apart = probed(sizes, 2.0, rank=1)
    whole, inside, outside = apart.accuracies
    assert min(whole, inside) > 97
    assert outside < 65
    assert (whole, outside) == (100 * apart.by_rank[0], 100 * apart.by_rank[1])
    assert 0.3 < probed(sizes, 0.0).by_rank[0] < 0.7
    assert probed({"en": 900, "fi": 40}, 0.0).by_rank[0] < 0.75  # a large language does not hide a small one
    assert probed(sizes, 0.3).accuracies == probed(sizes, 0.3).accuracies


def test_the_rule_takes_the_smallest_rank_below_the_bar_a_tenth_above_chance() -> None:
    found = probed({"en": 400, "de": 400}, 2.0)
    assert found.bar == pytest.approx(0.55)
    assert found.smallest == found.rank == max(found.by_rank)
    assert found.by_rank[found.rank] < 0.55
    assert all(value >= 0.55 for rank, value in found.by_rank.items() if rank < found.rank)
    places = [(side, sign * 2.0) for side in (0.8, -0.8) for sign in (1, -1) * 25]  # most goes along the other axis
    langs, documents = ["en"] * 50 + ["de"] * 50, [str(row) for row in range(100)]
    none = probe(unit_rows(np.array(places, np.float32)), langs, documents)
    assert none.smallest is None
    assert (none.rank, none.by_rank) == (1, {0: 1.0, 1: 1.0})
    assert probed(dict.fromkeys("abcdefghij", 20), 1.0).bar == pytest.approx(0.19)


def test_a_classifier_that_knows_the_documents_tells_nothing_of_documents_it_has_not_seen() -> None:
    chance = np.random.default_rng(0)
    documents = chance.standard_normal((80, 24)).astype(np.float32)
    vectors = unit_rows(np.repeat(documents, 10, axis=0) + 0.1 * chance.standard_normal((800, 24)).astype(np.float32))
    langs = ["en" if row // 10 % 2 else "de" for row in range(800)]
    by_rows = probe(vectors, langs, [str(row) for row in range(800)])
    by_documents = probe(vectors, langs, [str(row // 10) for row in range(800)])
    assert by_documents.by_rank[0] < by_rows.by_rank[0] - 0.1
    with pytest.raises(BadInput, match="too few documents to be tested on others"):
        probe(vectors, langs, ["all"] * 800)


def test_one_language_or_a_handful_of_vectors_is_refused() -> None:
    with pytest.raises(BadInput, match="takes two of them at least"):
        probed({"en": 50}, 1.0)
    with pytest.raises(BadInput, match="3 vectors in fi are too few"):
        probed({"en": 50, "fi": 3}, 1.0)
