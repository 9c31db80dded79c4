"""Choose the ranker that a calibration needs."""

from __future__ import annotations

from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.two_fields import TwoFields
from query.ranking.choice import Choice
from query.ranking.fair_ranker import FairRanker
from query.ranking.two_field_ranker import TwoFieldRanker


def ranker_of(store: VectorStore, calibration: Calibration, choice: Choice, documents: int) -> FairRanker:
    """The ranker for a calibration; ``documents`` is the size of the largest language."""
    if isinstance(calibration, TwoFields):
        return TwoFieldRanker(store, calibration, choice, documents)
    return FairRanker(store, calibration, choice, documents)
