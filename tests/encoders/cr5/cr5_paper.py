"""Section 3.2 of the Cr5 paper in dense numpy, word for word: the oracle."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag
from scipy.sparse import csr_array, random_array

from encoders.cr5.algebra.solver import Block

Matrix = npt.NDArray[np.float64]


def stacked(blocks: Mapping[str, Block]) -> tuple[Matrix, Matrix]:
    """Z and Y: all languages' documents in one product space, and their concepts one-hot."""
    z = np.asarray(block_diag(*(block.matrix.toarray() for block in blocks.values())), dtype=np.float64)
    labels = np.concatenate([block.concepts for block in blocks.values()])
    return z, np.eye(labels.max() + 1)[labels]


def embedding(blocks: Mapping[str, Block], dimensions: int, lam: float) -> tuple[Matrix, Matrix]:
    """Φ with orthonormal rows (eqs. 9, 12, 14, 15), and the eigenvalues of eq. 12."""
    z, y = stacked(blocks)
    z, y = z - z.mean(axis=0), y - y.mean(axis=0)
    inverse = np.linalg.inv(z.T @ z + lam * np.eye(z.shape[1]))
    values, vectors = np.linalg.eigh(y.T @ z @ inverse @ z.T @ y)
    top = vectors[:, ::-1][:, :dimensions]
    raw = top.T @ y.T @ z @ inverse
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
