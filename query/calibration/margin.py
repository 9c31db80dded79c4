"""The margin: cosine relative to the query's and the document's neighbourhoods (LAWDR eq. 4; Artetxe, Schwenk 2019).

A query has closer neighbours in some languages than in others, and some documents are close to every query. Dividing by
the mean of both neighbourhoods makes scores of different languages comparable.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from encoders.document import BoolArray, FloatArray
from encoders.errors import BadInput

NEIGHBOURS = 3
"""k of both means; 1 to 10 differ by .001 MAP."""

FLOOR = 0.1
"""Least mean cosine that a score is divided by. In a tiny collection neighbourhoods are orthogonal to the queries, and
dividing by nearly 0 would put any document first. Real collections never reach this floor
(docs/methods/fair-ranking.md)."""


def centring(balance: float) -> float:
    """Share of a language's mean that is taken out, 0 to 1: the whole mean from balance ½ on."""
    return min(1.0, 2.0 * balance)


def exponent(balance: float) -> float:
    """Exponent β of the margin: 0 up to balance ½, 1 at balance 1."""
    return max(0.0, 2.0 * balance - 1.0)


def check_balance(balance: float) -> None:
    """Raise ``BadInput`` if a balance is not between 0 and 1."""
    if not 0.0 <= balance <= 1.0:
        raise BadInput(f"balance goes from 0 (nothing is balanced) to 1 (every language equal), and {balance:g} is not")


def neighbourhood(cosines: FloatArray, k: int) -> FloatArray:
    """(rows,) mean of the k largest values of each row; −∞ is not counted, and a row with nothing else has mean 0."""
    if not cosines.shape[1]:
        return np.zeros(len(cosines), dtype=np.float32)
    k = min(k, cosines.shape[1])
    largest = np.partition(cosines, cosines.shape[1] - k, axis=1)[:, -k:]
    counts = np.isfinite(largest)
    total = np.where(counts, largest, 0.0).sum(axis=1)
    mean: FloatArray = (total / np.maximum(counts.sum(axis=1), 1)).astype(np.float32)
    return mean


def language_neighbourhoods(cosines: FloatArray, languages: Iterable[slice]) -> FloatArray:
    """(queries, n) mean of each query's ``NEIGHBOURS`` largest cosines in each document's language; −∞ is left out."""
    means = np.empty_like(cosines)
    for spans, values in _equally_long(cosines, languages):
        means_by_language = neighbourhood(values.reshape(-1, values.shape[2]), NEIGHBOURS).reshape(values.shape[:2])
        for number, span in enumerate(spans):
            means[:, span] = means_by_language[:, number, None]
    return means


def best_of_languages(scores: FloatArray, languages: Iterable[slice]) -> BoolArray:
    """(queries, n) whether a score is among the query's ``NEIGHBOURS`` largest in the document's language.

    Ties keep their order, and −∞ is not among them.
    """
    best = np.zeros(scores.shape, dtype=np.bool_)
    for spans, values in _equally_long(scores, languages):
        first = np.argsort(-values, axis=2, kind="stable")[:, :, :NEIGHBOURS]
        are_best = np.zeros(values.shape, dtype=np.bool_)
        np.put_along_axis(are_best, first, values=True, axis=2)
        for number, span in enumerate(spans):
            best[:, span] = are_best[:, number]
    return best & np.isfinite(scores)


def _equally_long(values: FloatArray, languages: Iterable[slice]) -> Iterator[tuple[list[slice], FloatArray]]:
    """Columns and (queries, languages, documents) values of languages of equal size: fewer calls of numpy."""
    by_length: dict[int, list[slice]] = {}
    for span in languages:
        by_length.setdefault(span.stop - span.start, []).append(span)
    for length, spans in by_length.items():
        if length:
            yield spans, np.stack([values[:, span] for span in spans], axis=1)


def margin(cosines: FloatArray, fwd: FloatArray, bwd: FloatArray, beta: float) -> FloatArray:
    """Margin scores, cos / ((fwd + bwd)/2)^β, in the shape of the cosines, (documents,) or (queries, documents).

    ``fwd`` is the mean cosine of each query to its nearest documents of the target language, ``bwd`` that of each
    document to its nearest queries of the query's language, both broadcast. ``beta`` is 0 for cosines, 1 in the papers.
    """
    return np.asarray(cosines / np.maximum((fwd + bwd) / np.float32(2), FLOOR) ** np.float32(beta), dtype=np.float32)
