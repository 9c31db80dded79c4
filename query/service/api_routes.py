"""``/api``: search, collections, documents, clicks, health."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPBearer

from encoders.console import values_of
from encoders.errors import BadInput, DragomanError
from encoders.methods.combined_encoder import SEPARATOR
from indexer.ledger.database import storable
from query.query_log.query_log_tables import SearchRow
from query.ranking.query_encoder import effective_query_encoder
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hit, Hits, answer_notes, as_json
from query.ranking.searcher import Searcher
from query.service.api_messages import (
    CalibrationAnswer,
    Click,
    CollectionAnswer,
    CollectionName,
    CollectionsAnswer,
    DocumentAnswer,
    ErrorAnswer,
    FacetsAnswer,
    Health,
    HitAnswer,
    Readiness,
    SearchAnswer,
    SearchRequest,
    SimilarAnswer,
    SimilarRequest,
)
from query.service.open_collections import OpenCollections
from query.service.query_log_writer import QueryLog
from query.service.refusals import Refused, refusal
from query.service.search_threads import SearchThreads
from query.service.service_metrics import Metrics

_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text}
    for status, text in {
        400: "The request can't be read, or asks for a reranker that the service does not have.",
        401: "No token, or a wrong one.",
        403: "A page of another site asks.",
        404: "There is no such collection or document.",
        408: "The body did not come in time.",
        409: "The request does not fit the collection, such as a language or calibration that it does not have.",
        413: "The body is too large.",
        414: "Path and parameters are too long.",
        421: "The service does not answer to this host name.",
        422: "The request is not as OpenAPI says.",
        429: "Too many searches at once, or too many requests from this caller.",
        431: "The headers are too long.",
        500: "The service failed.",
        503: "The service can't answer now.",
    }.items()
}
READY, EMPTY = "ready", "empty"
_UNLOGGED = {"query", "collection", "lang", "log", "facets"}
"""Parts of a request that are not among the logged settings."""


@dataclass(frozen=True)
class SearchResult:
    """The answer to a search request."""

    hits: Hits
    balance: float  # 0 by plain cosine
    took: int  # milliseconds
    logged: str | None  # id of the search in the query log; none if it was not logged


class Api:
    """The handlers of the routes, and what they share."""

    def __init__(
        self,
        open_collections: OpenCollections,
        threads: SearchThreads,
        metrics: Metrics,
        log: QueryLog | None,
        *,
        hybrid: bool,
    ) -> None:
        self._open_collections, self._threads = open_collections, threads
        self._metrics, self._log, self._hybrid = metrics, log, hybrid
        self.state: Mapping[str, str] = {}

    def router(self, *, tokens: bool) -> APIRouter:
        """The routes; with ``tokens`` their description says which need one, which ``AccessMiddleware`` sees to."""
        router = APIRouter(prefix="/api", responses=_ERROR_RESPONSES)
        token = [Depends(HTTPBearer(auto_error=False))] if tokens else []
        router.post("/search", dependencies=token, summary="Find documents in any language")(self.search)
        router.post("/similar", dependencies=token, summary="Find documents similar to a document, in other languages")(
            self.similar
        )
        router.get("/collections", dependencies=token, summary="What can be searched")(self.collections)
        router.get("/documents/{doc_id:path}", dependencies=token, summary="A document by its id")(self.document)
        router.post("/clicks", dependencies=token, status_code=204, summary="Log that a hit was opened")(self.click)
        router.get("/health", summary="Whether the service runs")(self.health)
        not_ready: dict[int | str, dict[str, Any]] = {
            503: {"model": Readiness, "description": "A collection can't be searched."}
        }
        router.get("/ready", responses=not_ready, summary="Whether it answers searches")(self.ready)
        return router

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The best documents for a query, best first, whatever their language."""
        return await self._threads.do(lambda: self._search(request))

    def _search(self, request: SearchRequest) -> SearchAnswer:
        name = self._collection_name(request.collection)
        with self._open_collections.searcher(name, request.calibration) as searcher:
            result = self.run_search(searcher, request, request.filters or None)
            unread = searcher.unread(request.query)
            notes = answer_notes(result.hits, 'lang "{}"')
            if request.filters and not result.hits:
                notes = [searcher.why_nothing(request.query, request.filters)]
            calibration, space = searcher.calibration, searcher.space
        return SearchAnswer(
            query=request.query,
            lang=result.hits.lang,
            confidence=None if result.hits.confidence is None else round(result.hits.confidence, 4),
            collection=name,
            space=space,
            calibration=calibration.id if calibration else None,
            balance=result.balance,
            took=result.took,
            reranking=None if result.hits.reranking is None else round(1000 * result.hits.reranking),
            good=result.hits.good if result.hits else None,
            note="; ".join(notes),
            unread=unread,
            search=result.logged,
            hits=_hit_answers(result.hits),
            facets=FacetsAnswer(**vars(facets)) if (facets := result.hits.facets) else None,
        )

    def run_search(
        self,
        searcher: Searcher,
        request: SearchRequest,
        filters: Mapping[str, Any] | None,
        shown: Callable[[Sequence[Hit]], Sequence[Hit]] = lambda hits: hits,
        passages: int = 0,
    ) -> SearchResult:
        """Search for ``/api`` or for an Elasticsearch path, count the search and, where a log is kept, log it.

        ``filters`` replace the request's own; the log gets the hits that are ``shown``. Raises BadInput: the collection
        can't be searched with these settings; StoreError: the store does not answer; Refused: there is no reranker.
        """
        begun = time.perf_counter()
        ranking = self._ranking(request).of(searcher.collection, searcher.calibration)
        balance = ranking.balance or 0.0
        hits = searcher.search(
            request.query,
            lang=request.lang,
            to=request.to,
            k=request.k,
            filters=filters,
            ranking=ranking,
            explain=request.explain,
            subjects=request.subjects,
            prefer=request.prefer or (),
            passages=passages,
            facets=request.facets,
        )
        took = round(1000 * (time.perf_counter() - begun))
        counted_lang = hits.lang if hits.lang in searcher.languages else "other"
        self._metrics.searches.labels(searcher.collection, counted_lang).inc()
        logged = None
        if self._log is not None and request.log:
            search = SearchRow(
                collection=searcher.collection,
                query=storable(request.query),
                lang=storable(hits.lang),
                space=searcher.space,
                settings={**request.model_dump(exclude=_UNLOGGED), "balance": balance},
                hits=[found.doc_id for hit in shown(hits) for found in (hit, *hit.also)],
                took=took,
            )
            logged = self._log.searched(search)
        return SearchResult(hits, balance, took, logged)

    def _ranking(self, request: SearchRequest) -> RankingOptions:
        """How to rank: by the request's settings, else by the service's.

        Raises BadInput: a balance by plain cosine, or hybrid search if it is not served: indexing words takes minutes;
        Refused: there is no reranker.
        """
        if request.hybrid and not self._hybrid:
            raise BadInput("hybrid search is not served here; start the service with dragoman serve --hybrid")
        reranker = self._open_collections.reranker or ""
        if request.rerank and not reranker:
            raise Refused(400, "this service has no reranker; start the service with --rerank FOLDER")
        return RankingOptions(
            calibration=request.calibration,
            balance=request.balance,
            hybrid=self._hybrid if request.hybrid is None else request.hybrid,
            rerank=reranker if request.rerank else "",
        )

    async def similar(self, request: SimilarRequest) -> SimilarAnswer:
        """The documents that are most similar to a document, best first, in other languages than its own."""
        return await self._threads.do(lambda: self._similar(request))

    def _similar(self, request: SimilarRequest) -> SimilarAnswer:
        begun = time.perf_counter()
        name = self._collection_name(request.collection)
        with self._open_collections.searcher(name) as searcher:
            hits = searcher.similar(request.id, to=request.to, k=request.k, filters=request.filters or None)
            space = searcher.space
        return SimilarAnswer(
            id=request.id,
            lang=hits.lang,
            collection=name,
            space=space,
            took=round(1000 * (time.perf_counter() - begun)),
            hits=_hit_answers(hits),
        )

    def _collection_name(self, name: str) -> str:
        if name:
            return name
        names = self._open_collections.names()
        if len(names) != 1:
            raise BadInput(f"say which collection; there are: {', '.join(names) or 'none yet'}")
        return names[0]

    async def collections(self) -> CollectionsAnswer:
        """The collections that are served, with their languages, encoder and calibration."""
        return await self._threads.do(self._collections)

    def _collections(self) -> CollectionsAnswer:
        answers: list[CollectionAnswer] = []
        away: dict[str, str] = {}
        for row in self._open_collections.rows():
            try:
                with self._open_collections.searcher(row.name) as searcher:
                    languages = dict(searcher.languages)
                    calibration = searcher.calibration
                    query_encoder = effective_query_encoder(row, calibration)
            except DragomanError as error:
                away[row.name] = str(refusal(error))
                continue
            answers.append(
                CollectionAnswer(
                    name=row.name,
                    encoder=SEPARATOR.join(name.rpartition("/")[2] for name in query_encoder.encoder.split(SEPARATOR)),
                    method=query_encoder.method,
                    model=query_encoder.model,
                    documents=sum(languages.values()),
                    languages=languages,
                    calibration=CalibrationAnswer.model_validate(calibration, from_attributes=True)
                    if calibration
                    else None,
                    hybrid=self._hybrid,
                    reranker=self._open_collections.reranker,
                )
            )
        return CollectionsAnswer(collections=answers, away=away)

    async def document(self, doc_id: str, collection: Annotated[CollectionName, Query()] = "") -> DocumentAnswer:
        """A document with its text."""
        return await self._threads.do(lambda: self._document(doc_id, collection))

    def _document(self, doc_id: str, collection: str) -> DocumentAnswer:
        name = self._collection_name(collection)
        with self._open_collections.searcher(name) as searcher:
            document = searcher.document(doc_id)
        own = values_of(document, "lang", "title", "text")
        return DocumentAnswer(id=document.doc_id, fields=dict(document.fields), **own)

    async def click(self, click: Click) -> Response:
        """Log that a hit was opened; without a query log, do nothing."""
        if self._log is not None:
            self._log.clicked(click.search, storable(click.id))
        return Response(status_code=204)

    async def health(self) -> Health:
        """Whether the process answers."""
        return Health(status="ok")

    async def ready(self, response: Response) -> Readiness:
        """Whether every collection that is served could be opened, or holds nothing."""
        ready = all(state in {READY, EMPTY} for state in self.state.values())
        response.status_code = 200 if ready else 503
        return Readiness(ready=ready, collections=dict(self.state))

    async def metrics(self) -> PlainTextResponse:
        """The service's metrics in Prometheus's text format."""
        return PlainTextResponse(self._metrics.text(), media_type="text/plain; version=0.0.4")


def _hit_answers(hits: Sequence[Hit]) -> list[HitAnswer]:
    return [HitAnswer.model_validate(as_json(hit)) for hit in hits]
