"""Mates: candidates about the same thing in different languages lift each other.

Documents know their counterparts in other languages far better than queries know documents. So a candidate takes on a
part of the score of its mate: its nearest candidate in another language, if the candidate is in turn the mate's nearest
in its own language. Only the best candidates by vectors can lift; a candidate is never lowered.

Mates are compared by vectors without the languages' components. There, documents about other things are nearly
orthogonal, and mates are not; ``docs/methods/fair-ranking.md`` has what the weight of a mate rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from encoders.document import BoolArray, FloatArray
from encoders.largest import largest
from indexer.stores.matrix import Rows
from query.ranking.candidates import CandidateDocuments

LIFTERS = 50
"""Best candidates of a query, by vectors, that lift their mates; twice as many hardly change a ranking."""
RAMP = np.float32(0.4)
"""Cosines over which a mate's weight grows from 0 to 1; at the bar it is 1."""

SAME = np.float32(0.4)
"""Cosine from which mates are shown as one subject; or the cosine from which they count for half, if that is more."""


class Lift(NamedTuple):
    """By how much its mate lifts a document, and the row of the mate."""

    gain: float
    mate: int


@dataclass(frozen=True)
class Mates:
    """The mates of one query's candidates.

    Attributes:
        rows: (n,) rows of the candidates, ascending.
        mates: (n, m) row of each candidate's mate in each of m languages.
        weights: (n, m) float32 share of the mate's lead that the candidate gains, 0 to 1; 0 if it has no mate there.
    """

    rows: Rows
    mates: Rows
    weights: FloatArray

    @classmethod
    def among(cls, documents: CandidateDocuments, rows: Rows, scores: FloatArray, *, lift: float, bar: float) -> Mates:
        """The mates of the documents in some rows, ascending; the best by their (n,) scores lift.

        ``lift`` is the weight of a mate whose cosine is at the bar or above.
        """
        mates, cosines = _mutual(documents, rows, np.sort(largest(scores, LIFTERS)))
        weights = np.clip((cosines - (np.float32(bar) - RAMP)) / RAMP, 0, 1) * np.float32(lift)
        return cls(rows, mates, weights)

    def lifted(self, scores: FloatArray) -> FloatArray:
        """The scores of all candidates, with those of the rows lifted; −∞ stays."""
        lifted = scores.copy()
        if self.weights.size:
            lifted[self.rows] += self._gains(scores).max(axis=1)
        return lifted

    def lifts(self, scores: FloatArray) -> dict[int, Lift]:
        """The lift of each row that its mate lifts."""
        if not self.weights.size:
            return {}
        gains = self._gains(scores)
        best = gains.argmax(axis=1)
        return {
            int(row): Lift(float(of_row[column]), int(mates[column]))
            for row, of_row, mates, column in zip(self.rows, gains, self.mates, best, strict=True)
            if of_row[column] > 0
        }

    def _gains(self, scores: FloatArray) -> FloatArray:
        """(n, m) what each mate adds to a candidate's score."""
        lower, higher = scores[self.rows, None], scores[self.mates]
        ahead = (higher > lower) & np.isfinite(lower)
        lead = np.subtract(higher, lower, out=np.zeros_like(higher), where=ahead)
        return np.asarray(self.weights * lead, dtype=np.float32)

    def selected(self, rows: Rows, counted: BoolArray) -> Mates:
        """The mates among some rows, ascending, by their positions there; only rows that are ``counted`` have mates."""
        kept = np.isin(self.rows, rows[counted])
        mates = np.searchsorted(rows, self.mates[kept])
        mates = np.where(mates < len(rows), mates, 0)
        known = (rows[mates] == self.mates[kept]) & counted[mates] if len(rows) else mates < 0
        weights = np.where(known, self.weights[kept], np.float32(0))
        return Mates(np.searchsorted(rows, self.rows[kept]), np.where(known, mates, 0), weights)


def counterparts(documents: CandidateDocuments, rows: Rows, bar: float) -> dict[int, list[int]]:
    """For documents in some rows, ascending, the rows among them of the same subject in other languages, ascending.

    Only documents with a counterpart.
    """
    mates, cosines = _mutual(documents, rows, np.arange(len(rows)))
    same = cosines >= max(SAME, np.float32(bar) - RAMP / 2)
    return {
        int(row): np.unique(of_row[is_same]).tolist()
        for row, of_row, is_same in zip(rows, mates, same, strict=True)
        if is_same.any()
    }


def _mutual(documents: CandidateDocuments, rows: Rows, lifters: Rows) -> tuple[Rows, FloatArray]:
    """(n, m) the nearest lifter in each of m languages of each of n documents in some rows, ascending; and the cosines.

    ``lifters`` are positions among the rows, ascending. A cosine is −∞ if the document is not the lifter's nearest of
    its language, or if both are of one language.
    """
    if not len(rows):
        return np.zeros((0, 0), dtype=np.intp), np.zeros((0, 0), dtype=np.float32)
    vectors = documents.vectors[rows]
    cosines = documents.vector_parts.cosines(vectors[lifters], vectors)
    ends = np.searchsorted(rows, [span.stop for span in documents.languages.values()])
    language = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    spans = [slice(start, end) for start, end in pairwise((0, *ends)) if start < end]
    nearest = np.zeros((len(lifters), len(ends)), dtype=np.intp)
    for span in spans:
        nearest[:, language[span.start]] = cosines[:, span].argmax(axis=1) + span.start
    starts = np.flatnonzero(np.diff(language[lifters], prepend=-1))
    of_languages = [slice(start, end) for start, end in pairwise((*starts, len(lifters)))]
    best = np.stack([cosines[span].argmax(axis=0) + span.start for span in of_languages], axis=1)
    positions = np.arange(len(rows))[:, None]
    mutual = (nearest[best, language[:, None]] == positions) & (language[lifters][best] != language[:, None])
    return rows[lifters][best], np.where(mutual, cosines[best, positions], np.float32(-np.inf))
