"""The choice of λ: a fold stands for the whole training."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from encoders.cr5.algebra.ridge_choice import choose_ridge, dimensions_of_fold
from encoders.cr5.algebra.solver import Block, Solution, solve


@pytest.mark.parametrize(
    ("dimensions", "concepts", "fold", "expected"),
    [
        (300, 600, 400, 300),
        (300, 500_000, 400, 300),
        (300, 400, 267, 201),
        (600, 1436, 400, 300),
        (199, 200, 134, 134),
    ],
)
def test_a_fold_has_as_many_dimensions_for_its_concepts_as_the_training(
    dimensions: int, concepts: int, fold: int, expected: int
) -> None:
    assert dimensions_of_fold(dimensions, concepts, fold) == expected


def test_concepts_outnumber_dimensions_in_a_fold_where_they_do_in_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = np.random.default_rng(0)
    blocks = {lang: Block(csr_array(chance.random((90, 40), dtype=np.float32)), np.arange(90)) for lang in ("de", "en")}
    dimensions: list[tuple[int, int]] = []

    def noting(training: dict[str, Block], asked: int, lam: float, *, seed: int) -> Solution:
        dimensions.append((len(training["de"].concepts), asked))
        return solve(training, asked, lam, seed=seed)

    monkeypatch.setattr("encoders.cr5.algebra.ridge_choice.solve", noting)
    choose_ridge(blocks, 70)
    assert set(dimensions) == {(60, 47)}
