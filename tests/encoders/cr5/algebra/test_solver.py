"""The solver, in each of its forms, against the paper in dense numpy, word for word; the choice of λ; memory."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.sparse import csr_array, random_array

from encoders.cr5.algebra import language_ridge as algebra_ridge
from encoders.cr5.algebra import memory_need, solver
from encoders.cr5.algebra.conjugate_gradients import Columns, _block, solve_refined
from encoders.cr5.algebra.conjugate_gradients import solve as solve_block
from encoders.cr5.algebra.language_ridge import ridge
from encoders.cr5.algebra.memory_need import free_memory, needed
from encoders.cr5.algebra.ridge_choice import choose_ridge, mate_rank
from encoders.cr5.algebra.solver import Block, Solution, solve
from encoders.document import FloatArray
from tests.conftest import Patch

WORDS = {"de": 80, "en": 15, "fi": 60}
"""More words than documents, fewer, and about as many."""


def _same_space(blocks: dict[str, Block], dimensions: int, lam: float, **how: float) -> float:
    """Largest difference of the projections on the rows of Φ: blind to turns, which the paper leaves open."""
    golden, _ = embedding(blocks, dimensions, lam)
    columns = np.concatenate(list(solve(blocks, dimensions, lam, **how).columns.values()))  # type: ignore[arg-type]
    return float(np.abs(columns @ columns.T - golden.T @ golden).max())


def _assert_leading(blocks: dict[str, Block], dimensions: int, lam: float, least: float, **how: int) -> None:
    golden, values = embedding(blocks, dimensions, lam)
    found = solve(blocks, dimensions, lam, **how)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.eigenvalues, values, rtol=0.01)
    assert np.linalg.svd(golden @ np.concatenate(list(found.columns.values())))[1].min() > least


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([0.03, 0.3, 3.0]), st.integers(2, 9))
def test_factorised_it_is_the_paper(seed: int, lam: float, dimensions: int) -> None:
    assert _same_space(random_blocks(seed, 30, WORDS), dimensions, lam) < 1e-3


@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_iterated_it_is_the_paper(lam: float) -> None:
    assert _same_space(random_blocks(1, 30, WORDS), 8, lam, direct=0, tolerance=1e-6) < 1e-3


@pytest.mark.parametrize("shape", [(300, 700), (700, 300)], ids=["dual", "primal"])
@pytest.mark.parametrize("frequent", [0.0, 0.05, 1.0], ids=["all words frequent", "some", "none"])
def test_a_factor_of_blocks_is_ridge_regression(shape: tuple[int, int], frequent: float, monkeypatch: Patch) -> None:
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
            solve_refined(lambda columns: 2 * columns, inverse, right, 1e-3)
    else:
        found = solve_refined(lambda columns: 2 * columns, inverse, right, 1e-3)
        np.testing.assert_allclose(found, right / 2, rtol=2e-3)


@pytest.mark.parametrize("shape", [(400, 120), (300, 600)], ids=["more documents than words", "fewer"])
def test_iterated_to_the_usual_tolerance_centring_is_taken_out_whole(shape: tuple[int, int]) -> None:
    """Of two languages' bags of words, the frequent ones and those of subjects: rows of unit length."""
    documents, words = shape
    chance = np.random.default_rng(0)
    about = chance.dirichlet(np.full(10, 0.1), documents)
    frequent = 1 / np.arange(1, words + 1)
    blocks = {}
    for lang in ("de", "en"):
        likely = about @ np.stack([chance.permutation(frequent) for _ in range(10)]) + frequent
        bags = np.log1p(np.stack([chance.multinomial(60, one / one.sum()) for one in likely]))
        bags /= np.linalg.norm(bags, axis=1, keepdims=True)
        blocks[lang] = Block(csr_array(bags.astype(np.float32)), np.arange(documents))
    _assert_leading(blocks, 8, 0.3, 0.98, direct=0)


def test_by_a_krylov_space_it_is_the_paper() -> None:
    chance = np.random.default_rng(2)
    subjects = chance.random((500, 6)) ** 4  # what concepts are about: six directions, and noise
    blocks = {}
    for lang, count in {"de": 90, "en": 120}.items():
        bags = subjects @ (chance.random((6, count)) ** 8) * (chance.random((500, count)) < 0.4)
        blocks[lang] = Block(csr_array(bags.astype(np.float32)), np.arange(500))
    _assert_leading(blocks, 6, 3.0, 0.95, small=0)


def test_it_gives_the_same_numbers_again_also_without_room_for_what_was_solved(monkeypatch: Patch) -> None:
    blocks = random_blocks(4, 260, {"de": 90, "en": 120})
    first, second = (solve(blocks, 5, 0.3, small=0).columns for _ in range(2))
    for lang in first:
        np.testing.assert_array_equal(first[lang], second[lang])
    blocks = random_blocks(5, 40, WORDS)
    kept = solve(blocks, 6, 0.3).columns
    monkeypatch.setattr(solver, "KEPT", 0)
    again = solve(blocks, 6, 0.3).columns
    for lang, columns in kept.items():
        np.testing.assert_allclose(np.abs(again[lang]), np.abs(columns), atol=1e-4)


@pytest.mark.parametrize("off", [0.002, 0.9])
def test_what_float32_gets_wrong_is_refined_in_float64_or_refused(off: float) -> None:
    """The operator is another system, off by a share, wherever it is asked in float32."""
    chance = np.random.default_rng(0)
    root = chance.standard_normal((40, 60))
    system = root @ root.T + 0.5 * np.eye(40)
    other = system + off * np.diag(np.diag(system)) * chance.choice([-1, 1], 40)

    def operator(block: Columns) -> Columns:
        return np.asarray((other if block.dtype == np.float32 else system) @ block, dtype=block.dtype)

    right = np.random.default_rng(1).standard_normal((40, 5)).astype(np.float32)
    if off > 0.5:
        with pytest.raises(ArithmeticError, match=r"residual .* of a system of 40 equations does not shrink"):
            solve_block(operator, right, 1e-3)
        return
    found = solve_block(operator, right, 1e-3)
    residuals = np.linalg.norm(right - system @ found.astype(np.float64), axis=0) / np.linalg.norm(right, axis=0)
    alone = _block(operator, right, np.float32(5e-4)).astype(np.float64)
    assert np.linalg.norm(right - system @ alone) > 3e-3 * np.linalg.norm(right)
    assert residuals.max() <= 1.1e-3
    nothing = np.zeros((40, 2), dtype=np.float32)  # a right-hand side of nothing has a solution of nothing
    np.testing.assert_array_equal(solve_block(operator, nothing), nothing)


def test_concepts_outnumber_dimensions_in_a_fold_where_they_do_in_the_training(monkeypatch: Patch) -> None:
    chance = np.random.default_rng(0)
    blocks = {lang: Block(csr_array(chance.random((90, 40), dtype=np.float32)), np.arange(90)) for lang in ("de", "en")}
    asked: list[tuple[int, int]] = []

    def noting(training: dict[str, Block], dimensions: int, lam: float, *, seed: int) -> Solution:
        asked.append((len(training["de"].concepts), dimensions))
        return solve(training, dimensions, lam, seed=seed)

    monkeypatch.setattr("encoders.cr5.algebra.ridge_choice.solve", noting)
    choose_ridge(blocks, 70)
    assert set(asked) == {(60, 47)}
    nothing = {lang: np.zeros((40, 3), np.float32) for lang in blocks}
    assert mate_rank(nothing, blocks) < 0.1, "vectors of nothing find no mates"


GB = 10**9


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_page_cache_counts_as_free_and_where_nothing_says_there_is_no_end(tmp_path: Path) -> None:
    assert 0 < free_memory() < free_memory(tmp_path) == float("inf")
    told = "MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable: 5000 kB\nCached: 4900 kB\n"
    assert free_memory(_write(tmp_path, {"proc/meminfo": told})) == 5000 * 1024


@pytest.mark.parametrize(
    ("groups", "folder", "limit", "used", "cache"),
    [
        ("0::/box/inner\n", "", "memory.max", "memory.current", ""),
        (
            "9:name=systemd:/\n4:memory:/box/inner\n0::/\n",
            *("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_a_container_has_a_limit(tmp_path: Path, groups: str, folder: str, limit: str, used: str, cache: str) -> None:
    told = {limit: f"{2 * GB}\n", used: f"{GB}\n", "memory.stat": f"active_file 7\n{cache}inactive_file {GB // 2}\n"}
    told |= {"inner/memory.max": "max\n", "inner/memory.current": "5\n"}
    files = {f"sys/fs/cgroup{folder}/box/{name}": text for name, text in told.items()}
    files |= {"proc/meminfo": f"MemAvailable: {8 * GB // 1024} kB\n", "proc/self/cgroup": groups}
    assert free_memory(_write(tmp_path, files)) == GB + GB // 2


def test_what_training_takes_has_every_languages_factor_in_it(monkeypatch: Patch) -> None:
    def block(documents: int, words: int) -> Block:
        empty = (np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(documents + 1, np.int32))
        return Block(csr_array(empty, shape=(documents, words)), np.zeros(documents, dtype=np.int64))

    one, more = ({str(n): block(3_000, 9_000) for n in range(count)} for count in (1, 6))
    factors = needed(more, 3_000, 300), needed(one, 3_000, 300)
    monkeypatch.setattr(memory_need, "DIRECT", 0)
    without = needed(more, 3_000, 300), needed(one, 3_000, 300)
    assert [both - alone for both, alone in zip(factors, without, strict=True)] == [6 * 4 * 3_000**2, 4 * 3_000**2]
    assert needed({"de": block(100_000, 200_000)}, 100_000, 300) > 4 * 100_000 * 40 * 64  # the Krylov space


Matrix = npt.NDArray[np.float64]


def embedding(blocks: Mapping[str, Block], dimensions: int, lam: float) -> tuple[Matrix, Matrix]:
    """Φ with orthonormal rows (eqs. 9, 12, 14, 15), and the eigenvalues of eq. 12."""
    z = np.asarray(block_diag(*(block.matrix.toarray() for block in blocks.values())), dtype=np.float64)
    labels = np.concatenate([block.concepts for block in blocks.values()])
    y = np.eye(labels.max() + 1)[labels]  # z: all documents in one product space; y: their concepts, one-hot
    z, y = z - z.mean(axis=0), y - y.mean(axis=0)
    inverse = np.linalg.inv(z.T @ z + lam * np.eye(z.shape[1]))
    values, vectors = np.linalg.eigh(y.T @ z @ inverse @ z.T @ y)
    raw = vectors[:, ::-1][:, :dimensions].T @ y.T @ z @ inverse
    variances, turn = np.linalg.eigh(raw @ raw.T)
    return np.diag(variances**-0.5) @ turn.T @ raw, values[::-1][:dimensions]


def random_blocks(seed: int, concepts: int, words: Mapping[str, int]) -> dict[str, Block]:
    """Languages with some concepts each, their documents random bags of words."""
    chance = np.random.default_rng(seed)
    blocks = {}
    for lang, count in words.items():
        present = np.flatnonzero(chance.random(concepts) < 0.8)
        matrix = random_array((len(present), count), density=0.3, rng=chance, dtype=np.float32)
        blocks[lang] = Block(csr_array(matrix), present)
    used = np.unique(np.concatenate([block.concepts for block in blocks.values()]))
    return {lang: Block(one.matrix, np.searchsorted(used, one.concepts)) for lang, one in blocks.items()}
