"""How well a linear classifier tells languages apart, and the rank without which it can't (LAWDR, section 3.2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.moments import Moments
from query.evaluation.drawing import empty_figure, plain_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IntArray = npt.NDArray[np.int64]

_MOST, _IN_ALL, _FEWEST = 2_000, 4_000, 5
"""Vectors of a language at most, of all languages at most, and of a language at least, for training and test."""
_TEST = 0.2
_ROUNDS = 1_000


@dataclass(frozen=True)
class Probe:
    """How well a linear classifier tells the languages of sentences' vectors apart (tables 1 and 6)."""

    smallest: int | None  # the smallest rank with an accuracy below the bar; none if no tried rank has one
    bar: float  # accuracy below which languages can't be told apart
    by_rank: Mapping[int, float]  # accuracy without each tried rank; 0: on the vectors as they are
    rank: int  # of the language components: the rank asked for, the smallest, or the largest rank tried
    # in per cent on the vectors, on their language component, and on their semantic component
    accuracies: tuple[float, float, float]
    vectors: FloatArray  # (sentences, dim)
    langs: Sequence[str]


def probe(
    vectors: FloatArray, langs: Sequence[str], documents: Sequence[str], rank: int | None = None, seed: int = 0
) -> Probe:
    """Accuracy on vectors, on their components in their language's subspace, and on the rest, by rank (section 10.1).

    Ranks are 1, 2, 4 … up to half the width, until one is below the bar. The subspaces come from the training vectors.
    ``documents`` names the document of each vector: all vectors of a name are trained on or tested on. For n languages
    the bar is 1/n + 0.1 · (1 − 1/n): chance, and a tenth of the distance to certainty; for two 55 %, as in the paper.
    """
    names, codes, counts = np.unique(np.asarray(langs), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise BadInput("telling languages apart takes two of them at least; there is one")
    few, lang = counts.min(), names[counts.argmin()]
    if few < _FEWEST:
        raise BadInput(f"{few} vectors in {lang} are too few to tell languages apart; take {_FEWEST}")
    train, test = _split(codes, documents, seed)

    def accuracy(rows: FloatArray) -> float:
        return _accuracy(rows, codes, train, test, seed)

    def within(rank: int) -> FloatArray:
        """Each vector's component in its language's subspace (eq. 1); zero for rows in no split."""
        components = np.zeros_like(vectors)
        for code in range(len(names)):
            moments = Moments(vectors.shape[1])
            moments.add(vectors[train[codes[train] == code]])
            subspace = moments.subspace(rank)
            for rows in (train[codes[train] == code], test[codes[test] == code]):
                components[rows] = vectors[rows] @ subspace.T @ subspace
        return components

    bar = 1 / len(names) + 0.1 * (1 - 1 / len(names))
    by_rank, smallest = {0: accuracy(vectors)}, None
    for tried in (1 << power for power in range(max(1, (vectors.shape[1] // 2).bit_length()))):
        by_rank[tried] = accuracy(vectors - within(tried))
        if by_rank[tried] < bar:
            smallest = tried
            break
    chosen = rank or smallest or max(by_rank)
    component = within(chosen)
    accuracies = (100 * by_rank[0], 100 * accuracy(component), 100 * accuracy(vectors - component))
    return Probe(smallest, bar, by_rank, chosen, accuracies, vectors, langs)


def _split(codes: IntArray, documents: Sequence[str], seed: int) -> tuple[IntArray, IntArray]:
    """Training rows and test rows; a fifth of the documents, drawn at random, are in the test."""
    random = np.random.default_rng(seed)
    languages = range(codes.max() + 1)
    limit = max(_FEWEST, min(_MOST, _IN_ALL // len(languages)))
    names, numbers = np.unique(np.asarray(documents), return_inverse=True)
    tested_names = random.permutation(len(names))[: max(1, round(_TEST * len(names)))]
    drawn = np.concatenate([random.permutation(np.flatnonzero(codes == code))[:limit] for code in languages])
    is_tested = np.isin(numbers[drawn], tested_names)
    train, test = drawn[~is_tested], drawn[is_tested]
    if not set(codes[train]) == set(codes[test]) == set(languages):
        raise BadInput("a language has too few documents to be tested on others than it is learnt from; take more")
    return train, test


def _accuracy(vectors: FloatArray, codes: IntArray, train: IntArray, test: IntArray, seed: int) -> float:
    """Mean over languages of the classifier's accuracy on the test rows."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - a second that other commands need not pay
    from sklearn.metrics import balanced_accuracy_score  # noqa: PLC0415
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    classifier = LinearSVC(class_weight="balanced", dual="auto", tol=1e-3, max_iter=_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last thousandth of accuracy decides nothing
        classifier.fit(unit_rows(vectors[train]), codes[train])
    return float(balanced_accuracy_score(codes[test], classifier.predict(unit_rows(vectors[test]))))


def sentences_figure(probes: Mapping[str, Probe], encoder: str) -> Figure:
    """Draw the first two principal components of each task's sentences, coloured by language (figures 1 and 2)."""
    figure = empty_figure(4.6 * len(probes), 4.2)
    with plain_texts():
        all_axes = np.atleast_1d(figure.subplots(1, len(probes)))
        for axes, (task, drawn) in zip(all_axes, probes.items(), strict=True):
            centred = drawn.vectors - drawn.vectors.mean(axis=0)
            _, _, directions = np.linalg.svd(centred, full_matrices=False)
            places, langs = centred @ directions[:2].T, np.array(drawn.langs)
            for lang in np.unique(langs):
                axes.scatter(*places[langs == lang].T, s=4, alpha=0.5, label=str(lang))
            axes.set_title(f"{task}, sentences by {encoder}", fontsize=10)
            axes.legend(frameon=False, fontsize=8, markerscale=2)
    return figure
