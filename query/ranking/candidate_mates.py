"""Mates: candidates about the same thing in different languages take part in each other's scores.

A candidate's mate is its nearest in another language, if the two are mutual. A candidate takes half of the largest lead
of its mates, and half of the mean difference to them and itself: the largest alone has a winner's luck
(docs/decisions/0005). Without the languages' means, documents about other things are nearly orthogonal.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from encoders.document import BoolArray, Document, FloatArray, Rows
from encoders.top_scores import largest
from query.calibration.calibration import BAR
from query.ranking.candidates import CandidateDocuments

LIFTERS = 150
"""Best candidates of a query, by vectors, that are mates of others: a mean of fewer is too high. MAP of lohelp's 851
topics in en, ja, ru is .446; with 50 it is .441, with 100 and 300 no other by a paired test."""
RAMP = np.float32(0.4)
"""Range of cosines below a collection's bar over which a mate's weight grows from 0 to 1: with .2, .3, .6 that MAP is
.439, .444, .447."""
SAME, _AGREEMENT = 0.6, 0.5
"""Least mean sameness of a hit and the members of a subject that has a mate of it, and what agreement adds to it, from
0 to this (docs/decisions/0005)."""
ALIKE, _ALIKE_WITHOUT_MEANS, ALIKE_PIECES, _COMPARED = 0.93, 0.5, 0.6, 500
"""Near-duplicates in one language: least cosine, plain and without means, and least share of common pieces of four
characters in their first ``_COMPARED`` characters. Cosines alone can't tell: texts that differ in a number have .93, as
have two articles. But they leave a third of the pairs, and of lohelp's near-duplicates none is below .945 and .53.
"""
_KEPT, _MULTIPLIERS = 2_000, np.uint64(0x9E3779B97F4A7C15) ** np.arange(4, dtype=np.uint64)
"""Texts whose pieces stay in memory, 12 MB; what four characters are multiplied by for a hash."""
_JUDGING = 4
"""Least hits of a third language by which two hits are said to agree or not."""
_BLOCK = 256
"""Hits whose sameness with all is computed at once."""
_GAIN = np.float32(0.98)
"""Share of what mates add: the whole (MAP .446) would leave the versions of a subject without an order; .9 has .442."""


ReadDocuments = Callable[[Sequence[str]], Sequence[Document]]


@dataclass(frozen=True)
class Mates:
    """The mates of one query's candidates."""

    rows: Rows  # (n,) rows of the candidates, ascending
    mates: Rows  # (n, m) row of each candidate's mate in each of m languages
    weights: FloatArray  # (n, m) float32, 0 to 1: how much the mate counts; 0 if the candidate has no mate there

    @classmethod
    def among(cls, documents: CandidateDocuments, rows: Rows, scores: FloatArray, bar: float) -> "Mates":
        """Mates of documents in ascending ``rows``; the best by (n,) scores lift others; ``bar`` counts fully."""
        mates, cosines = _mutual(documents, rows, np.sort(largest(scores, LIFTERS)))
        weights = np.asarray(np.clip((cosines - np.float32(bar)) / RAMP + 1, 0, 1), dtype=np.float32)
        return cls(rows, mates, weights)

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

    def selected(self, rows: Rows, counted: BoolArray) -> "Mates":
        """The mates among some rows, ascending, by their positions there; only rows that are ``counted`` have mates."""
        kept = np.isin(self.rows, rows[counted])
        mates = np.searchsorted(rows, self.mates[kept])
        mates = np.where(mates < len(rows), mates, 0)
        known = (rows[mates] == self.mates[kept]) & counted[mates] if len(rows) else mates < 0
        weights = np.where(known, self.weights[kept], np.float32(0))
        return Mates(np.searchsorted(rows, self.rows[kept]), np.where(known, mates, 0), weights)


def subjects(
    documents: CandidateDocuments,
    ranks: Rows,
    groups: Sequence[Sequence[int]],
    bar: float,
    read: ReadDocuments,
    *,
    mates: bool,
) -> tuple[list[list[int]], Counter[int]]:
    """The ranks of hits by subjects, best first, and the number of near-duplicates behind each hit, by its rank.

    A hit joins the nearest subject that has a mate of it and no hit of its language, if ``mates`` count. ``ranks`` are
    those of the (n,) documents, which ``read`` returns by their ids; ``groups`` made before stay.
    """
    row_of, langs = np.argsort(ranks), documents.langs
    first = _first_alike(documents, row_of, read)
    members = [[int(row_of[rank]) for rank in group] for group in groups]
    group_of = {row: number for number, rows in enumerate(members) for row in rows}
    rows = [row for row in row_of[first[row_of] == row_of].tolist() if row not in group_of]
    least = SAME + 2 * max(0.0, bar - BAR)
    joins: Iterator[tuple[Rows, FloatArray]] = itertools.repeat((first[:0], documents.vectors[:0, 0]), len(rows))
    joins = _mates_and_sameness(documents, first, rows) if mates and rows else joins
    for row, (of_row, sameness) in zip(rows, joins, strict=True):
        near = {group_of[mate] for mate in of_row.tolist() if mate in group_of}
        near = {number for number in near if langs[row] not in {langs[member] for member in members[number]}}
        of_subject = {number: float(np.mean(sameness[members[number]])) for number in near}
        number = max(of_subject, key=of_subject.__getitem__, default=-1)
        if of_subject.get(number, 0.0) < least:
            number = len(members)
            members.append([])
        members[number].append(row)
        group_of[row] = number
    behind = Counter(int(ranks[of_row]) for row, of_row in enumerate(first.tolist()) if row != of_row)
    return [[int(ranks[row]) for row in rows] for rows in members], behind


def _first_alike(documents: CandidateDocuments, best_first: Rows, read: ReadDocuments) -> Rows:
    """(n,) for each document the row of the best one of its language that is nearly the same, or its own."""
    first, near = np.arange(len(best_first)), dict[int, list[int]]()
    place = np.argsort(best_first)
    for span in documents.languages.values():
        raw, centred = documents.raw[span], documents.vectors[span]
        alike = documents.vector_parts.plain_cosines(raw, raw) >= ALIKE
        alike &= documents.vector_parts.cosines(centred, centred) >= _ALIKE_WITHOUT_MEANS
        for pair in np.argwhere(np.triu(alike, 1)).tolist():
            better, worse = sorted((span.start + row for row in pair), key=place.__getitem__)
            near.setdefault(worse, []).append(better)
    rows = sorted({*near, *itertools.chain(*near.values())})
    texts = dict(zip(rows, read([documents.doc_ids[row] for row in rows]) if rows else [], strict=True))
    pieces = {row: _pieces(text.content[: _COMPARED + 3]) for row, text in texts.items()}
    for row in sorted(near, key=place.__getitem__):
        shown = (other for other in sorted(near[row], key=place.__getitem__) if first[other] == other)
        first[row] = next((other for other in shown if _share(pieces[row], pieces[other]) >= ALIKE_PIECES), row)
    return first


@lru_cache(_KEPT)
def _pieces(beginning: str) -> npt.NDArray[np.uint64]:
    """Hashes of a text's distinct pieces of four characters, ascending; the last pieces of a text are shorter."""
    characters = np.zeros(_COMPARED + 3, dtype=np.uint64)
    characters[: len(beginning)] = np.frombuffer(beginning.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return np.unique(sliding_window_view(characters, 4)[: len(beginning)] @ _MULTIPLIERS)


def _share(pieces: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64]) -> float:
    shared = len(np.intersect1d(pieces, others, assume_unique=True))
    return shared / max(1, len(pieces) + len(others) - shared)


def _mates_and_sameness(
    documents: CandidateDocuments, first: Rows, rows: Sequence[int]
) -> Iterator[tuple[Rows, FloatArray]]:
    """For each row its mates, and its (n,) sameness with documents of other languages: cosine, lead and agreement.

    A lead is over the other nearest documents of the two languages, at most half of the cosine. The two agree if they
    have the same nearest document in third languages with four documents or more; half agree where there is none.
    """
    every, spans = np.arange(len(first)), [span for span in documents.languages.values() if span.start < span.stop]
    language = np.repeat(np.arange(len(spans)), [span.stop - span.start for span in spans])
    cosines = documents.vector_parts.cosines(documents.vectors, documents.vectors)
    cosines[:, first != every] = -1
    parts = [cosines[:, span] for span in spans]
    nearest = np.stack([part.argmax(axis=1) + span.start for part, span in zip(parts, spans, strict=True)], axis=1)
    nearest[every, language] = every
    two = [np.partition(np.insert(part, 0, part.max(axis=1) / 2, axis=1), -2)[:, -2:].T for part in parts]
    best_two, several = np.stack(two, axis=2), np.bincount(language) >= _JUDGING
    for start in range(0, len(rows), _BLOCK):
        block = np.array(rows[start : start + _BLOCK])
        of_row = language[block]
        there, back = nearest[block][:, language] == every, block[:, None] == nearest[:, of_row].T
        next_there = np.where(there, *best_two[:, block][:, :, language])
        next_back = np.where(back, *best_two[:, :, of_row].swapaxes(1, 2))
        same = (nearest[block][:, None, several] == nearest[:, several]).sum(axis=2)
        in_two = there * several[language] + back * several[of_row, None].astype(np.intp)
        third = several.sum() - several[language] - several[of_row, None].astype(np.intp)
        agreement = np.where(third > 0, (same - in_two) / np.maximum(third, 1), 0.5)
        sameness = 2 * cosines[block] - np.maximum(next_there, next_back) + _AGREEMENT * agreement
        yield from zip(map(np.flatnonzero, there & back), sameness, strict=True)


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
