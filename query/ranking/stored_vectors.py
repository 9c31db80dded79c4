"""The vectors of a collection with one field, as a ranker finds, reads and compares documents by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from encoders.document import BoolArray, FloatArray, Passages
from indexer.stores.contract import Filters, LexicalHits, LexicalQuery, NearestDocuments, VectorQuery, VectorStore
from query.calibration.calibration import Bank, Calibration
from query.calibration.corrected_queries import CorrectedQueries
from query.calibration.margin import centring, language_neighbourhoods
from query.ranking.candidates import CandidateDocuments, NearestByLanguage
from query.ranking.scores import ONE_SCALE, ScoreScale
from query.ranking.search_choice import SearchChoice


class StoredVectors:
    """A store's vectors of one model.

    Attributes:
        models: models of the documents' vectors; lexical hits without a vector of these models are left out.
    """

    def __init__(self, store: VectorStore, calibration: Calibration, choice: SearchChoice) -> None:
        """Find documents by a calibration, to the extent of the choice's balance."""
        self._store, self._calibration = store, calibration
        self._share = centring(choice.balance)
        self.models: tuple[str, ...] = (calibration.model,)

    def search(
        self,
        queries: CorrectedQueries,
        targets: Sequence[str],
        k: int,
        filters: Filters | None,
        lexical: LexicalQuery | None,
    ) -> tuple[NearestByLanguage, Sequence[LexicalHits]]:
        """The documents of each language nearest to corrected queries, and each query's lexical hits."""
        raw_queries = {
            target: self._calibration.queries_for_store(queries.toward(target), target, self._share)
            for target in targets
        }
        with_vectors = lexical is None and len(queries) == 1
        query = VectorQuery(self._calibration.model, raw_queries, k, filters, with_vectors)
        nearest, lexical_hits = search_store(self._store, query, lexical)
        return list(nearest.items()), lexical_hits

    def vectors(self, doc_ids: Sequence[str]) -> FloatArray:
        """(n, dim) stored vectors."""
        return self._store.vectors(self._calibration.model, doc_ids)

    def passages(self, doc_ids: Sequence[str], raw: FloatArray) -> list[Passages]:  # noqa: ARG002
        """Stored passages of documents with the raw vectors."""
        return self._store.passages(self._calibration.model, doc_ids)

    def bank(self, lang: str) -> Bank:
        """The corrected pseudo-queries of a language."""
        return self._calibration.bank(lang, self._share)

    def neighbourhoods(self, documents: CandidateDocuments, cosines: FloatArray) -> FloatArray:
        """(queries, n) mean of each query's k largest cosines in the document's language."""
        return language_neighbourhoods(cosines, documents.languages.values(), self._calibration.neighbours)

    def scale(
        self,
        documents: CandidateDocuments,  # noqa: ARG002
        queries: CorrectedQueries,  # noqa: ARG002
        in_first_stretch: BoolArray,  # noqa: ARG002
    ) -> ScoreScale:
        """The scale that makes documents with different kinds of vectors comparable; here all have the same kind."""
        return ONE_SCALE


def search_store(
    store: VectorStore, query: VectorQuery, lexical: LexicalQuery | None
) -> tuple[Mapping[str, Sequence[NearestDocuments]], Sequence[LexicalHits]]:
    """The nearest documents by language, and each query's lexical hits; none without a lexical query."""
    return store.search_with_words(query, lexical) if lexical else (store.search(query), [])
