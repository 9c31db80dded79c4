"""How well a linear classifier tells languages apart, and the rank without which it can't (LAWDR, section 3.2)."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.moments import Moments

IntArray = npt.NDArray[np.int64]

_MOST, _IN_ALL = 2_000, 4_000
"""Maximum vectors of a language, and of all languages, that a classifier is trained and tested on."""

_FEWEST = 5
_TEST = 0.2
_ROUNDS = 1_000


@dataclass(frozen=True)
class RankChoice:
    """How many directions of each language to take out."""

    rank: int | None  # the smallest rank with an accuracy below the bar; none if no tried rank has one
    bar: float  # accuracy below which languages can't be told apart
    accuracies: Mapping[int, float]  # accuracy by rank, for the ranks tried; rank 0 is the vectors as they are


def _split(codes: IntArray, documents: Sequence[str], seed: int) -> tuple[list[IntArray], list[IntArray]]:
    """Training rows and test rows of each language; a fifth of the documents, drawn at random, are in the test."""
    random = np.random.default_rng(seed)
    limit = max(_FEWEST, min(_MOST, _IN_ALL // len(np.unique(codes))))
    names, numbers = np.unique(np.asarray(documents), return_inverse=True)
    tested_names = np.zeros(len(names), dtype=np.bool_)
    tested_names[random.permutation(len(names))[: max(1, round(_TEST * len(names)))]] = True
    tested = tested_names[numbers]
    train, test = [], []
    for code in np.unique(codes):
        drawn = random.permutation(np.flatnonzero(codes == code))[:limit]
        test.append(drawn[tested[drawn]])
        train.append(drawn[~tested[drawn]])
    if not all(len(rows) for rows in (*train, *test)):
        raise BadInput("a language has too few documents to be tested on others than it is learnt from; take more")
    return train, test


def _accuracy(
    vectors: FloatArray, codes: IntArray, train: Sequence[IntArray], test: Sequence[IntArray], seed: int
) -> float:
    """Mean over languages of the classifier's accuracy on the test rows."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - a second that other commands need not pay
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    training = np.concatenate(train)
    classifier = LinearSVC(class_weight="balanced", dual="auto", tol=1e-3, max_iter=_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last thousandth of accuracy decides nothing
        classifier.fit(unit_rows(vectors[training]), codes[training])
    return float(np.mean([(classifier.predict(unit_rows(vectors[rows])) == codes[rows]).mean() for rows in test]))


def _codes(langs: Sequence[str]) -> IntArray:
    """(n,) number of each vector's language."""
    names, codes, counts = np.unique(np.asarray(langs), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise BadInput("telling languages apart takes two of them at least; there is one")
    if counts.min() < _FEWEST:
        raise BadInput(
            f"{counts.min()} vectors in {names[counts.argmin()]} are too few to tell languages apart; take {_FEWEST}"
        )
    return codes.astype(np.int64)


def bar(languages: int) -> float:
    """Accuracy below which languages can't be told apart: 55 % for two, as in the paper.

    For n languages the bar is 1/n + 0.1 · (1 − 1/n): chance, and a tenth of the distance from chance to certainty.
    """
    chance = 1 / languages
    return chance + 0.1 * (1 - chance)


def accuracy_by_component(
    vectors: FloatArray, langs: Sequence[str], documents: Sequence[str], rank: int, seed: int = 0
) -> tuple[float, float, float]:
    """Accuracy on vectors, on their components in their language's subspace, and on the rest (LAWDR, table 1).

    The subspaces come from the training vectors, so that the test vectors are new to subspaces and classifier.
    ``documents`` names the document of each vector: all vectors of a name are trained on or tested on.
    """
    codes = _codes(langs)
    train, test = _split(codes, documents, seed)
    within = _language_parts(vectors, rank, train, test)
    whole, inside, outside = (_accuracy(rows, codes, train, test, seed) for rows in (vectors, within, vectors - within))
    return whole, inside, outside


def _language_parts(vectors: FloatArray, rank: int, train: Sequence[IntArray], test: Sequence[IntArray]) -> FloatArray:
    """(n, dim) each vector's component in its language's subspace (LAWDR, eq. 1); zero for rows in no split."""
    within = np.zeros_like(vectors)
    for train_rows, test_rows in zip(train, test, strict=True):
        moments = Moments(vectors.shape[1])
        moments.add(vectors[train_rows])
        subspace = moments.subspace(rank)
        for rows in (train_rows, test_rows):
            within[rows] = vectors[rows] @ subspace.T @ subspace
    return within


def smallest_rank(
    vectors: FloatArray,
    langs: Sequence[str],
    documents: Sequence[str],
    ranks: Sequence[int] | None = None,
    seed: int = 0,
) -> RankChoice:
    """The smallest rank of language subspaces without which languages can't be told apart (LAWDR, section 10.1).

    The subspaces come from the training vectors. The ranks to try ascend; unless given, they are 1, 2, 4 … up to half
    the width. ``documents`` is as for ``accuracy_by_component``.
    """
    codes = _codes(langs)
    train, test = _split(codes, documents, seed)
    limit = bar(len(train))
    accuracies = {0: _accuracy(vectors, codes, train, test, seed)}
    doubled = [1 << power for power in range(max(1, (vectors.shape[1] // 2).bit_length()))]
    for rank in doubled if ranks is None else ranks:
        rest = vectors - _language_parts(vectors, rank, train, test)
        accuracies[rank] = _accuracy(rest, codes, train, test, seed)
        if accuracies[rank] < limit:
            return RankChoice(rank, limit, accuracies)
    return RankChoice(None, limit, accuracies)
