"""Corrected queries, and the vectors that they are compared by with the documents of each language."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from encoders.document import FloatArray
from encoders.methods.vector_parts import VectorParts


class CorrectedQueries:
    """Queries of one language without its component.

    Attributes:
        vectors: (queries, dim) unit rows.
    """

    def __init__(self, vectors: FloatArray, mapped: Callable[[str], FloatArray] | None = None) -> None:
        """``mapped`` makes the vectors for a target language; without it, all languages get the same vectors."""
        self.vectors = vectors
        self._mapped = mapped
        self._toward: dict[str, FloatArray] = {}

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.vectors)

    def toward(self, target: str) -> FloatArray:
        """(queries, dim) vectors to compare with documents of a language; made once, and kept."""
        if self._mapped is None:
            return self.vectors
        if target not in self._toward:
            self._toward[target] = self._mapped(target)
        return self._toward[target]

    def selected(self, row: int) -> CorrectedQueries:
        """One of the queries alone."""
        rows = slice(row, row + 1)
        return CorrectedQueries(self.vectors[rows], self._mapped and (lambda target: self.toward(target)[rows]))

    def cosines(self, rows: FloatArray, languages: Mapping[str, slice], parts: VectorParts) -> FloatArray:
        """(n, queries) cosines with corrected documents or passages, (n, dim), which lie language after language."""
        if self._mapped is None or not languages:
            return parts.cosines(rows, self.vectors)
        return np.concatenate([parts.cosines(rows[span], self.toward(lang)) for lang, span in languages.items()])
