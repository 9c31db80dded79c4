"""Mates: candidates about the same thing in different languages lift each other.

Documents know their counterparts in other languages far better than queries know documents. So a candidate takes on a
part of the score of its mate: of the candidate in another language that is nearest to it, and it nearest to that one
in its own language. Only the best candidates by vectors can lift; a candidate is never lowered.

Mates are compared by vectors without the languages' components. There, documents about other things are nearly
orthogonal, and mates are not; ``docs/methods.md`` has what the weight of a mate rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from encoders.document import BoolArray, FloatArray
from indexer.stores.matrix import largest
from query.ranking.candidates import CandidateDocuments, Rows

LIFTERS = 50
"""Best candidates of a query, by vectors, that lift their mates; twice as many hardly change a ranking."""
RAMP = np.float32(0.4)
"""Cosines over which a mate's weight grows from 0 to 1; at the bar it is 1."""

SAME = np.float32(0.4)
"""Cosine from which mates are shown as one subject, if they count for half at least."""


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
        same: (n, m) whether candidate and mate are shown as one subject.
        weights: (n, m) float32 share of the mate's lead that the candidate gains, 0 to 1; 0 if it has no mate there.
    """

    rows: Rows
    mates: Rows
    same: BoolArray
    weights: FloatArray

    @classmethod
    def among(cls, documents: CandidateDocuments, rows: Rows, scores: FloatArray, *, lift: float, bar: float) -> Mates:
        """The mates of the documents in some rows, ascending; the best by their (n,) scores lift.

        ``lift`` is the weight of a mate whose cosine is at the bar or above.
        """
        if not len(rows):
            nothing = np.zeros((0, 0), dtype=np.float32)
            return cls(rows, nothing.astype(np.intp), nothing.astype(np.bool_), nothing)
        lifters = np.sort(largest(scores, LIFTERS))
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
        of_mates = np.where(mutual, cosines[best, positions], np.float32(-np.inf))
        weights = np.clip((of_mates - (np.float32(bar) - RAMP)) / RAMP, 0, 1) * np.float32(lift)
        same = (weights > 0) & (of_mates >= max(SAME, bar - RAMP / 2))
        return cls(rows, rows[lifters][best], same, weights)

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

    def partners(self) -> dict[int, list[int]]:
        """The rows of the mates of each row that has some, ascending; only mates that are shown as one subject."""
        partners: dict[int, set[int]] = {}
        for at, column in np.argwhere(self.same).tolist():
            row, mate = int(self.rows[at]), int(self.mates[at, column])
            partners.setdefault(row, set()).add(mate)
            partners.setdefault(mate, set()).add(row)
        return {row: sorted(mates) for row, mates in partners.items()}

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
        same, weights = known & self.same[kept], np.where(known, self.weights[kept], np.float32(0))
        return Mates(np.searchsorted(rows, self.rows[kept]), np.where(known, mates, 0), same, weights)
