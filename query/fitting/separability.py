"""How well a linear classifier tells languages apart, and how much must be taken out before it can't (LAWDR, 3.2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.moments import Moments

IntArray = npt.NDArray[np.int64]

MOST = 2_000
"""Vectors of a language that are looked at, at most."""

_IN_ALL = 4_000
"""Vectors of all languages that a classifier is trained and tested on, at most."""

_FEWEST = 5
_TEST = 0.2
_ROUNDS = 1_000


@dataclass(frozen=True)
class RankChoice:
    """How many directions of each language are to go.

    Attributes:
        rank: the smallest that brings the classifier below the bar; none where none does.
        bar: accuracy to come below.
        accuracies: by rank, as far as ranks were tried; 0 is the vectors as they are.
    """

    rank: int | None
    bar: float
    accuracies: Mapping[int, float]


@dataclass(frozen=True)
class Separability:
    """How well languages are told apart.

    Attributes:
        accuracy: the mean over languages, in [0, 1].
        tested: vectors of each language that it was tested on.
    """

    accuracy: float
    tested: tuple[int, ...]

    @property
    def languages(self) -> int:
        """How many were told apart, those with enough vectors."""
        return len(self.tested)

    @property
    def threshold(self) -> float:
        """Accuracy below which they can't be told apart: the bar, less its standard error."""
        limit = bar(self.languages)
        error: float = (limit * (1 - limit) * sum(1 / count for count in self.tested)) ** 0.5 / self.languages
        return limit - error

    @property
    def hidden(self) -> bool:
        """Whether they can't be told apart."""
        return self.accuracy < self.threshold


def separability(vectors: FloatArray, langs: npt.NDArray[np.str_], seed: int = 0) -> Separability | None:
    """How well a linear SVM tells the vectors' languages, on a fifth of them that it has not seen.

    The accuracy is the mean of the languages' own, so that a large language can't hide a small one: chance is one by
    the number of languages. At most ``MOST`` vectors a language are looked at, drawn at random; fewer of many
    languages. Languages with fewer than five vectors are left out; with fewer than two others there is nothing to tell.

    Args:
        vectors: (n, dim) float32; only their directions count.
        langs: (n,) their languages.
        seed: of the draw and of the split.
    """
    known, counts = np.unique(langs, return_counts=True)
    enough = np.isin(langs, known[counts >= _FEWEST])
    if (counts >= _FEWEST).sum() < 2:
        return None
    vectors, codes = vectors[enough], _codes(langs[enough].tolist())
    train, test = _split(codes, seed)
    return Separability(_accuracy(vectors, codes, train, test, seed), tuple(map(len, test)))


def _split(codes: IntArray, seed: int) -> tuple[list[IntArray], list[IntArray]]:
    """Rows to train on and rows to test on, of each language."""
    chance = np.random.default_rng(seed)
    most = max(_FEWEST, min(MOST, _IN_ALL // len(np.unique(codes))))
    train, test = [], []
    for code in np.unique(codes):
        drawn = chance.permutation(np.flatnonzero(codes == code))[:most]
        held_out = max(1, round(_TEST * len(drawn)))
        test.append(drawn[:held_out])
        train.append(drawn[held_out:])
    return train, test


def _accuracy(
    vectors: FloatArray, codes: IntArray, train: Sequence[IntArray], test: Sequence[IntArray], seed: int
) -> float:
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - a second that other commands need not pay
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    seen = np.concatenate(train)
    classifier = LinearSVC(class_weight="balanced", dual="auto", tol=1e-3, max_iter=_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last thousandth of accuracy decides nothing
        classifier.fit(unit_rows(vectors[seen]), codes[seen])
    return float(np.mean([(classifier.predict(unit_rows(vectors[some])) == codes[some]).mean() for some in test]))


def _codes(langs: Sequence[str]) -> IntArray:
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

    For more it is chance and a tenth of the way from there to certainty.
    """
    chance = 1 / languages
    return chance + 0.1 * (1 - chance)


def accuracy_by_component(
    vectors: FloatArray, langs: Sequence[str], rank: int, seed: int = 0
) -> tuple[float, float, float]:
    """Accuracy on vectors as they are, on what lies in their language's subspace, and on the rest (LAWDR, table 1).

    The subspaces come from the vectors that the classifier is trained on, so that those it is tested on are new to
    both.

    Args:
        vectors: (n, dim) float32.
        langs: (n,) their languages.
        rank: of each language's subspace.
        seed: of the draw and of the split.

    Raises:
        BadInput: there is one language only, or one has fewer than five vectors.
    """
    codes = _codes(langs)
    train, test = _split(codes, seed)
    within = _language_parts(vectors, rank, train, test)
    whole, inside, outside = (_accuracy(some, codes, train, test, seed) for some in (vectors, within, vectors - within))
    return whole, inside, outside


def _language_parts(vectors: FloatArray, rank: int, train: Sequence[IntArray], test: Sequence[IntArray]) -> FloatArray:
    """Each vector's component in its own language's subspace (LAWDR, equation 1); rows in no split stay zero."""
    within = np.zeros_like(vectors)
    for seen, unseen in zip(train, test, strict=True):
        moments = Moments(vectors.shape[1])
        moments.add(vectors[seen])
        subspace = moments.subspace(rank)
        for rows in (seen, unseen):
            within[rows] = vectors[rows] @ subspace.T @ subspace
    return within


def smallest_rank(
    vectors: FloatArray, langs: Sequence[str], ranks: Sequence[int] | None = None, seed: int = 0
) -> RankChoice:
    """The smallest rank of language subspaces without which languages can't be told apart (LAWDR, section 10.1).

    The subspaces come from the vectors that the classifier is trained on.

    Args:
        vectors: (n, dim) float32.
        langs: (n,) their languages.
        ranks: to try, ascending; 1, 2, 4 … up to half the width unless given.
        seed: of the draw and of the split.

    Raises:
        BadInput: as ``accuracy_by_component``.
    """
    codes = _codes(langs)
    train, test = _split(codes, seed)
    limit = bar(len(train))
    accuracies = {0: _accuracy(vectors, codes, train, test, seed)}
    for rank in ranks if ranks is not None else _doubled(vectors.shape[1] // 2):
        rest = vectors - _language_parts(vectors, rank, train, test)
        accuracies[rank] = _accuracy(rest, codes, train, test, seed)
        if accuracies[rank] < limit:
            return RankChoice(rank, limit, accuracies)
    return RankChoice(None, limit, accuracies)


def _doubled(most: int) -> list[int]:
    ranks = [1]
    while ranks[-1] * 2 <= most:
        ranks.append(ranks[-1] * 2)
    return ranks
