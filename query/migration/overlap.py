"""Overlap of two rankings: the share of first ten hits in common, over logged queries or pseudo-queries."""

from dataclasses import dataclass, replace

import numpy as np

from encoders.document import Encoder
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from indexer.stores.contract import read_existing
from query.calibration.calibration import Calibration
from query.calibration_fitting.document_samples import draw
from query.calibration_fitting.language_statistics import pseudo_queries
from query.query_log.judged_queries import logged_queries
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher

_QUERIES = 100
_HITS = 10


@dataclass(frozen=True)
class Comparison:
    """How far a collection is ranked as before."""

    overlap: float  # share of the first ten hits before that are also among those after; 0 without queries
    queries: int  # number of queries that the overlap was measured on
    logged: bool  # whether these queries are from the log; else they are documents' titles and first sentences


def compare(searcher: Searcher, encoder: Encoder, calibration: Calibration | None, settings: Settings) -> Comparison:
    """Compare a searcher with what it will be by another encoder and calibration, which finds the pseudo-queries."""
    after = replace(searcher, encoder=encoder, calibration=calibration, ranking=RankingOptions())
    try:
        logged = logged_queries(searcher.collection, settings)
        queries = [logged[row] for row in np.random.default_rng(0).permutation(len(logged))[:_QUERIES]]
    except BadInput:
        logged = []
        doc_ids = [doc_id for ids in draw(after.store, after.stored_model, _QUERIES, seed=1).values() for doc_id in ids]
        queries = pseudo_queries(list(read_existing(after.store.get, doc_ids).values()))
    rankings = zip(searcher.rank(queries, k=_HITS), after.rank(queries, k=_HITS), strict=True)
    shares = [len({*old.doc_ids} & {*new.doc_ids}) / max(len(old.doc_ids), 1) for old, new in rankings]
    return Comparison(float(np.mean(shares or [0.0])), len(queries), bool(logged))
