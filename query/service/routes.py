"""``/api``: search, collections, documents, clicks, health."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse

from encoders.errors import BadInput, DragomanError
from encoders.languages import normalise
from query.calibration import table as calibration_table
from query.ranking.choice import Choice
from query.ranking.hits import Hit, as_json
from query.ranking.options import RankingOptions
from query.ranking.query_encoder import asked_by
from query.ranking.searcher import Searcher, choose
from query.service.admission import Refused, SearchThreads
from query.service.messages import (
    Click,
    CollectionAnswer,
    CollectionsAnswer,
    DocumentAnswer,
    ErrorAnswer,
    Health,
    Readiness,
    SearchAnswer,
    SearchRequest,
)
from query.service.metrics import Metrics
from query.service.open_collections import OpenCollections
from query.service.query_log import QueryLog, SearchEntry
from query.service.refusals import refusal

_TROUBLE: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text}
    for status, text in {
        400: "It can't be searched so.",
        401: "No token, or a wrong one.",
        404: "There is no such collection or document.",
        413: "The body is too large.",
        421: "The host's name is none of the service.",
        422: "The request is not as OpenAPI says.",
        429: "Too much at once, or too often.",
        500: "The service failed.",
        503: "Not now.",
    }.items()
}


READY, EMPTY = "ready", "empty"


@dataclass(frozen=True)
class SearchResult:
    """What a request found.

    Attributes:
        hits: best first.
        lang: of the query.
        confidence: of its detection; none where it was given.
        choice: how they were ranked.
        took: milliseconds.
        logged: id in the query log; none where it is in none.
    """

    hits: Sequence[Hit]
    lang: str
    confidence: float | None
    choice: Choice
    took: int
    logged: str | None


class Api:
    """What the routes need."""

    def __init__(
        self, shelf: OpenCollections, desk: SearchThreads, metrics: Metrics, log: QueryLog | None, *, hybrid: bool
    ) -> None:
        self._shelf, self._desk, self._metrics, self._log, self._hybrid = shelf, desk, metrics, log, hybrid
        self.state: Mapping[str, str] = {}

    def router(self) -> APIRouter:
        """The routes."""
        router = APIRouter(prefix="/api", responses=_TROUBLE)
        router.post("/search", summary="Find documents in any language")(self.search)
        router.get("/collections", summary="What can be searched")(self.collections)
        router.get("/documents/{doc_id:path}", summary="A document by its id")(self.document)
        router.post("/clicks", status_code=204, summary="Tell that a hit was opened")(self.click)
        router.get("/health", summary="Whether the service runs")(self.health)
        router.get("/ready", summary="Whether it answers searches")(self.ready)
        return router

    async def search(self, asked: SearchRequest) -> SearchAnswer:
        """The best documents for a query, best first, whatever their language."""
        return await self._desk.do(lambda: self._search(asked))

    def _search(self, asked: SearchRequest) -> SearchAnswer:
        name = self._named(asked.collection)
        with self._shelf.searcher(name, asked.calibration) as whole:
            searcher = whole.weighed(asked.weights or ())
            found = self.found(searcher, asked, asked.filters or None)
            unread = searcher.unread(asked.query)
            calibration, space = searcher.calibration, searcher.space
        return SearchAnswer.model_validate(
            {
                "query": asked.query,
                "lang": found.lang,
                "confidence": found.confidence,
                "collection": name,
                "space": space,
                "calibration": calibration.id if calibration else None,
                "balance": found.choice.balance,
                "took": found.took,
                "unread": unread,
                "search": found.logged,
                "hits": [as_json(hit) for hit in found.hits],
            }
        )

    def found(self, searcher: Searcher, asked: SearchRequest, filters: Mapping[str, Any] | None) -> SearchResult:
        """What a request finds, counted and, where a log is kept, logged: however it came.

        Args:
            searcher: of the collection, as it is for this caller.
            asked: the request; its filters are those of ``filters``.
            filters: the user's fields a document must have.

        Raises:
            BadInput: it can't be searched so.
            StoreError: the store is away.
        """
        begun = time.perf_counter()
        refuse_hybrid(asked.hybrid, self._hybrid)
        detected = None if asked.lang else searcher.detect(asked.query)
        lang = detected.lang if detected else normalise(asked.lang or "")
        choice = chosen(searcher, asked, hybrid=self._hybrid)
        hits = searcher.search(
            asked.query, lang=lang, to=asked.to, k=asked.k, filters=filters, choice=choice, explain=asked.explain
        )
        took = round(1000 * (time.perf_counter() - begun))
        known = lang if lang in searcher.languages else "other"
        self._metrics.searches.labels(searcher.collection, known).inc()
        logged = None
        if self._log is not None and asked.log:
            settings = {**asked.model_dump(exclude={"query", "collection", "lang", "log"}), "balance": choice.balance}
            shown = [hit.doc_id for hit in hits]
            entry = SearchEntry(asked.query, lang, searcher.collection, searcher.space, settings, shown, took)
            logged = self._log.searched(entry)
        confidence = round(detected.confidence, 4) if detected else None
        return SearchResult(hits, lang, confidence, choice, took, logged)

    def _named(self, name: str) -> str:
        """The collection of a request that may name none."""
        if name:
            return name
        names = self._shelf.names()
        if len(names) != 1:
            raise BadInput(f"say which collection; there are: {', '.join(names) or 'none yet'}")
        return names[0]

    async def collections(self) -> CollectionsAnswer:
        """The collections that are served, with their languages, encoder and calibration."""
        return await self._desk.do(self._collections)

    def _collections(self) -> CollectionsAnswer:
        described: list[CollectionAnswer] = []
        away: dict[str, str] = {}
        for row in self._shelf.rows():
            try:
                with self._shelf.searcher(row.name) as searcher:
                    languages = dict(searcher.languages)
                    asker = asked_by(row, searcher.calibration)
                active = calibration_table.active(self._shelf.engine, row)
            except DragomanError as error:
                away[row.name] = str(refusal(error))
                continue
            calibration = active and {
                "id": active.id,
                "balance": active.summary.setting.balance,
                "margin": active.summary.setting.margin,
            }
            described.append(
                CollectionAnswer.model_validate(
                    {
                        "name": row.name,
                        "encoder": asker.encoder.rpartition("/")[2],
                        "method": asker.method,
                        "model": asker.model,
                        "documents": sum(languages.values()),
                        "languages": languages,
                        "calibration": calibration,
                        "hybrid": self._hybrid,
                    }
                )
            )
        return CollectionsAnswer(collections=described, away=away)

    async def document(self, doc_id: str, collection: Annotated[str, Query(max_length=100)] = "") -> DocumentAnswer:
        """A document with its text."""
        return await self._desk.do(lambda: self._document(doc_id, collection))

    def _document(self, doc_id: str, collection: str) -> DocumentAnswer:
        name = self._named(collection)
        with self._shelf.searcher(name) as searcher:
            try:
                (found,) = searcher.store.get([doc_id])
            except KeyError:
                raise Refused(404, f"collection {name} has no document of this id") from None
        return DocumentAnswer(
            id=found.doc_id, lang=found.lang, title=found.title, text=found.text, fields=dict(found.fields)
        )

    async def click(self, click: Click) -> Response:
        """Keep in the query log that a hit was opened; where no log is kept nothing is."""
        if self._log is not None:
            self._log.clicked(click.search, click.id)
        return Response(status_code=204)

    async def health(self) -> Health:
        """Whether the process answers."""
        return Health(status="ok")

    async def ready(self, response: Response) -> Readiness:
        """Whether every collection that is served could be opened, or holds nothing."""
        ready = all(said in {READY, EMPTY} for said in self.state.values())
        response.status_code = 200 if ready else 503
        return Readiness(ready=ready, collections=dict(self.state))

    async def metrics(self) -> PlainTextResponse:
        """What Prometheus reads."""
        return PlainTextResponse(self._metrics.text(), media_type="text/plain; version=0.0.4")


def refuse_hybrid(asked: bool | None, served: bool) -> None:
    """See that the words of the collections were taken in, which may take minutes and is done at the start.

    Raises:
        BadInput: they were not.
    """
    if asked and not served:
        raise BadInput("hybrid search is not served here; start the service with dragoman serve --hybrid")


def chosen(searcher: Searcher, asked: SearchRequest, *, hybrid: bool) -> Choice:
    """How to rank for a request: as the calibration says, but for what it says otherwise."""
    options = RankingOptions(
        balance=asked.balance,
        margin=asked.margin,
        passages=asked.passages,
        hybrid=hybrid if asked.hybrid is None else asked.hybrid,
        weights=tuple(asked.weights or ()),
    )
    return choose(searcher.collection, searcher.calibration, options)
