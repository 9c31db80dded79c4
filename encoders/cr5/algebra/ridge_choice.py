"""λ by cross-validation over concepts: a few words of a document find its mates among concepts not trained on.

A few words, because that is what a query is: whole documents find their mates by almost any λ, and best by one that is
too small for queries (on lohelp .03 to .1, where topics are answered best at .3 to 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, permutations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from encoders.cr5.algebra.solver import Block, solve
from encoders.document import FloatArray, unit_rows

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CONCEPTS = 600
"""Concepts that are drawn for it, at most."""
_WORDS = 5
"""Words of a query."""
_FOLDS = 3
_FEWEST = 30
"""Concepts below which there is nothing to choose by."""
DEFAULT = 0.3
"""λ where there is not."""

IntArray = npt.NDArray[np.int64]


def choose_ridge(
    blocks: Mapping[str, Block], dimensions: int, *, seed: int = 0, progress: Callable[[int], None] | None = None
) -> tuple[float, dict[float, float]]:
    """The λ by which held-out documents rank their mates best, and the mean reciprocal rank of each λ tried.

    Of those that the folds can't tell from the best, the largest is taken (the one-standard-error rule).

    Args:
        blocks: by language.
        dimensions: r.
        seed: of the draw of concepts and folds.
        progress: is told of each model trained.
    """
    chance = np.random.default_rng(seed)
    concepts = np.unique(np.concatenate([block.concepts for block in blocks.values()]))
    drawn = chance.permutation(concepts)[:CONCEPTS]
    if len(drawn) < _FEWEST:
        return DEFAULT, {}
    ranks: dict[float, list[float]] = {lam: [] for lam in RIDGES}
    for fold in np.array_split(drawn, _FOLDS):
        training, held_out = split(blocks, drawn, fold)
        asked = {lang: Block(_excerpts(block.matrix, chance), block.concepts) for lang, block in held_out.items()}
        for lam in RIDGES:
            ranks[lam].append(mate_rank(solve(training, dimensions, lam, seed=seed).columns, held_out, asked))
            if progress:
                progress(1)
    means = {lam: float(np.mean(values)) for lam, values in ranks.items()}
    return _strongest(ranks), means


MODELS = _FOLDS * len(RIDGES)
"""Models trained to choose λ."""


def _strongest(ranks: Mapping[float, Sequence[float]]) -> float:
    """The largest λ that is behind the best one by no more than the standard error of their difference over folds."""
    best = np.array(max(ranks.values(), key=lambda values: float(np.mean(values))))
    behind = {lam: best - values for lam, values in ranks.items()}
    return max(lam for lam, gap in behind.items() if gap.mean() <= gap.std(ddof=1) / len(gap) ** 0.5)


def split(blocks: Mapping[str, Block], drawn: IntArray, fold: IntArray) -> tuple[dict[str, Block], dict[str, Block]]:
    """The documents of the drawn concepts but a fold's, and those of the fold."""
    rest = np.setdiff1d(drawn, fold)
    parts = []
    for chosen in (rest, fold):
        part = {}
        for lang, block in blocks.items():
            rows = np.flatnonzero(np.isin(block.concepts, chosen))
            if len(rows):
                part[lang] = Block(block.matrix[rows], np.searchsorted(np.sort(chosen), block.concepts[rows]))
        parts.append(part)
    return parts[0], parts[1]


def _excerpts(matrix: csr_array, chance: np.random.Generator) -> csr_array:
    """Of each row a few entries, drawn by chance."""
    order = np.lexsort((chance.random(matrix.nnz), np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))))
    kept = order[np.concatenate([np.arange(start, min(start + _WORDS, end)) for start, end in pairwise(matrix.indptr)])]
    lengths = np.minimum(np.diff(matrix.indptr), _WORDS)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return csr_array((matrix.data[kept], matrix.indices[kept], ends), shape=matrix.shape)


def mate_rank(
    columns: Mapping[str, FloatArray], held_out: Mapping[str, Block], asked: Mapping[str, Block] | None = None
) -> float:
    """Mean reciprocal rank of mates by cosine, over ordered pairs of languages; of equals a mate is the last.

    Args:
        columns: Φᵀ by language.
        held_out: documents.
        asked: what is known of them as queries, in the same order; they themselves unless given.
    """
    vectors, queries = (
        {lang: unit_rows(block.matrix @ columns[lang]) for lang, block in some.items() if lang in columns}
        for some in (held_out, asked or held_out)
    )
    means = []
    for lang, other in permutations(vectors, 2):
        own, theirs = held_out[lang].concepts, held_out[other].concepts
        asking = np.flatnonzero(np.isin(own, theirs))
        if not len(asking):
            continue
        cosines = queries[lang][asking] @ vectors[other].T
        mates = own[asking][:, None] == theirs[None, :]
        best = np.where(mates, cosines, -np.inf).max(axis=1)
        means.append(float(np.mean(1.0 / (1 + ((cosines >= best[:, None]) & ~mates).sum(axis=1)))))
    return float(np.mean(means)) if means else 0.0
