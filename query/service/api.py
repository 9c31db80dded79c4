"""``/api``: search, collections, documents, clicks, health."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse

from encoders.errors import BadInput, DragomanError
from encoders.languages import normalise
from query import calibration_table
from query.ranking_options import RankingOptions
from query.search_command import as_json_hit
from query.searcher import Searcher, choose
from query.service.desk import Desk, Refused
from query.service.messages import (
    Click,
    CollectionAnswer,
    CollectionsAnswer,
    DocumentAnswer,
    Health,
    Readiness,
    SearchAnswer,
    SearchRequest,
    Trouble,
)
from query.service.metrics import Metrics
from query.service.query_log import Entry, QueryLog
from query.service.refusals import refusal
from query.service.shelf import Shelf

_TROUBLE: dict[int | str, dict[str, Any]] = {
    status: {"model": Trouble, "description": text}
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


class Api:
    """What the routes need."""

    def __init__(self, shelf: Shelf, desk: Desk, metrics: Metrics, log: QueryLog | None, *, hybrid: bool) -> None:
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
        begun = time.perf_counter()
        name = self._named(asked.collection)
        refuse_hybrid(asked.hybrid, self._hybrid)
        with self._shelf.searcher(name, asked.calibration) as searcher:
            detected = None if asked.lang else searcher.detect(asked.query)
            lang = detected.lang if detected else normalise(asked.lang or "")
            choice = chosen(searcher, asked, hybrid=self._hybrid)
            hits = searcher.search(
                asked.query,
                lang=lang,
                to=asked.to,
                k=asked.k,
                filters=asked.filters or None,
                choice=choice,
                explain=asked.explain,
            )
            unread = searcher.unread(asked.query)
            calibration, space = searcher.calibration, searcher.space
        self._metrics.searches.labels(name, lang if lang in searcher.languages else "other").inc()
        took = round(1000 * (time.perf_counter() - begun))
        search = None
        if self._log is not None:
            settings = {**asked.model_dump(exclude={"query", "collection", "lang"}), "balance": choice.balance}
            search = self._log.searched(
                Entry(asked.query, lang, name, space, settings, [hit.doc_id for hit in hits], took)
            )
        return SearchAnswer.model_validate(
            {
                "query": asked.query,
                "lang": lang,
                "confidence": round(detected.confidence, 4) if detected else None,
                "collection": name,
                "space": space,
                "calibration": calibration.id if calibration else None,
                "balance": choice.balance,
                "took": took,
                "unread": unread,
                "search": search,
                "hits": [as_json_hit(hit) for hit in hits],
            }
        )

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
                active = calibration_table.active(self._shelf.engine, row)
            except DragomanError as error:
                away[row.name] = str(refusal(error))
                continue
            calibration = active and {"id": active.id, **{one: active.summary[one] for one in ("balance", "margin")}}
            described.append(
                CollectionAnswer.model_validate(
                    {
                        "name": row.name,
                        "encoder": row.encoder.rpartition("/")[2],
                        "method": row.method,
                        "model": row.model,
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
        """Whether every collection that is served could be opened."""
        ready = all(said == "ready" for said in self.state.values())
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


def chosen(searcher: Searcher, asked: SearchRequest, *, hybrid: bool) -> Any:
    """How to rank for a request: as the calibration says, but for what it says otherwise."""
    options = RankingOptions(
        "", asked.balance, asked.margin, asked.passages, hybrid if asked.hybrid is None else asked.hybrid
    )
    return choose(searcher.collection, searcher.calibration, options)
