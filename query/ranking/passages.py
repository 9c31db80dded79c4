"""Candidates with the passages that they are compared by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import FloatArray, Int32Array, Passages, unit_rows
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import Mix
from query.ranking.candidates import CandidateDocuments, CandidatesWithPassages, Rows

_WINDOW = 500
"""Characters of an opening: about the 128 tokens of a window, in an alphabetic script."""


def with_passages(
    documents: CandidateDocuments, stored: Sequence[Passages], calibration: Calibration, share: float, mix: Mix
) -> CandidatesWithPassages:
    """Documents with their (n,) stored passages, corrected; a document without segments is its own segment."""
    segments = [passages.without_title() for passages in stored]
    lengths = np.array([max(len(passages.vectors), 1) for passages in segments], dtype=np.intp)
    borders = np.concatenate(([0], np.cumsum(lengths)))
    vectors = np.empty((int(lengths.sum()), documents.raw.shape[1]), dtype=np.float32)
    for raw, start, end, passages in zip(documents.raw, borders[:-1], borders[1:], segments, strict=True):
        vectors[start:end] = passages.vectors if len(passages.vectors) else raw
    spans = {
        lang: slice(int(borders[rows.start]), int(borders[rows.stop])) for lang, rows in documents.languages.items()
    }
    corrected = calibration.correct_documents(unit_rows(vectors), spans, share, "passage")
    starts, lengths_of_openings = borders[:-1], [opening_length(passages.offsets) for passages in segments]
    return CandidatesWithPassages(
        documents.doc_ids,
        documents.languages,
        documents.raw,
        documents.vectors,
        documents.calibration,
        documents.share,
        segments,
        corrected,
        starts,
        spans,
        _openings(documents.vector_parts, corrected, starts, lengths_of_openings),
        _titles(documents, stored, calibration, share),
        mix,
    )


def _titles(
    documents: CandidateDocuments, stored: Sequence[Passages], calibration: Calibration, share: float
) -> FloatArray:
    """(n, dim) corrected unit vectors of the titles; a zero row where the title is no passage of its own."""
    titled = np.flatnonzero([passages.has_title for passages in stored])
    titles = np.zeros_like(documents.vectors)
    if len(titled):
        raw = np.stack([stored[row].vectors[-1] for row in titled.tolist()])
        languages = documents.selected(titled).languages
        titles[titled] = calibration.correct_documents(unit_rows(raw), languages, share, "passage")
    return titles


def opening_length(offsets: Int32Array) -> int:
    """Number of segments in a document's opening: the first, and those after it up to ``_WINDOW`` characters.

    Where segments overlap, the first alone is the opening.
    """
    if len(offsets) < 2 or offsets[1, 0] < offsets[0, 1]:
        return 1
    return max(1, int(np.searchsorted(offsets[:, 1], _WINDOW, side="right")))


def _openings(parts: VectorParts, passages: FloatArray, starts: Rows, lengths: Sequence[int]) -> FloatArray:
    """(n, dim) unit vector of the sum of each document's opening passages; ``lengths`` says how many these are."""
    if max(lengths, default=1) == 1:
        return passages[starts]
    sums = np.stack(
        [passages[start : start + length].sum(axis=0) for start, length in zip(starts, lengths, strict=True)]
    )
    return parts.weighed(parts.unit(unit_rows(sums)))
