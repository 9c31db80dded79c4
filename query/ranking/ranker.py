"""Which ranker a calibration needs."""

from __future__ import annotations

from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.two_fields import TwoFields
from query.ranking.choice import Choice
from query.ranking.fair_ranker import FairRanker
from query.ranking.two_field_ranker import TwoFieldRanker


def ranker_of(store: VectorStore, calibration: Calibration, choice: Choice, documents: int) -> FairRanker:
    """What ranks by a calibration, the largest language having so many documents."""
    if isinstance(calibration, TwoFields):
        return TwoFieldRanker(store, calibration, choice, documents)
    return FairRanker(store, calibration, choice, documents)
