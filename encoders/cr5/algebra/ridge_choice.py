"""Choose λ by cross-validation over concepts: a few words of a document retrieve its mates of held-out concepts.

A few words resemble a query. Whole documents find their mates best with a λ that is too small for queries (on lohelp
.03 to .1, where .3 to 1 is best for topics). From 400 to 1,436 concepts the best λ hardly changes
(docs/methods/cr5.md), so a few concepts choose it.
"""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise, permutations

import numpy as np
from scipy.sparse import csr_array

from encoders.cr5.algebra.solver import Block, solve
from encoders.document import FloatArray, IntArray, unit_rows

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CONCEPTS = 600
"""Maximum number of concepts in the cross-validation."""
_WORDS = 5
"""Words of a query."""
_FOLDS = 3
_SHARE = 0.75
"""Dimensions a concept below which the best λ depends on their number no more."""
_FEWEST = 30
"""Minimum number of concepts for a cross-validation."""
DEFAULT = 0.3
"""λ for fewer concepts."""


def choose_ridge(
    blocks: Mapping[str, Block], dimensions: int, *, seed: int = 0, progress: Callable[[int], None] | None = None
) -> tuple[float, dict[float, float]]:
    """Choose the λ with the best ranks of held-out mates; also return the mean reciprocal rank of each λ tried.

    Of the λ that the folds can't tell from the best one, the largest is chosen (the one-standard-error rule).
    ``progress`` is called with 1 after each trained model.
    """
    random = np.random.default_rng(seed)
    concepts = np.unique(np.concatenate([block.concepts for block in blocks.values()]))
    drawn = random.permutation(concepts)[:CONCEPTS]
    if len(drawn) < _FEWEST:
        return DEFAULT, {}
    ranks: dict[float, list[float]] = {lam: [] for lam in RIDGES}
    for fold in np.array_split(drawn, _FOLDS):
        training, held_out = split(blocks, drawn, fold)
        words = excerpts(held_out, random)
        concept_dimensions = max(_SHARE, dimensions / len(concepts))
        fold_dimensions = min(dimensions, math.ceil((len(drawn) - len(fold)) * concept_dimensions))
        for lam in RIDGES:
            columns = solve(training, fold_dimensions, lam, seed=seed).columns
            ranks[lam].append(mate_rank(columns, held_out, words))
            if progress:
                progress(1)
    means = {lam: float(np.mean(values)) for lam, values in ranks.items()}
    best = np.array(max(ranks.values(), key=lambda lam_ranks: float(np.mean(lam_ranks))))
    behind = {lam: best - lam_ranks for lam, lam_ranks in ranks.items()}  # of each fold
    return max(lam for lam, gap in behind.items() if gap.mean() <= gap.std(ddof=1) / len(gap) ** 0.5), means


MODELS = _FOLDS * len(RIDGES)
"""Number of models trained to choose λ."""


def split(blocks: Mapping[str, Block], drawn: IntArray, fold: IntArray) -> tuple[dict[str, Block], dict[str, Block]]:
    """Documents of the drawn concepts outside the fold, and documents of the fold's concepts."""
    outside = np.setdiff1d(drawn, fold)
    parts = []
    for concepts in (outside, fold):
        part = {}
        for lang, block in blocks.items():
            rows = np.flatnonzero(np.isin(block.concepts, concepts))
            if len(rows):
                part[lang] = Block(block.matrix[rows], np.searchsorted(np.sort(concepts), block.concepts[rows]))
        parts.append(part)
    return parts[0], parts[1]


def excerpts(blocks: Mapping[str, Block], random: np.random.Generator) -> dict[str, Block]:
    """The documents, each with at most ``_WORDS`` randomly drawn words."""
    return {lang: Block(_drawn_words(block.matrix, random), block.concepts) for lang, block in blocks.items()}


def _drawn_words(matrix: csr_array, random: np.random.Generator) -> csr_array:
    order = np.lexsort((random.random(matrix.nnz), np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))))
    drawn = order[
        np.concatenate([np.arange(start, min(start + _WORDS, end)) for start, end in pairwise(matrix.indptr)])
    ]
    lengths = np.minimum(np.diff(matrix.indptr), _WORDS)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return csr_array((matrix.data[drawn], matrix.indices[drawn], ends), shape=matrix.shape)


def mate_rank(
    columns: Mapping[str, FloatArray], held_out: Mapping[str, Block], asked: Mapping[str, Block] | None = None
) -> float:
    """Mean reciprocal rank of mates by cosine, over ordered pairs of languages; a mate ranks last among ties.

    ``columns`` is Φᵀ; ``asked`` has the documents' queries in the same order, by default the documents.
    """
    vectors: dict[str, FloatArray] = {}
    queries: dict[str, FloatArray] = {}
    for lang in (lang for lang in held_out if lang in columns):
        lang_columns = columns[lang]
        vectors[lang] = unit_rows(held_out[lang].matrix @ lang_columns)
        queries[lang] = unit_rows(asked[lang].matrix @ lang_columns) if asked else vectors[lang]
    means = []
    for lang, other in permutations(vectors, 2):
        concepts, other_concepts = held_out[lang].concepts, held_out[other].concepts
        query_rows = np.flatnonzero(np.isin(concepts, other_concepts))
        if not len(query_rows):
            continue
        cosines = queries[lang][query_rows] @ vectors[other].T
        mates = concepts[query_rows][:, None] == other_concepts[None, :]
        best = np.where(mates, cosines, -np.inf).max(axis=1)
        means.append(float(np.mean(1.0 / (1 + ((cosines >= best[:, None]) & ~mates).sum(axis=1)))))
    return float(np.mean(means)) if means else 0.0
