"""Mates: candidates about the same thing in different languages take part in each other's scores.

A candidate's mate is its nearest in another language, if the two are mutual. A candidate takes half of the largest lead
of its mates, and half of the mean difference to them and itself: the largest alone has a winner's luck
(docs/decisions/0005). Without the languages' means, documents about other things are nearly orthogonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from encoders.document import BoolArray, FloatArray
from encoders.top_scores import largest
from indexer.stores.matrix import Rows
from query.ranking.candidates import CandidateDocuments

LIFTERS = 150
"""Best candidates of a query, by vectors, that are mates of others: a mean of fewer is too high."""
RAMP = np.float32(0.4)
"""Range of cosines below a collection's bar over which a mate's weight grows from 0 to 1."""
SAME = np.float32(0.4)
"""Least cosine of mates that are one subject; they must weigh ½, too."""
_GAIN = np.float32(0.98)
"""Share of what mates add: the whole would leave the versions of a subject without an order."""


@dataclass(frozen=True)
class Mates:
    """The mates of one query's candidates."""

    rows: Rows  # (n,) rows of the candidates, ascending
    mates: Rows  # (n, m) row of each candidate's mate in each of m languages
    weights: FloatArray  # (n, m) float32, 0 to 1: how much the mate counts; 0 if the candidate has no mate there

    @classmethod
    def among(cls, documents: CandidateDocuments, rows: Rows, scores: FloatArray, bar: float) -> Mates:
        """Mates of documents in ascending ``rows``; the best by (n,) scores lift others; ``bar`` counts fully."""
        mates, cosines = _mutual(documents, rows, np.sort(largest(scores, LIFTERS)))
        return cls(rows, mates, _weights(cosines, bar))

    def added(self, scores: FloatArray) -> FloatArray:
        """The scores of all candidates, with what mates add to those of the rows; −∞ stays."""
        result = scores.copy()
        if self.weights.size:
            result[self.rows] += self._gains(self._leads(scores))
        return result

    def gains(self, scores: FloatArray) -> tuple[FloatArray, Rows]:
        """(n,) what mates add to the rows' scores, and the mate most ahead, or least behind; −1 without a mate."""
        if not self.weights.size:
            return np.zeros(len(self.rows), dtype=np.float32), np.full(len(self.rows), -1)
        leads = self._leads(scores)
        ahead = np.where(self.weights > 0, self.weights * leads, np.float32(-np.inf)).argmax(axis=1)[:, None]
        mates = np.take_along_axis(self.mates, ahead, axis=1)[:, 0]
        return self._gains(leads), np.where(self.weights.any(axis=1), mates, -1)

    def _leads(self, scores: FloatArray) -> FloatArray:
        """(n, m) how far each mate's score is above the candidate's."""
        own, others = scores[self.rows, None], scores[self.mates]
        counts = (self.weights > 0) & np.isfinite(own) & np.isfinite(others)
        return np.subtract(others, own, out=np.zeros_like(others), where=counts)

    def _gains(self, leads: FloatArray) -> FloatArray:
        """(n,) what mates add to each candidate's score."""
        weighted = self.weights * leads
        best = np.maximum(weighted.max(axis=1), np.float32(0))
        mean = weighted.sum(axis=1) / (np.float32(1) + self.weights.sum(axis=1))
        return np.asarray(_GAIN * (best + mean) / 2, dtype=np.float32)

    def selected(self, rows: Rows, counted: BoolArray) -> Mates:
        """The mates among some rows, ascending, by their positions there; only rows that are ``counted`` have mates."""
        kept = np.isin(self.rows, rows[counted])
        mates = np.searchsorted(rows, self.mates[kept])
        mates = np.where(mates < len(rows), mates, 0)
        known = (rows[mates] == self.mates[kept]) & counted[mates] if len(rows) else mates < 0
        weights = np.where(known, self.weights[kept], np.float32(0))
        return Mates(np.searchsorted(rows, self.rows[kept]), np.where(known, mates, 0), weights)


def _weights(cosines: FloatArray, bar: float) -> FloatArray:
    return np.asarray(np.clip((cosines - np.float32(bar)) / RAMP + 1, 0, 1), dtype=np.float32)


def counterparts(documents: CandidateDocuments, rows: Rows, bar: float) -> dict[int, list[int]]:
    """For documents in ascending ``rows`` the rows about the same in other languages; only documents that have any."""
    mates, cosines = _mutual(documents, rows, np.arange(len(rows)))
    same = (cosines >= SAME) & (_weights(cosines, bar) >= 0.5)
    return {
        int(row): np.unique(of_row[is_same]).tolist()
        for row, of_row, is_same in zip(rows, mates, same, strict=True)
        if is_same.any()
    }


def _mutual(documents: CandidateDocuments, rows: Rows, lifters: Rows) -> tuple[Rows, FloatArray]:
    """(n, m) row of the nearest lifter in each of m languages, and its cosine, −∞ if the two are not mutual.

    ``rows`` and ``lifters``, which are positions among the rows, are ascending. In the own language the cosine is −∞.
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
