"""Validation: titles of held-out pages as queries for the pages about the same concept in other languages."""

from collections.abc import Sequence

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.hmde.triples import TripleDocument

DEPTH = 100
QUERIES = 500
"""Maximum titles used as queries; they are taken at equal distances."""


def mean_average_precision(documents: FloatArray, queries: FloatArray, pages: Sequence[TripleDocument]) -> float:
    """MAP over titles as queries; each title searches the pages in other languages, which are encoded without titles.

    The mean of each language is subtracted first: otherwise the score would measure how far apart the languages are.
    Documents and queries are (pages, dim) unit rows; without pages the score is 0.
    """
    from ir_measures import AP, Qrel, ScoredDoc, calc_aggregate  # noqa: PLC0415 - training alone needs it

    if not pages:
        return 0.0
    langs = np.array([page.lang for page in pages])
    concepts = np.array([page.concept for page in pages])
    documents, queries = _centred(documents, langs), _centred(queries, langs)
    qrels, run = [], []
    for row in range(0, len(pages), -(-len(pages) // QUERIES)):
        candidates = np.flatnonzero(langs != langs[row])
        relevant = candidates[concepts[candidates] == concepts[row]]
        if not len(relevant):
            continue
        scores = documents[candidates] @ queries[row]
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        qrels += [Qrel(str(row), str(mate), 1) for mate in relevant.tolist()]
        run += [ScoredDoc(str(row), str(candidates[index]), float(scores[index])) for index in best.tolist()]
    return float(calc_aggregate([AP], qrels, run)[AP]) if qrels else 0.0


def _centred(rows: FloatArray, langs: np.ndarray[tuple[int], np.dtype[np.str_]]) -> FloatArray:
    result = rows.copy()
    for lang in np.unique(langs):
        in_language = langs == lang
        result[in_language] -= rows[in_language].mean(axis=0)
    return unit_rows(result)
