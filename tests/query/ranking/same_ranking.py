"""Whether two rankings are the same but for rounding, which decides between documents of one score."""

from collections.abc import Sequence

import numpy as np
import pytest

from encoders.document import FloatArray
from query.ranking.search_hits import Hit, Ranking


def assert_same(one: Ranking, other: Ranking, tolerance: float = 1e-5) -> None:
    """Both have the same documents with the same scores, and so many; the last may be of a tie."""
    _assert_same(one.doc_ids, one.scores, other.doc_ids, other.scores, tolerance)


def assert_same_hits(one: Sequence[Hit], other: Sequence[Hit], tolerance: float = 1e-5) -> None:
    """The same, for hits."""
    (ids, scores), (other_ids, other_scores) = (
        ([hit.doc_id for hit in hits], np.array([hit.score for hit in hits], dtype=np.float32)) for hits in (one, other)
    )
    _assert_same(ids, scores, other_ids, other_scores, tolerance)


def _assert_same(
    ids: Sequence[str], scores: FloatArray, other_ids: Sequence[str], other_scores: FloatArray, tolerance: float
) -> None:
    assert scores == pytest.approx(other_scores, abs=tolerance)
    mine, theirs = (dict(zip(*pair, strict=True)) for pair in ((ids, scores), (other_ids, other_scores)))
    assert {doc_id: mine[doc_id] for doc_id in mine if doc_id in theirs} == pytest.approx(
        {doc_id: theirs[doc_id] for doc_id in mine if doc_id in theirs}, abs=tolerance
    )
    of_one_alone = [{**mine, **theirs}[doc_id] for doc_id in mine.keys() ^ theirs.keys()]
    assert of_one_alone == pytest.approx([*scores[-1:]] * len(of_one_alone), abs=tolerance)
