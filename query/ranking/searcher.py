"""Search a collection: encode the query, search every target language, merge the hits."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, Self

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, EncoderSpec, HasQueryLimit, short_hash
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalised_list, require_list
from encoders.machine.placement import Device
from encoders.methods.vector_parts import VectorParts
from encoders.phrases import counted, did_you_mean
from indexer.collection.settings import Settings
from indexer.stores.contract import ChecksFields, Filters, MissingDocuments, VectorStore
from indexer.stores.field_filters import misfit, require_filters
from indexer.text.language_detection import Detection, Detector
from onnx_export.models import open_reranker
from query.calibration.calibration import SMALLEST_BANK, Calibration
from query.ranking.fair_ranker import FairRanker
from query.ranking.hit_reranker import HitReranker
from query.ranking.query_encoder import encoded_query, open_query_encoder, read_query, without_queries
from query.ranking.query_search import QuerySearch, facet_paths, facets_of, until_read
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import JUDGED, LANGUAGE_FACET, RERANKED, Hit, Hits, Ranking, good_hits, ranked_hits
from query.ranking.searcher_opening import EmptyCollection, Opening, calibrated, index_words, target_languages

_REACH = 50
"""Minimum hits that facets count: those of the first stretch, which are ranked anyway."""
_SEEN = 150
"""Hits whose values of fields are looked at for the nearest to one that no document has."""
_NO_HITS = Ranking([], [], np.zeros(0, dtype=np.float32))
_RANKERS = 16
_BLOCK = 64
"""Queries ranked at once: candidates to depth 1,000 in many languages take much memory."""


class NoDocument(BadInput):
    """No document of the id that was asked for."""

    __module__ = "dragoman"


@dataclass(repr=False)
class Searcher:
    """A collection opened for queries, as the command, the evaluation and the service all search it.

    Several threads may search at once. A process that was forked opens a searcher of its own: the threads of the
    encoder and the connections of the store are not forked with it.

    Attributes:
        languages: number of documents by language.
        detector: detects a query's language among the collection's languages.
        calibration: makes languages comparable; none: documents are ranked by plain cosine.
        ranking: how to rank, unless a search says otherwise; its balance is the calibration's unless stated.
        opening: the opening of the store; searchers made from this one share it.
        reranker: orders the best hits of searches that don't refuse it; none: the fair ranking stays.
    """

    collection: str
    encoder: Encoder
    store: VectorStore
    languages: Mapping[str, int]
    detector: Detector
    calibration: Calibration | None = None
    ranking: RankingOptions = field(default_factory=RankingOptions)
    opening: Opening = field(default_factory=Opening)
    reranker: HitReranker | None = None
    _applied: Calibration = field(init=False)
    _rankers: dict[tuple[float | None, bool, bool], FairRanker] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False, compare=False)

    def __post_init__(self) -> None:
        """Rank by the calibration's balance unless another is stated."""
        self._applied = self.calibration or Calibration.none(self.spec.model, VectorParts.of(self.spec))
        self.ranking = self.ranking.of(self.collection, self.calibration)

    def __repr__(self) -> str:
        """The collection, its size, the encoder and the calibration, on one line."""
        calibration = f"calibration {self.calibration.id}" if self.calibration else "no calibration"
        documents = counted(sum(self.languages.values()), "document")
        languages = counted(len(self.languages), "language")
        return f"<Searcher of {self.collection}: {documents} in {languages}, {self.spec.name}, {calibration}>"

    @classmethod
    def open(
        cls,
        collection: str,
        settings: Settings | None = None,
        *,
        device: Device = "auto",
        ranking: RankingOptions | None = None,
        console: Console | None = None,
        encoder: Encoder | None = None,
        to: Sequence[str] | None = None,
        filters: Filters | None = None,
        queries: bool = True,
    ) -> Self:
        """Open a collection by its name.

        ``ranking`` is by default that of the active calibration. Progress is shown if the default encoder or the
        store's lexical index has to be made. A given ``encoder`` must be of the right model. ``to`` and ``filters`` are
        checked before the encoder is loaded. ``queries=False`` loads no encoder, for ``similar`` and ``document``.

        Raises:
            BadInput: there is no such collection, calibration or balance, a language of ``to`` is not in the
                collection, or no document has a field of the filters.
            EmptyCollection: the collection has no documents.
            ModelMismatch: the encoder's name leads to another model than that of the vectors or the calibration.
            StoreError: store or database can't be opened.
        """
        settings, ranking = settings or Settings.read(), ranking or RankingOptions()
        console = console or Console(quiet=True)
        row, calibration = calibrated(collection, settings, ranking.calibration, console)
        ranking = ranking.of(collection, calibration)
        with ExitStack() as stack:
            store = stack.enter_context(closing(row.open_store(settings)))
            languages = store.count()
            if not languages:
                raise EmptyCollection(row.emptiness)
            target_languages(collection, languages, to)
            require_filters(filters)
            if filters and isinstance(store, ChecksFields):
                store.require_fields(filters)
            detector = Detector(languages.keys())
            open_encoder = open_query_encoder if queries else without_queries
            encoder = encoder or open_encoder(row, calibration, device, console)
            if ranking.hybrid:
                index_words(store, languages, console)
            searcher = cls(collection, encoder, store, languages, detector, calibration, ranking)
            if ranking.rerank:
                searcher.reranker = HitReranker(open_reranker(ranking.rerank, console, device))
            stack.pop_all()
        return searcher

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the encoder of queries."""
        return self.encoder.spec

    @property
    def vector_parts(self) -> VectorParts:
        """The parts of the stored vectors, with their weights."""
        return self._applied.vector_parts

    @property
    def stored_model(self) -> str:
        """Id of the model of the stored vectors; in a migrating collection queries are of another model."""
        return self.calibration.model if self.calibration else self.spec.model

    @property
    def space(self) -> str:
        """Id of the space of rankings: hash of the model and of the calibration."""
        return short_hash(self.spec.model, self._applied.id if self.calibration else "no calibration")

    def describe(self) -> dict[str, Any]:
        """All that decides a ranking, for the evaluation log."""
        return {
            "encoder": self.spec.name,
            "method": self.spec.method,
            "model": self.spec.model,
            "build": self.spec.build,
            "space": self.space,
            "calibration": self.calibration.id if self.calibration else None,
            "weights": list(self._applied.vector_parts.weights) if self.calibration else [],
            "maps": self._applied.space.name,
            "mates": self._applied.mates,
            "balance": self.ranking.balance,
            "hybrid": self.ranking.hybrid,
            **(self.reranker.describe() if self.reranker else {}),
            "languages": dict(self.languages),
        }

    def detect(self, text: str) -> Detection:
        """Detect the language of a query among the collection's languages."""
        return self.detector.detect(text)

    def unread(self, text: str) -> str:
        """The end of a query that is too long for the encoder; empty if the encoder reads the whole query."""
        if not isinstance(self.encoder, HasQueryLimit):
            return ""
        return text[self.encoder.read_to(Document("query", UNDETERMINED, text)) :].strip()

    def search(
        self,
        text: str,
        *,
        lang: str | None = None,
        to: Sequence[str] | None = None,
        k: int = 10,
        filters: Filters | None = None,
        ranking: RankingOptions | None = None,
        explain: bool = False,
        subjects: bool = False,
        prefer: Sequence[str] = (),
        passages: int = 0,
        facets: Sequence[str] = (),
    ) -> Hits:
        """The k best documents for a query, best first, with their best passages.

        Unless given, the query's language is detected, documents are of all languages, and the ranking is the
        searcher's. Filters are values that a document's fields must have. ``explain`` adds the parts of each score;
        ``passages`` is the number of a hit's best passages in ``Hit.passages``.

        ``subjects`` makes one hit of documents about the same thing: the version in the first language of ``prefer``
        that there is, else in the query's, else the best; ``Hit.also`` has the others. A subject stands where its best
        version would, in the same order whatever k is.

        ``facets`` are names of fields, or ``lang``: the first fifty hits, or all if k is more, are counted by their
        values; with ``subjects`` the subjects shown.

        Raises:
            BadInput: the text is empty, k is below 1, ``to``, ``prefer`` or ``facets`` is a string, a language is not
                in the collection, or no document has a field of the filters or facets.
            StoreError: the searcher is closed, or another process opened it.
        """
        self._check(k, filters)
        require_list(facets, "facets", "fields")
        if prefer and not subjects:
            raise BadInput("prefer chooses the version of a subject that is shown; search with subjects=True")
        paths = facet_paths(self.store, facets)
        query, confidence = read_query(text, lang, self.detector)
        preferred = [*normalised_list(prefer, "prefer"), query.lang]
        vectors = encoded_query(self.encoder, query, self.vector_parts)
        options = (ranking or self.ranking).of(self.collection, self.calibration)
        targets, ranker = self.targets(to), self._ranker(options)
        reranker = None if ranking and not ranking.rerank else self.reranker
        plain = self._applied.queries_in_stored_space(vectors, query.lang)[0]
        of_query = partial(ranked_hits, self.store, query=plain, parts=self.vector_parts)
        hits_of = partial(of_query, explain=explain, passages=passages)
        search = QuerySearch(ranker, query, vectors, targets, filters, reranker, hits_of)
        reach = max(k, _REACH if facets and not subjects else JUDGED)
        attempt = partial(search.by_subjects, reach, preferred) if subjects else partial(search.flat, reach)
        hits = until_read(self.collection, self.store, attempt, filters)
        languages = {target: self.languages[target] for target in targets}
        counts = facets_of(hits[:k] if subjects else hits, paths, self.store, languages, filters) if paths else None
        good = good_hits(hits) if sum(self.languages.values()) >= SMALLEST_BANK else None  # else other queries are few
        return Hits(hits[:k], query.lang, confidence, counts, search.reranking if reranker else None, good)

    def why_nothing(self, text: str, filters: Filters) -> str:
        """Why a search with filters found nothing: names the value that no document has, and the nearest there is."""
        names = [name for name in filters if name != LANGUAGE_FACET]
        facets = self.search(text, k=_SEEN, facets=names).facets if names else None
        for name, wanted in filters.items():
            values = facets.counts.get(name, {}) if facets else {}
            if isinstance(wanted, Mapping) and (reason := misfit(values, wanted)):
                return f"{name} {reason}"
            for value in map(str, wanted if isinstance(wanted, list) else [wanted]):
                if value not in values and (nearest := did_you_mean(value, values)):
                    return f"no document has {value!r} in {name}{nearest}"
        return "no document passes the filter"

    def similar(
        self, doc_id: str, *, to: Sequence[str] | None = None, k: int = 10, filters: Filters | None = None
    ) -> Hits:
        """The k documents most similar to a stored document, best first, each with the passage nearest to it.

        Unless ``to`` names languages, they are of all but the document's own. Stored vectors are compared without the
        languages' means, and in the common space if there is one. The hits' ``lang`` is the document's.

        Raises:
            NoDocument: there is no document of this id.
            BadInput: k is below 1, ``to`` is a string, a language is not in the collection, the collection has one
                language, the encoder knew no word of the document, or no document has a field of the filters.
            StoreError: the searcher is closed, or another process opened it.
        """
        self._check(k, filters)
        ranker = self._ranker(RankingOptions(balance=0.5) if self.calibration else RankingOptions(), passages=False)
        lang = self.document(doc_id).lang
        targets = sorted(set(self.languages) - {lang}) if to is None else self.targets(to)
        if not targets:
            raise BadInput(f"{self.collection} has documents in {lang} alone; ask for similar documents in {lang}")

        def attempt(depth: int) -> list[Hit]:
            try:
                ranking, vector = ranker.rank_similar(doc_id, lang, targets, max(k, depth), filters)
            except MissingDocuments as missing:
                raise self._no_document() if doc_id in missing.doc_ids else missing from None
            if not self.vector_parts.comparable(vector).any():
                raise BadInput("the encoder knew no word of this document, so nothing can be compared with it")
            return ranked_hits(self.store, ranking.first(k), vector[0], self.vector_parts)

        return Hits(until_read(self.collection, self.store, attempt, filters), lang)

    def document(self, doc_id: str) -> Document:
        """A document by its id. Raises NoDocument: there is none."""
        try:
            (document,) = self.store.get([doc_id])
        except MissingDocuments:
            raise self._no_document() from None
        return document

    def _no_document(self) -> NoDocument:
        return NoDocument(f"collection {self.collection} has no document of this id")

    def rank(
        self,
        queries: Sequence[Document],
        *,
        k: int = 1000,
        to: Sequence[str] | None = None,
        filters: Filters | None = None,
        ranking: RankingOptions | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> list[Ranking]:
        """The k best documents for each query, without their content: what an evaluation needs.

        If no encoder with a weight above 0 knows a word of a query, the query finds nothing. ``advance`` is called with
        the number of queries ranked since its last call.

        Raises:
            BadInput: k is below 1, or a language of ``to`` is not in the collection.
            StoreError: the searcher is closed, or another process opened it.
        """
        self._check(k)
        options = (ranking or self.ranking).of(self.collection, self.calibration)
        targets, ranker, reranker = self.targets(to), self._ranker(options), self.reranker
        depth = max(k, RERANKED) if reranker else k
        vectors = self.encoder.encode_queries(queries)
        known = self.vector_parts.comparable(vectors)
        by_lang: dict[str, list[int]] = {}
        for row, query in enumerate(queries):
            by_lang.setdefault(query.lang, []).append(row)
        rankings: dict[int, Ranking] = {}
        for lang, rows in by_lang.items():
            for start in range(0, len(rows), _BLOCK):
                block = rows[start : start + _BLOCK]
                texts = [queries[row].content for row in block]
                detailed = reranker is not None
                ranked = ranker.rank(vectors[block], lang, targets, depth, filters, texts=texts, detailed=detailed)
                if reranker:
                    plain = self._applied.queries_in_stored_space(vectors[block], lang)
                    for place, (row, raw) in enumerate(zip(block, plain, strict=True)):
                        if known[row]:
                            hits_of = partial(ranked_hits, self.store, query=raw, parts=self.vector_parts)
                            best, _ = reranker.reranked(ranked[place], queries[row], ranker, hits_of)
                            ranked[place] = replace(best.first(k), details=None)
                rankings.update(zip(block, ranked, strict=True))
                advance(len(block))
        return [rankings[row] if known[row] else _NO_HITS for row in range(len(queries))]

    def _check(self, k: Any, filters: Any = None) -> None:
        """Refuse a search for no hits, and a search that would wait for threads of another process."""
        if not isinstance(k, int | np.integer) or k < 1:
            raise BadInput(f"k is {k!r}; ask for one hit or more")
        require_filters(filters)
        self.opening.check(self.collection)

    def targets(self, to: Sequence[str] | None) -> list[str]:
        """The languages of ``to``, normalised, or all of the collection's; raises ``BadInput`` as ``search`` does."""
        return target_languages(self.collection, self.languages, to)

    def _ranker(self, options: RankingOptions, *, passages: bool = True) -> FairRanker:
        """The ranker of options with its corrected banks; the ``_RANKERS`` that were used last stay in memory."""
        plain = options.balance is None
        key = (options.balance, options.hybrid, passages and not plain)
        with self._lock:
            ranker = self._rankers.pop(key, None) or FairRanker(
                self.store,
                Calibration.none(self.stored_model, VectorParts.of(self.spec)) if plain else self._applied,
                options.balance,
                hybrid=options.hybrid,
                passages=passages and not plain,
            )
            self._rankers[key] = ranker
            for oldest in list(self._rankers)[:-_RANKERS]:
                del self._rankers[oldest]
        return ranker

    def close(self) -> None:
        """Close the store; it can be closed again."""
        self.opening.closed = True
        self.store.close()

    def __enter__(self) -> Self:
        """Return the open searcher."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the searcher."""
        self.close()
