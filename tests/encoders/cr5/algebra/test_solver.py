"""The solver against the paper written out in dense numpy, in each of its forms."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh
from scipy.sparse import csr_array

from encoders.cr5.algebra import eigenvectors, refinement, solver
from encoders.cr5.algebra import language_ridge as algebra_ridge
from encoders.cr5.algebra.conjugate_gradients import _block, orthonormal
from encoders.cr5.algebra.conjugate_gradients import solve as solve_block
from encoders.cr5.algebra.eigenvectors import BLOCK, leading, max_applied_vectors
from encoders.cr5.algebra.language_ridge import ridge
from encoders.cr5.algebra.refinement import Columns, Operator
from encoders.cr5.algebra.solver import Block, solve
from encoders.document import Float64Array, FloatArray
from tests.encoders.cr5.cr5_paper import embedding, random_blocks

WORDS = {"de": 80, "en": 15, "fi": 60}
"""More words than documents, fewer, and about as many."""


def _same_space(blocks: dict[str, Block], dimensions: int, lam: float, **how: float) -> float:
    """Largest difference of the projections on the rows of Φ: blind to turns, which the paper leaves open."""
    golden, _ = embedding(blocks, dimensions, lam)
    columns = np.concatenate(list(solve(blocks, dimensions, lam, **how).columns.values()))  # type: ignore[arg-type]
    return float(np.abs(columns @ columns.T - golden.T @ golden).max())


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([0.03, 0.3, 3.0]), st.integers(2, 9))
def test_factorised_it_is_the_paper(seed: int, lam: float, dimensions: int) -> None:
    assert _same_space(random_blocks(seed, 30, WORDS), dimensions, lam) < 1e-3


@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_iterated_it_is_the_paper(lam: float) -> None:
    blocks = random_blocks(1, 30, WORDS)
    assert _same_space(blocks, 8, lam, direct=0, tolerance=1e-6) < 1e-3


@pytest.mark.parametrize("shape", [(300, 700), (700, 300)], ids=["dual", "primal"])
@pytest.mark.parametrize("frequent", [0.0, 0.05, 1.0], ids=["all words frequent", "some", "none"])
def test_a_factor_of_several_blocks_is_the_ridge_regression(
    shape: tuple[int, int], frequent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algebra_ridge, "_FREQUENT", frequent)
    monkeypatch.setattr(algebra_ridge, "_SLAB", 64)
    chance = np.random.default_rng(0)
    often = chance.random(shape[1]) ** 3  # some words are in most documents, and most words in few
    bags = (chance.random(shape) * (chance.random(shape) < often)).astype(np.float32)
    targets = chance.standard_normal((shape[0], 5)).astype(np.float32)
    regression = ridge(csr_array(bags), 0.03, tolerance=1e-5)
    exact = bags.astype(np.float64)
    golden = np.linalg.solve(exact.T @ exact + 0.03 * np.eye(shape[1]), exact.T @ targets)
    solved = regression.solve(targets)
    np.testing.assert_allclose(regression.weights(solved), golden, atol=1e-4 * np.abs(golden).max())
    np.testing.assert_allclose(regression.predicted(targets, solved), exact @ golden, atol=1e-3)


def test_a_ridge_that_float32_has_no_factor_for_is_refused() -> None:
    matrix = csr_array(np.ones((300, 400), dtype=np.float32))
    with pytest.raises(np.linalg.LinAlgError):
        ridge(matrix, 1e-9)


@pytest.mark.parametrize("wrong", [0.02, np.nan])
def test_a_solution_by_an_inverse_is_checked_column_by_column(wrong: float) -> None:
    """The residual of a wrong column is small beside the other columns', but not beside its own right-hand side."""
    right = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    right[:, 2] *= 1e-4

    def inverse(columns: FloatArray) -> FloatArray:
        halves: FloatArray = columns / np.float32(2)
        halves[:, 2] *= np.float32(1 + wrong)
        return halves

    if np.isnan(wrong):
        with pytest.raises(ArithmeticError, match="residual nan of a system of 40 equations"):
            refinement.solve(lambda columns: 2 * columns, inverse, right, 1e-3)
    else:
        found = refinement.solve(lambda columns: 2 * columns, inverse, right, 1e-3)
        np.testing.assert_allclose(found, right / 2, rtol=2e-3)


def _of_subjects(documents: int, words: int) -> dict[str, Block]:
    """Two languages' bags of words, the frequent ones and those of subjects: rows of unit length."""
    chance = np.random.default_rng(0)
    about = chance.dirichlet(np.full(10, 0.1), documents)
    frequent = 1 / np.arange(1, words + 1)
    blocks = {}
    for lang in ("de", "en"):
        likely = about @ np.stack([chance.permutation(frequent) for _ in range(10)]) + frequent
        bags = np.log1p(np.stack([chance.multinomial(60, one / one.sum()) for one in likely]))
        bags /= np.linalg.norm(bags, axis=1, keepdims=True)
        blocks[lang] = Block(csr_array(bags.astype(np.float32)), np.arange(documents))
    return blocks


@pytest.mark.parametrize("shape", [(400, 120), (300, 600)], ids=["more documents than words", "fewer"])
def test_iterated_to_the_usual_tolerance_centring_is_taken_out_whole(shape: tuple[int, int]) -> None:
    blocks = _of_subjects(*shape)
    golden, values = embedding(blocks, 8, 0.3)
    found = solve(blocks, 8, 0.3, direct=0)
    columns = np.concatenate(list(found.columns.values()))
    np.testing.assert_allclose(found.eigenvalues, values, rtol=0.01)
    assert np.linalg.svd(golden @ columns)[1].min() > 0.98


def test_by_a_krylov_space_it_is_the_paper() -> None:
    chance = np.random.default_rng(2)
    subjects = chance.random((500, 6)) ** 4  # what concepts are about: six directions, and noise
    blocks = {}
    for lang, count in {"de": 90, "en": 120}.items():
        bags = subjects @ (chance.random((6, count)) ** 8) * (chance.random((500, count)) < 0.4)
        blocks[lang] = Block(csr_array(bags.astype(np.float32)), np.arange(500))
    golden, values = embedding(blocks, 6, 3.0)
    found = solve(blocks, 6, 3.0, small=0)
    columns = np.concatenate(list(found.columns.values()))
    np.testing.assert_allclose(found.eigenvalues, values, rtol=0.01)
    assert np.linalg.svd(golden @ columns)[1].min() > 0.95


def test_without_room_for_what_was_solved_it_is_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = random_blocks(5, 40, WORDS)
    kept = solve(blocks, 6, 0.3).columns
    monkeypatch.setattr(solver, "KEPT", 0)
    again = solve(blocks, 6, 0.3).columns
    for lang, columns in kept.items():
        np.testing.assert_allclose(np.abs(again[lang]), np.abs(columns), atol=1e-4)


def test_rows_of_the_embedding_are_orthonormal_over_all_languages() -> None:
    columns = np.concatenate(list(solve(random_blocks(3, 40, WORDS), 12, 0.3).columns.values()))
    np.testing.assert_allclose(columns.T @ columns, np.eye(12), atol=1e-5)


def test_it_gives_the_same_numbers_again() -> None:
    blocks = random_blocks(4, 260, {"de": 90, "en": 120})
    first, second = (solve(blocks, 5, 0.3, small=0).columns for _ in range(2))
    for lang in first:
        np.testing.assert_array_equal(first[lang], second[lang])


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(1, 12))
def test_block_conjugate_gradients_solve_every_column(seed: int, columns: int) -> None:
    chance = np.random.default_rng(seed)
    root = chance.standard_normal((40, 60))
    system = root @ root.T + 0.5 * np.eye(40)
    right = chance.standard_normal((40, columns)).astype(np.float32)
    right[:, -1] = right[:, 0]  # a column twice
    found = solve_block(lambda block: (system @ block).astype(block.dtype), right, 1e-4)
    residuals = np.linalg.norm(right - system @ found, axis=0) / np.linalg.norm(right, axis=0)
    assert residuals.max() < 1e-3


def _perturbed(off: float) -> tuple[Float64Array, Operator]:
    """A system, and an operator that is another one, off by a share, wherever it is asked in float32."""
    chance = np.random.default_rng(0)
    root = chance.standard_normal((40, 60))
    system = root @ root.T + 0.5 * np.eye(40)
    other = system + off * np.diag(np.diag(system)) * chance.choice([-1, 1], 40)

    def operator(block: Columns) -> Columns:
        return np.asarray((other if block.dtype == np.float32 else system) @ block, dtype=block.dtype)

    return system, operator


def test_what_float32_gets_wrong_is_refined_in_float64() -> None:
    system, operator = _perturbed(0.002)
    right = np.random.default_rng(1).standard_normal((40, 5)).astype(np.float32)
    found = solve_block(operator, right, 1e-3)
    residuals = np.linalg.norm(right - system @ found.astype(np.float64), axis=0) / np.linalg.norm(right, axis=0)
    alone = _block(operator, right, np.float32(5e-4)).astype(np.float64)
    assert np.linalg.norm(right - system @ alone) > 3e-3 * np.linalg.norm(right)
    assert residuals.max() <= 1.1e-3


def test_a_system_that_float32_cannot_hold_is_refused() -> None:
    _, operator = _perturbed(0.9)
    right = np.random.default_rng(1).standard_normal((40, 5)).astype(np.float32)
    with pytest.raises(ArithmeticError, match=r"residual .* of a system of 40 equations does not shrink"):
        solve_block(operator, right, 1e-3)


def test_a_right_hand_side_of_nothing_has_a_solution_of_nothing() -> None:
    right = np.zeros((10, 3), dtype=np.float32)
    right[:, 1] = 1.0
    found = solve_block(lambda block: 2 * block, right)
    np.testing.assert_allclose(found, right / 2, atol=1e-6)


def test_dependent_columns_still_get_an_orthonormal_basis() -> None:
    columns = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    columns[:, 3] = columns[:, 0] + columns[:, 1]
    basis, rest = orthonormal(columns)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-5)
    np.testing.assert_allclose(basis @ rest, columns, atol=1e-5)


def test_leading_eigenvectors_are_those_of_the_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenvectors, "TOLERANCE", 1e-4)
    chance = np.random.default_rng(0)
    turn, _ = np.linalg.qr(chance.standard_normal((600, 600)))
    values = np.concatenate([np.linspace(5, 3, 10), np.linspace(1, 0, 590)])
    matrix = ((turn * values) @ turn.T).astype(np.float32)
    told: list[int] = []
    shown: list[FloatArray] = []

    def operator(block: FloatArray) -> FloatArray:
        shown.append(block)
        return np.asarray(matrix @ block)

    found = leading(operator, 600, 10, small=0, progress=told.append)
    np.testing.assert_allclose(found.values, values[:10], rtol=1e-3)
    assert np.linalg.svd(turn[:, :10].T @ found.vectors)[1].min() > 0.999
    np.testing.assert_allclose(np.concatenate(shown, axis=1) @ found.coefficients, found.vectors, atol=1e-5)
    assert set(told) == {BLOCK}
    assert sum(told) < 600


def test_the_space_is_decomposed_fewer_times_than_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(matrix: Float64Array, **how: Any) -> Any:
        sizes.append(len(matrix))
        return eigh(matrix, **how)

    monkeypatch.setattr(eigenvectors, "eigh", counted)
    monkeypatch.setattr(eigenvectors, "TOLERANCE", 1e-9)
    values = np.concatenate([np.full(2000, 1.0), np.linspace(1, 0, 2000)]).astype(np.float32)
    rough = leading(lambda block: values[:, None] * block, 4000, 100, small=0)
    assert rough.residual > 1e-9
    assert sizes[-1] == max_applied_vectors(4000, 100, 0)  # the last check is at the full width
    assert all(later <= earlier + max(BLOCK, earlier // 4 + BLOCK) for earlier, later in pairwise(sizes))
    assert len(sizes) < sizes[-1] // BLOCK - 1


def test_eigenvectors_not_found_to_the_tolerance_say_how_far_they_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenvectors, "TOLERANCE", 1e-6)
    matrix = np.diag(np.linspace(1, 0.5, 1200)).astype(np.float32)
    rough = leading(lambda block: matrix @ block, 1200, 10, small=0)
    assert 1e-6 < rough.residual < 0.1
    vectors = rough.vectors.astype(np.float64)
    residuals = np.linalg.norm(matrix @ vectors - vectors * rough.values, axis=0)
    assert residuals.max() == pytest.approx(rough.residual * rough.values[0], rel=0.1)
    assert leading(lambda block: matrix @ block, 1200, 10).residual == 0.0
