"""The vectors of a collection that is being encoded again, as a ranker finds, reads and compares documents by them.

Cosines through a map are smaller or larger than true cosines. So for each query the mapped cosines of the documents
that have both vectors are compared with their true cosines, and the mapped cosines of the other documents are put on
that scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import BoolArray, FloatArray, Passages
from indexer.stores.contract import Filters, LexicalHits, LexicalQuery, VectorQuery, VectorStore
from query.calibration.calibration import Bank
from query.calibration.corrected_queries import CorrectedQueries
from query.calibration.margin import FLOOR, centring, exponent, language_neighbourhoods
from query.calibration.old_and_new_calibration import OldAndNewCalibration, rows_after_selection
from query.ranking.candidates import CandidateDocuments, NearestByLanguage
from query.ranking.scores import ONE_SCALE, ScoreScale
from query.ranking.search_choice import SearchChoice
from query.ranking.stored_vectors import search_store


class OldAndNewVectors:
    """A store's vectors of the old and of the new encoder, with the methods of ``StoredVectors``.

    Attributes:
        models: models of the documents' vectors; lexical hits without a vector of these models are left out.
    """

    def __init__(self, store: VectorStore, calibration: OldAndNewCalibration, choice: SearchChoice) -> None:
        """Find documents by a calibration, to the extent of the choice's balance."""
        self._store, self._calibration = store, calibration
        self._share = centring(choice.balance)
        self._power = np.float32(1.0 - exponent(choice.balance) if choice.margin == "ratio" else 1.0)
        self.models: tuple[str, ...] = (calibration.model, calibration.new.model)

    def search(
        self,
        queries: CorrectedQueries,
        targets: Sequence[str],
        k: int,
        filters: Filters | None,
        lexical: LexicalQuery | None,
    ) -> tuple[NearestByLanguage, Sequence[LexicalHits]]:
        """Search old vectors first: a document that gets its new vector in between is found twice, not never."""
        old, new = self.models
        old_queries = {
            lang: self._calibration.queries_for_store(queries.vectors, lang, self._share) for lang in targets
        }
        new_queries = {
            lang: self._calibration.new.queries_for_store(queries.vectors, lang, self._share) for lang in targets
        }
        nearest_old, lexical_hits = search_store(
            self._store, VectorQuery(old, old_queries, k, filters, lacking=new), lexical
        )
        nearest_new = self._store.search(VectorQuery(new, new_queries, k, filters))
        return [(lang, nearest[lang]) for lang in targets for nearest in (nearest_old, nearest_new)], lexical_hits

    def vectors(self, doc_ids: Sequence[str]) -> FloatArray:
        """(n, old dim + new dim): each document's new vector, or its old vector if it has no new one."""
        old, new = self.models
        stamps = self._store.stamps(new, doc_ids)
        has_new = np.array([doc_id in stamps for doc_id in doc_ids], dtype=np.bool_)
        width = self._calibration.stored_width
        raw = np.zeros((len(doc_ids), width + self._calibration.width), dtype=np.float32)
        raw[~has_new, :width] = self._store.vectors(old, _selected(doc_ids, ~has_new))
        raw[has_new, width:] = self._store.vectors(new, _selected(doc_ids, has_new))
        return raw

    def passages(self, doc_ids: Sequence[str], raw: FloatArray) -> list[Passages]:
        """Passages by the model of each document's raw vector, as wide as that row: (p, old dim + new dim)."""
        has_new = self._calibration.has_new_vector(raw)
        old_width, width = self._calibration.stored_width, raw.shape[1]
        old = iter(self._store.passages(self._calibration.model, _selected(doc_ids, ~has_new)))
        new = iter(self._store.passages(self._calibration.new.model, _selected(doc_ids, has_new)))
        return [
            _widened(next(new), slice(old_width, width), width)
            if is_new
            else _widened(next(old), slice(0, old_width), width)
            for is_new in has_new
        ]

    def bank(self, lang: str) -> Bank:
        """The corrected pseudo-queries of a language."""
        return self._calibration.bank(lang, self._share)

    def scale(
        self, documents: CandidateDocuments, queries: CorrectedQueries, in_first_stretch: BoolArray
    ) -> ScoreScale:
        """The scale of mapped cosines, from the candidates that have both vectors.

        A query's neighbourhood should be taken over all documents of a language, but ``neighbourhoods`` takes it over
        the documents with one kind of vector. The scale's offset is the difference, measured by mapped cosines.
        """
        has_new = self._calibration.has_new_vector(documents.raw)
        if not has_new.any() or has_new.all():
            return ONE_SCALE
        cosines = documents.vector_parts.cosines(documents.vectors, queries.vectors).T
        mapped = cosines.copy()
        mapped[:, has_new] = self._by_old_vectors(documents, queries.vectors, has_new)
        cosines, mapped = (np.where(in_first_stretch, matrix, _EXCLUDED) for matrix in (cosines, mapped))
        fwd_mapped = self._of_languages(documents, mapped)
        fwd_mapped_old = self._of_languages(documents, np.where(has_new, _EXCLUDED, cosines))
        fwd_mapped_new = self._of_languages(documents, np.where(has_new, mapped, _EXCLUDED))
        fwd_true_new = self._of_languages(documents, np.where(has_new, cosines, _EXCLUDED))
        counted = in_first_stretch & has_new
        factor = _mean(fwd_true_new, counted) / _mean(fwd_mapped_new, counted)
        return ScoreScale(
            np.where(has_new, factor * (fwd_mapped - fwd_mapped_new), fwd_mapped - fwd_mapped_old),
            np.where(has_new, np.float32(1), factor**self._power),
        )

    def neighbourhoods(self, documents: CandidateDocuments, cosines: FloatArray) -> FloatArray:
        """(queries, n) mean of each query's k largest cosines in the language, of the same kind of vector."""
        has_new = self._calibration.has_new_vector(documents.raw)
        new = self._of_languages(documents, np.where(has_new, cosines, _EXCLUDED))
        old = self._of_languages(documents, np.where(~has_new, cosines, _EXCLUDED))
        return np.where(has_new, new, old)

    def _of_languages(self, documents: CandidateDocuments, cosines: FloatArray) -> FloatArray:
        """(queries, n) mean of each query's k largest cosines in the document's language."""
        return language_neighbourhoods(cosines, documents.languages.values(), self._calibration.neighbours)

    def _by_old_vectors(self, documents: CandidateDocuments, queries: FloatArray, has_new: BoolArray) -> FloatArray:
        """(queries, new) cosines of documents with new vectors by their old vectors; −∞ without an old vector."""
        model = self._calibration.model
        doc_ids = _selected(documents.doc_ids, has_new)
        stamps = self._store.stamps(model, doc_ids)
        has_old = np.array([doc_id in stamps for doc_id in doc_ids], dtype=np.bool_)
        languages = rows_after_selection(rows_after_selection(documents.languages, has_new), has_old)
        vectors = self._store.vectors(model, _selected(doc_ids, has_old))
        cosines = np.full((len(queries), len(doc_ids)), _EXCLUDED, dtype=np.float32)
        cosines[:, has_old] = documents.vector_parts.cosines(
            self._calibration.old.correct_documents(vectors, languages, self._share), queries
        ).T
        return cosines


_EXCLUDED = np.float32(-np.inf)


def _mean(values: FloatArray, counted: BoolArray) -> FloatArray:
    """(queries, 1) mean of each row's counted values, ``FLOOR`` at least."""
    total = np.where(counted, values, np.float32(0)).sum(axis=1, keepdims=True)
    mean: FloatArray = total / np.maximum(counted.sum(axis=1, keepdims=True), 1).astype(np.float32)
    return np.maximum(mean, FLOOR)


def _selected(doc_ids: Sequence[str], selected: BoolArray) -> list[str]:
    return [doc_id for doc_id, is_selected in zip(doc_ids, selected, strict=True) if is_selected]


def _widened(passages: Passages, columns: slice, width: int) -> Passages:
    """Passages in the columns of vectors of ``width`` numbers; the rest is zero."""
    vectors = np.zeros((len(passages.vectors), width), dtype=np.int8)
    vectors[:, columns] = passages.vectors
    return Passages(vectors, passages.offsets)
