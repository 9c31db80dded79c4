"""Hybrid search: the words a query shares with documents change their order within a language, and nothing else.

A document is compared by two numbers from 0 to 1: its place between the fiftieth and the best of its language by the
dense score, and its BM25 score as a share of the best that any language reached, squared and with half the weight. It
is a convex combination, which sees by how much a score is ahead, where reciprocal rank fusion only sees the order
(Bruch, Gai and Ingber, *An Analysis of Fusion Functions for Hybrid Retrieval*, TOIS 2023). The share of the best of
*all* languages, and its square, are what makes it safe across them: French documents share next to nothing with a
German query but names and numbers, and a document that shares a third of what the best one shares has a ninth of its
vote.

The documents of a language then take that language's places in the merged ranking in their new order, and the scores
stay with the places. So languages compare as they did before: no language gains or loses a place by its words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray

DEPTH = 50
"""Documents that words bring a language, and how deep the dense scores are looked at."""
WEIGHT = 0.5
"""Of the words, beside 1 of the dense score; chosen on the odd topics of lohelp's index."""

Order = npt.NDArray[np.intp]


def fuse(langs: Sequence[str], scores: FloatArray, lexical: FloatArray, best: float | None = None) -> Order:
    """The order of a merged ranking by both arms, every place keeping its language and its score.

    Args:
        langs: (n,) languages of the documents, best first: of each language all the candidates of both arms.
        scores: (n,) their dense scores, descending; any scale, only differences within a language count.
        lexical: (n,) their BM25 scores, 0 where a document shares no term with the query (``lexical_scores``).
        best: the largest BM25 score of any language, those included that are not ranked (``strongest``); that of these
            documents unless given.

    Returns:
        (n,) for each place the document, as a place in the given order, that takes it.
    """
    best = best if best is not None else float(lexical.max(initial=0.0))
    order = np.arange(len(langs))
    if not best > 0.0:
        return order
    for lang in dict.fromkeys(langs):
        places = np.array([place for place, other in enumerate(langs) if other == lang])
        votes = WEIGHT * np.square(lexical[places].astype(np.float64) / best)
        combined = _share_of_range(scores[places]) + votes
        order[places] = places[np.argsort(-combined, kind="stable")]
    return order


def _share_of_range(scores: FloatArray) -> npt.NDArray[np.float64]:
    """Descending scores → 1 for the first and 0 for the fiftieth, or the last of fewer; below 0 after it."""
    floor = float(scores[min(DEPTH, len(scores)) - 1])
    spread = float(scores[0]) - floor
    return (scores.astype(np.float64) - floor) / spread if spread > 0.0 else np.zeros(len(scores))


def lexical_scores(doc_ids: Sequence[str], found: Mapping[str, Sequence[tuple[str, float]]]) -> FloatArray:
    """(n,) BM25 scores of documents, 0 for those that were not found.

    Args:
        doc_ids: the documents.
        found: what ``VectorStore.lexical`` found for the query, by language.
    """
    known = {doc_id: score for hits in found.values() for doc_id, score in hits}
    return np.array([known.get(doc_id, 0.0) for doc_id in doc_ids], dtype=np.float32)


def strongest(found: Mapping[str, Sequence[tuple[str, float]]]) -> float:
    """The largest BM25 score of any language; 0 where nothing was found.

    Ask the query's own language too, even where its documents are not wanted: without it the little that foreign
    documents share looks like much.
    """
    return max((hits[0][1] for hits in found.values() if hits), default=0.0)
