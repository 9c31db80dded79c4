"""Whether two rankings are the same but for rounding, which decides between documents of one score."""

from collections.abc import Sequence

import numpy as np
import pytest

from query.ranking.search_hits import Hit, Ranking


def assert_same(one: Ranking, other: Ranking, tolerance: float = 1e-5) -> None:
    """Both have the same documents with the same scores, and so many; the last may be of a tie."""
    assert one.scores == pytest.approx(other.scores, abs=tolerance)
    mine, theirs = (dict(zip(ranking.doc_ids, ranking.scores, strict=True)) for ranking in (one, other))
    assert {doc_id: mine[doc_id] for doc_id in mine if doc_id in theirs} == pytest.approx(
        {doc_id: theirs[doc_id] for doc_id in mine if doc_id in theirs}, abs=tolerance
    )
    of_one_alone = [{**mine, **theirs}[doc_id] for doc_id in mine.keys() ^ theirs.keys()]
    assert of_one_alone == pytest.approx([*one.scores[-1:]] * len(of_one_alone), abs=tolerance)


def assert_same_hits(one: Sequence[Hit], other: Sequence[Hit], tolerance: float = 1e-5) -> None:
    assert_same(_ranking_of(one), _ranking_of(other), tolerance)


def _ranking_of(hits: Sequence[Hit]) -> Ranking:
    scores = np.array([hit.score for hit in hits], dtype=np.float32)
    return Ranking([hit.doc_id for hit in hits], [hit.lang for hit in hits], scores)
