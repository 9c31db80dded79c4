"""Candidates with the passages that they are compared by."""

from collections.abc import Sequence

import numpy as np

from encoders.document import BoolArray, FloatArray, Int32Array, Passages, Rows, unit_rows
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Calibration
from query.ranking.candidates import (
    CandidateDocuments,
    CandidatesWithPassages,
    combined_groups,
    passage_rows_by_language,
)

_WINDOW = 500
"""Characters of an opening: about the 128 tokens of a window, in an alphabetic script."""


def with_passages(
    documents: CandidateDocuments, stored: Sequence[Passages], calibration: Calibration, share: float, query_lang: str
) -> CandidatesWithPassages:
    """Documents with their (n,) stored passages, corrected; a document without passages is its own segment."""
    counts = np.array([len(passages.vectors) for passages in stored], dtype=np.intp)
    offsets = np.concatenate([np.zeros((0, 2), np.int32), *(passages.offsets for passages in stored)])
    has_title = counts > 1  # and the last passage begins at 0, as ``Passages.has_title`` says
    has_title[has_title] = offsets[np.cumsum(counts)[has_title] - 1, 0] == 0
    borders = np.concatenate(([0], np.cumsum(np.maximum(counts, 1))))
    segments = [of.vectors if len(of.vectors) else raw[None] for of, raw in zip(stored, documents.raw, strict=True)]
    vectors = np.concatenate(segments or [documents.raw])
    spans = passage_rows_by_language(documents.languages, borders)
    corrected = calibration.correct_documents(unit_rows(vectors), spans, share, "passage", query_lang=query_lang)
    lengths = opening_lengths(offsets, counts, has_title)
    return CandidatesWithPassages(
        documents.doc_ids,
        documents.languages,
        documents.raw,
        documents.vectors,
        documents.vector_parts,
        stored,
        corrected,
        borders,
        spans,
        has_title,
        _openings(documents.vector_parts, corrected, borders[:-1], lengths),
    )


def opening_lengths(offsets: Int32Array, counts: Rows, has_title: BoolArray) -> Rows:
    """(n,) number of segments in each opening: the first, and, without overlap, others up to ``_WINDOW`` characters.

    ``offsets`` are those of all passages, (p, 2), ``counts`` how many of them each document has.
    """
    borders = np.concatenate(([0], np.cumsum(counts)))
    starts, ends = offsets.T
    within = np.concatenate(([0], np.cumsum(ends <= _WINDOW)))
    lengths = within[borders[1:] - has_title] - within[borders[:-1]]
    several = np.flatnonzero(counts - has_title > 1)
    first = borders[several]
    lengths[several[starts[first + 1] < ends[first]]] = 1
    opening: Rows = np.maximum(lengths, 1)
    return opening


def _openings(parts: VectorParts, passages: FloatArray, starts: Rows, lengths: Rows) -> FloatArray | None:
    """(n, dim) unit sums of the documents' opening passages; none if each has a single one."""
    several = np.flatnonzero(lengths > 1)
    if not len(several):
        return None
    counts = lengths[several]
    firsts = np.cumsum(counts) - counts
    rows = np.repeat(starts[several] - firsts, counts) + np.arange(counts.sum())
    totals = combined_groups(np.add, passages[rows], firsts)
    openings = passages[starts]
    openings[several] = parts.weighed(parts.unit(unit_rows(totals)))
    return openings
