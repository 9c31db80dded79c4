"""Validation: titles of held-out pages as queries for the pages about the same concept in other languages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.hmde.triples import TripleDocument

DEPTH = 100
QUERIES = 500
"""Titles that are asked, at most: every so manieth."""


def mean_average_precision(documents: FloatArray, queries: FloatArray, pages: Sequence[TripleDocument]) -> float:
    """MAP over titles, each asked of all pages in other languages than its own, their titles left out.

    The mean of each language is taken out first, of documents and of queries, as a calibration does: without that a
    score would say how far apart the languages are.

    Args:
        documents: (pages, dim) unit rows, of the pages without their titles.
        queries: (pages, dim) unit rows, the pages' titles.
        pages: what they are; of none the score is 0.
    """
    from ir_measures import AP, Qrel, ScoredDoc, calc_aggregate  # noqa: PLC0415 - training alone needs it

    if not pages:
        return 0.0
    langs = np.array([page.lang for page in pages])
    concepts = np.array([page.concept for page in pages])
    documents, queries = _centred(documents, langs), _centred(queries, langs)
    qrels, run = [], []
    for row in range(0, len(pages), -(-len(pages) // QUERIES)):
        elsewhere = np.flatnonzero(langs != langs[row])
        relevant = elsewhere[concepts[elsewhere] == concepts[row]]
        if not len(relevant):
            continue
        scores = documents[elsewhere] @ queries[row]
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        qrels += [Qrel(str(row), str(at), 1) for at in relevant.tolist()]
        run += [ScoredDoc(str(row), str(elsewhere[at]), float(scores[at])) for at in best.tolist()]
    return float(calc_aggregate([AP], qrels, run)[AP]) if qrels else 0.0


def _centred(rows: FloatArray, langs: np.ndarray[tuple[int], np.dtype[np.str_]]) -> FloatArray:
    result = rows.copy()
    for lang in np.unique(langs):
        own = langs == lang
        result[own] -= rows[own].mean(axis=0)
    return unit_rows(result)
