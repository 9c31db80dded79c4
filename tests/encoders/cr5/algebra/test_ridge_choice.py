"""The choice of λ: a fold stands for the whole training."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.sparse import csr_array

from encoders.cr5.algebra.ridge_choice import choose_ridge, dimensions_of_fold, mate_rank
from encoders.cr5.algebra.solver import Block, Solution, solve
from encoders.document import FloatArray


@pytest.mark.parametrize(
    ("dimensions", "concepts", "fold", "expected"),
    [(300, 600, 400, 300), (300, 500_000, 400, 300), (300, 400, 267, 201), (600, 1436, 400, 300), (199, 200, 134, 134)],
)
def test_a_fold_has_as_many_dimensions_for_its_concepts_as_the_training(
    dimensions: int, concepts: int, fold: int, expected: int
) -> None:
    assert dimensions_of_fold(dimensions, concepts, fold) == expected


def test_concepts_outnumber_dimensions_in_a_fold_where_they_do_in_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    blocks = {lang: Block(csr_array(chance.random((90, 40), dtype=np.float32)), np.arange(90)) for lang in ("de", "en")}
    dimensions: list[tuple[int, int]] = []

    def noting(training: dict[str, Block], asked: int, lam: float, *, seed: int) -> Solution:
        dimensions.append((len(training["de"].concepts), asked))
        return solve(training, asked, lam, seed=seed)

    monkeypatch.setattr("encoders.cr5.algebra.ridge_choice.solve", noting)
    choose_ridge(blocks, 70)
    assert set(dimensions) == {(60, 47)}


def test_ranks_of_mates_take_each_languages_columns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    blocks = {lang: Block(csr_array(chance.random((30, 40), dtype=np.float32)), np.arange(30)) for lang in ("de", "en")}
    columns = solve(blocks, 10, 0.3).columns
    taken: list[str] = []
    of_language = type(columns).__getitem__

    def noting(self: Mapping[str, FloatArray], lang: str) -> FloatArray:
        taken.append(lang)
        return of_language(self, lang)

    monkeypatch.setattr(type(columns), "__getitem__", noting)
    texts = {**blocks, "fr": blocks["de"]}
    assert mate_rank(columns, texts, texts) > 0.9
    assert taken == ["de", "en"]
