"""The margin: a document's cosine relative to the query's and the document's neighbourhoods.

A query has closer neighbours in some languages than in others, and some documents are close to every query. Dividing by
the mean of both neighbourhoods makes scores of different languages comparable (LAWDR eq. 4; Artetxe and Schwenk 2019,
section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray
from encoders.errors import BadInput

Margin = Literal["ratio", "distance", "absolute"]
MARGINS: tuple[Margin, ...] = get_args(Margin)

FLOOR = np.float32(0.1)
"""Least mean cosine that a score is divided by. In a tiny collection neighbourhoods are orthogonal to the queries, and
dividing by nearly 0 would put any document first. Real collections never reach this floor
(docs/methods/fair-ranking.md)."""


def centring(balance: float) -> float:
    """Share of the language's component that is taken out, 0 to 1: the whole component from balance ½ on."""
    return min(1.0, 2.0 * balance)


def exponent(balance: float) -> float:
    """Exponent β of the margin: 0 up to balance ½, 1 at balance 1."""
    return max(0.0, 2.0 * balance - 1.0)


def check(balance: float, form: str) -> None:
    """Raise ``BadInput`` if a balance is not between 0 and 1, or there is no such margin."""
    if not 0.0 <= balance <= 1.0:
        raise BadInput(f"balance goes from 0 (nothing is balanced) to 1 (every language equal), and {balance:g} is not")
    if form not in MARGINS:
        raise BadInput(f"there is no margin {form!r}; take one of {', '.join(MARGINS)}")


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


def neighbourhood_without(near: FloatArray, rows: npt.NDArray[np.intp], k: int) -> FloatArray:
    """(q, n) mean of the k largest of each document's row, for each query without the query's own column.

    Args:
        near: (n, bank) cosines of documents and pseudo-queries; −∞ excludes a pair.
        rows: (q,) column of each query in the bank; −1 if the query is not in the bank.
        k: number of pseudo-queries in the mean.
    """
    if near.shape[1] <= k:
        columns = np.arange(near.shape[1])
        return np.stack([neighbourhood(np.where(columns == row, np.float32(-np.inf), near), k) for row in rows])
    nearest = -np.partition(-near, k, axis=1)[:, : k + 1]
    counted = np.isfinite(nearest)
    values = np.where(counted, nearest, np.float32(0))
    total, count = values[:, :k].sum(axis=1), counted[:, :k].sum(axis=1)
    own = np.where(rows[:, None] >= 0, near[:, rows].T, np.float32(-np.inf))
    among = np.isfinite(own) & (own >= nearest[:, :k].min(axis=1))
    totals = total + np.where(among, values[:, k] - np.where(among, own, np.float32(0)), np.float32(0))
    counts = count + np.where(among, counted[:, k].astype(np.intp) - 1, 0)
    means: FloatArray = (totals / np.maximum(counts, 1)).astype(np.float32)
    return means


def language_neighbourhoods(cosines: FloatArray, languages: Iterable[slice], k: int) -> FloatArray:
    """(queries, n) mean of each query's k largest cosines in each document's language; −∞ is not counted.

    ``languages`` are the columns of each language's documents.
    """
    means = np.empty_like(cosines)
    for spans, values in _equally_long(cosines, languages):
        means_by_language = neighbourhood(values.reshape(-1, values.shape[2]), k).reshape(values.shape[:2])
        for number, span in enumerate(spans):
            means[:, span] = means_by_language[:, number, None]
    return means


def best_of_languages(scores: FloatArray, languages: Iterable[slice], k: int) -> BoolArray:
    """(queries, n) whether a score is among the query's k largest in the document's language; ties keep their order.

    −∞ is not among them. ``languages`` are the columns of each language's documents.
    """
    best = np.zeros(scores.shape, dtype=np.bool_)
    for spans, values in _equally_long(scores, languages):
        first = np.argsort(-values, axis=2, kind="stable")[:, :, :k]
        are_best = np.zeros(values.shape, dtype=np.bool_)
        np.put_along_axis(are_best, first, values=True, axis=2)
        for number, span in enumerate(spans):
            best[:, span] = are_best[:, number]
    return best & np.isfinite(scores)


def _equally_long(values: FloatArray, languages: Iterable[slice]) -> Iterator[tuple[list[slice], FloatArray]]:
    """Languages with equally many documents: their columns, and (queries, languages, documents) of their values.

    A query has equally many candidates in most languages, and numpy takes longer to begin than to compute with them.
    """
    by_length: dict[int, list[slice]] = {}
    for span in languages:
        by_length.setdefault(span.stop - span.start, []).append(span)
    for length, spans in by_length.items():
        if length:
            yield spans, np.stack([values[:, span] for span in spans], axis=1)


def margin(cosines: FloatArray, fwd: FloatArray, bwd: FloatArray, form: Margin, beta: float) -> FloatArray:
    """Margin scores of query–document pairs, in the shape of the cosines.

    Args:
        cosines: cosines of queries and documents, (documents,) or (queries, documents).
        fwd: mean cosine of each query to its nearest documents of the target language, broadcast over documents.
        bwd: mean cosine of each document to its nearest queries of the query's language, broadcast over queries.
        form: ``ratio`` is cos / ((fwd + bwd)/2)^β, ``distance`` is cos − β(fwd + bwd)/2, ``absolute`` the cosine.
        beta: exponent β; 0 leaves cosines as they are, 1 is the margin of the papers.
    """
    if form == "absolute" or beta == 0.0:
        return cosines
    mean = (fwd + bwd) / np.float32(2)
    if form == "distance":
        return np.asarray(cosines - np.float32(beta) * mean, dtype=np.float32)
    return np.asarray(cosines / np.maximum(mean, FLOOR) ** np.float32(beta), dtype=np.float32)
