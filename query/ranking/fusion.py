"""Hybrid search: the words a query shares with documents change their order within a language, and nothing else.

A document is compared by its dense score between the fiftieth and best of its language, and its BM25 score as a share
of the best in any, squared and with half the weight: a convex combination (Bruch, Gai and Ingber, *An Analysis of
Fusion Functions for Hybrid Retrieval*, TOIS 2023). Ranks and scores stay; a language's documents move between them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray

DEPTH = 50
"""Lexical hits of each language, and the rank of the dense score that counts 0."""
WEIGHT = 0.5
"""Weight of the lexical score, beside 1 for the dense score; chosen on the odd topics of lohelp's index."""

Order = npt.NDArray[np.intp]


def fuse(langs: Sequence[str], scores: FloatArray, lexical: FloatArray, best: float | None = None) -> Order:
    """(n,) the index in ``langs`` of the document that takes each rank; the rank keeps its language and its score.

    ``langs`` and the (n,) dense ``scores``, descending, are of all candidates; (n,) ``lexical`` is 0 without a shared
    term. ``best`` is the largest BM25 score of any language, ranked or not; unless given, that of ``lexical``.
    """
    best = best if best is not None else float(lexical.max(initial=0.0))
    order = np.arange(len(langs))
    if not best > 0.0:
        return order
    for lang in dict.fromkeys(langs):
        rows = np.array([row for row, row_lang in enumerate(langs) if row_lang == lang])
        votes = WEIGHT * np.square(lexical[rows].astype(np.float64) / best)
        own = scores[rows].astype(np.float64)
        floor = own[min(DEPTH, len(own)) - 1]
        spread = own[0] - floor  # from the first, which counts 1, to the fiftieth or the last of fewer, which counts 0
        combined = (own - floor) / spread + votes if spread > 0.0 else votes
        order[rows] = rows[np.argsort(-combined, kind="stable")]
    return order


def lexical_scores(doc_ids: Sequence[str], hits: Mapping[str, Sequence[tuple[str, float]]]) -> FloatArray:
    """(n,) BM25 scores of documents, 0 for a document that is not among the hits (ids and scores by language)."""
    scores = {doc_id: score for of_lang in hits.values() for doc_id, score in of_lang}
    return np.array([scores.get(doc_id, 0.0) for doc_id in doc_ids], dtype=np.float32)


def best_lexical_score(hits: Mapping[str, Sequence[tuple[str, float]]]) -> float:
    """The largest BM25 score of any language; 0 without hits.

    The hits include the query's own language: else the few words shared with foreign documents would count much.
    """
    return max((of_lang[0][1] for of_lang in hits.values() if of_lang), default=0.0)
