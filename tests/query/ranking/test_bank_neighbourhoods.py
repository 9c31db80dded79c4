"""The neighbourhoods in a bank are those that a comparison gives, whatever was compared before."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from encoders.document import FloatArray, unit_rows
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Bank
from query.calibration.comparison_space import CorrectedQueries
from query.ranking import bank_neighbourhoods
from query.ranking.bank_neighbourhoods import BankNeighbourhoods
from query.ranking.candidates import CandidateDocuments

DIM = 12
PARTS = VectorParts((DIM,), (1.0,))
CHANCE = np.random.default_rng(3)


def rows(count: int) -> FloatArray:
    return unit_rows(CHANCE.standard_normal((count, DIM)).astype(np.float32))


def candidates(numbers: Sequence[int], vectors: FloatArray) -> CandidateDocuments:
    raw = vectors[list(numbers)]
    return CandidateDocuments([f"d{number}" for number in numbers], {"de": slice(0, len(raw))}, raw, raw, PARTS)


@pytest.fixture
def bank() -> Bank:
    return Bank(CorrectedQueries(rows(16)), tuple(f"d{number}" for number in range(16)), 3)


def test_documents_met_before_have_the_same_neighbourhoods(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, neighbourhoods = rows(40), BankNeighbourhoods(lambda _: bank)
    cosines = vectors @ bank.queries.vectors.T
    cosines[range(16), range(16)] = -np.inf
    expected = np.sort(cosines, axis=1)[:, -3:].mean(axis=1)
    real, counts = CandidateDocuments.cosines, list[int]()

    def counted(documents: CandidateDocuments, queries: CorrectedQueries) -> FloatArray:
        counts.append(len(documents.doc_ids))
        return real(documents, queries)

    monkeypatch.setattr(CandidateDocuments, "cosines", counted)
    for numbers in (range(30), range(5, 40), range(40), [7, 3]):
        found = neighbourhoods.of(candidates(numbers, vectors), "en")
        np.testing.assert_allclose(found, expected[list(numbers)], rtol=1e-5)
    assert counts == [30, 10]


def test_a_document_that_changed_or_is_of_another_language_is_compared_again(bank: Bank) -> None:
    """Vectors lose another language's component, though they are stored alike."""
    vectors, neighbourhoods = rows(8), BankNeighbourhoods(lambda _: bank)
    neighbourhoods.of(candidates(range(8), vectors.copy()), "en")
    vectors[5] = rows(1)[0]
    changed = candidates(range(8), vectors)
    for other in (changed, replace(changed, languages={"fr": slice(0, 8)}, vectors=rows(8))):
        of_unmet = BankNeighbourhoods(lambda _: bank).of(other, "en")
        np.testing.assert_allclose(neighbourhoods.of(other, "en"), of_unmet, rtol=1e-6)


def test_memory_is_bounded(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_neighbourhoods, "_MOST", 50)
    vectors, neighbourhoods = rows(100), BankNeighbourhoods(lambda _: bank)
    for start in range(0, 100, 20):
        neighbourhoods.of(candidates(range(start, start + 20), vectors), "en")
    assert len(neighbourhoods._known) == 20
    neighbourhoods.of(candidates(range(100), vectors), "en")
    assert len(neighbourhoods._known) == 50
