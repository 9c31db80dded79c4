"""The collections that are served, kept open; each search uses a collection as the database states it then."""

import datetime as dt
import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput, DragomanError, MissingPart, ModelMismatch
from encoders.languages import UNDETERMINED
from encoders.phrases import did_you_mean
from indexer.cluster.cluster_errors import IndexGone
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.database import connect
from indexer.ledger.tables import AttachedIndex, IndexRun
from indexer.stores.collection_names import NoCollection
from indexer.stores.embedded import EmbeddedStore
from indexer.text.language_detection import Detector
from onnx_export.models import open_reranker
from query.calibration.calibration import NONE, Calibration
from query.calibration.calibration_table import CalibrationRow, load
from query.ranking.hit_reranker import HitReranker
from query.ranking.query_encoder import effective_query_encoder, open_query_encoder
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from query.service.query_batcher import QueryBatcher
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions

_COUNT_SECONDS = 5.0
"""Seconds between two counts of a collection's documents by language, while no run over documents ends."""
_RETRY_SECONDS = 60.0
"""Seconds after a failed opening until the next attempt, if the collection's rows in the database stay the same."""
_LONG = Document("long", UNDETERMINED, "a " * 5_000)
"""A query for which a tokenizer reads its whole vocabulary: otherwise one of the first searches would wait for it."""
_MAX_CALIBRATIONS = 4
"""Searchers kept of a collection for calibrations that requests name, beside that of the active calibration."""

_LAST_RUN_ENDED = (
    sa.select(sa.func.max(IndexRun.finished)).where(IndexRun.collection == Collection.name).scalar_subquery()
)
_INDICES = (
    sa.select(sa.func.count())
    .where(
        IndexRun.collection == Collection.name,
        IndexRun.finished.is_not(None),
        sa.exists().where(AttachedIndex.collection == Collection.name),
    )
    .scalar_subquery()
)
_STATE = (
    sa.select(
        Collection.created,
        Collection.store,
        Collection.generation,
        Collection.model,
        Collection.encoder,
        Collection.method,
        _INDICES,
        CalibrationRow.id,
        CalibrationRow.created,
        _LAST_RUN_ENDED,
    )
    .outerjoin(
        CalibrationRow,
        sa.and_(
            CalibrationRow.collection == Collection.name,
            CalibrationRow.model == Collection.model,
            CalibrationRow.active,
        ),
    )
    .where(Collection.name == sa.bindparam("name"))
)
"""What decides how a collection is searched; read before every search, with the end of the last run over documents.

The time of creation tells a collection that was deleted and made anew from the one before it, the number of finished
runs over attached indices that a family has another.
"""
_OF_COLLECTION = 7
"""Number of columns of ``_STATE`` that are the collection's; then come its calibration's, and last the run's."""
_State = tuple[Any, ...]
"""What decides how a collection is searched: the columns of ``_STATE`` but the last."""


@dataclass
class _OpenCollection:
    state: _State  # of the collection in the database when it was opened
    searcher: Searcher  # with the active calibration
    by_calibration: dict[str, Searcher] = field(default_factory=dict)  # of the store, by the id that requests gave
    counted_at: float = 0.0  # time of the last count of its documents, in seconds of ``time.monotonic``
    counted_for: dt.datetime | None = None  # end of the last run over its documents before that count
    counting: threading.Lock = field(default_factory=threading.Lock)  # held while the documents are counted after a run
    searches: int = 0  # number of searches that use it now
    retired: bool = False  # whether the collection was opened anew or removed; the last search then closes this one


class OpenCollections:
    """The collections that are served."""

    def __init__(self, options: ServiceOptions, metrics: Metrics) -> None:
        """Open the database and the reranker; collections are opened when they are first searched.

        Raises BadInput: a name is unknown; StoreError: the database can't be opened; MissingPart: no device.
        """
        self._options, self._metrics = options, metrics
        self._reranker = (
            HitReranker(open_reranker(options.rerank, Console(), options.device)) if options.rerank else None
        )
        self.engine = connect(options.settings.database)
        self._open: dict[str, _OpenCollection] = {}
        self._failures: dict[str, tuple[_State, ModelMismatch | MissingPart, float]] = {}  # at times of time.monotonic
        self._encoders: dict[tuple[str, str], QueryBatcher] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._openings, self._loading = 0, threading.Lock()
        self._lock = threading.Lock()
        for name in options.collections:
            collections.require(self.engine, name)

    @property
    def reranker(self) -> str | None:
        """Name of the reranker that searches may ask for; none: they can't."""
        return self._reranker.name if self._reranker else None

    def names(self) -> list[str]:
        """Names of the collections that are served."""
        if self._options.collections:
            return list(self._options.collections)
        with self.engine.connect() as connection:
            return list(connection.scalars(sa.select(Collection.name).order_by(Collection.name)))

    def rows(self) -> list[Collection]:
        """The rows of all collections that are served."""
        return [
            collection
            for collection in collections.all_collections(self.engine)
            if not self._options.collections or collection.name in self._options.collections
        ]

    @contextmanager
    def searcher(self, name: str, calibration: str = "") -> Iterator[Searcher]:
        """A searcher of the collection as it is now, for one search; an empty ``calibration`` is the active one.

        ``calibration`` is a beginning of an id, or ``none``. Raises NoCollection, EmptyCollection; BadInput: there is
        no such calibration; ModelMismatch: the encoder is another; StoreError: store or database don't answer.
        """
        served = self._options.collections
        if served and name not in served:
            raise NoCollection(
                f"there is no collection {name!r} here{did_you_mean(name, served)} (there are: {', '.join(served)})"
            )
        opened, last_run_ended = self._acquire(name)
        try:
            try:
                self._recount(opened, last_run_ended)
            except IndexGone:  # its alias may have moved: the next search opens what it stands for now
                with self._lock:
                    if self._open.get(name) is opened:
                        self._retire(self._open.pop(name))
                raise
            yield self._named_calibration(opened, calibration) if calibration else opened.searcher
        finally:
            with self._lock:
                opened.searches -= 1
                unused = opened.retired and not opened.searches
            if unused:
                opened.searcher.close()

    def _acquire(self, name: str) -> tuple[_OpenCollection, dt.datetime | None]:
        """The open collection, which counts a search more, and the end of the last run over its documents."""
        with self.engine.connect() as connection:
            row = connection.execute(_STATE, {"name": name}).one_or_none()
        if row is None:
            with self._lock:
                self._retire(self._open.pop(name, None))
            collections.require(self.engine, name)
            raise NoCollection(f"there is no collection {name!r}")
        *columns, last_run_ended = row
        state = tuple(columns)
        with self._lock:
            opened = self._open.get(name)
            if opened is not None and opened.state == state:
                opened.searches += 1
                return opened, last_run_ended
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            return self._reopen(name, state, last_run_ended), last_run_ended

    def _reopen(self, name: str, state: _State, last_run_ended: dt.datetime | None) -> _OpenCollection:
        """Open a collection or its new calibration; a thread that waited for another thread's opening gets that one."""
        with self._lock:
            previous = self._open.get(name)
            if previous is not None and previous.state == state:
                previous.searches += 1
                return previous
        failed_state, failure, failed_at = self._failures.get(name, (None, None, 0.0))
        if failure and failed_state == state and time.monotonic() - failed_at < _RETRY_SECONDS:
            raise copy(failure)  # a traceback of its own
        try:
            with self._opening():
                if previous is not None and previous.state[:_OF_COLLECTION] == state[:_OF_COLLECTION]:
                    searcher = self._with_calibration(previous.searcher, "")
                    with self._lock:
                        previous.state, previous.searcher, previous.by_calibration = state, searcher, {}
                        previous.searches += 1
                    return previous
                fresh = _OpenCollection(state, self._load(name), {}, time.monotonic(), last_run_ended, searches=1)
                with self._lock:
                    self._retire(self._open.get(name))
                    self._open[name] = fresh
                return fresh
        except (ModelMismatch, MissingPart) as error:
            self._failures[name] = state, error, time.monotonic()
            raise

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """No encoder is let go meanwhile: the collection that is being opened may need it."""
        with self._lock:
            self._openings += 1
        try:
            yield
        finally:
            with self._lock:
                self._openings -= 1

    def _load(self, name: str) -> Searcher:
        collection = collections.require(self.engine, name)
        encoder = self._query_encoder(collection, load(self.engine, collection))
        ranking = RankingOptions(hybrid=self._options.hybrid)
        searcher = Searcher.open(
            name,
            self._options.settings,
            device=self._options.device,
            ranking=ranking,
            encoder=encoder,
            console=Console(),
        )
        searcher.detector.load()
        searcher.reranker = self._reranker
        _spare_garbage_collector()
        return searcher

    def _query_encoder(self, collection: Collection, calibration: Calibration | None) -> QueryBatcher:
        """The encoder of a collection's queries under a calibration; loaded once."""
        encoder_spec = effective_query_encoder(collection, calibration)
        key = (encoder_spec.encoder, encoder_spec.method)

        def loaded() -> QueryBatcher | None:
            batcher = self._encoders.get(key)
            return batcher if batcher and batcher.spec.model == encoder_spec.model else None

        if batcher := loaded():
            return batcher
        with self._loading:
            if batcher := loaded():  # another thread has loaded it meanwhile
                return batcher
            encoder = open_query_encoder(collection, calibration, self._options.device, Console())
            batcher = QueryBatcher(encoder, self._metrics)
            batcher.read_to(_LONG)
            with self._lock:
                self._encoders[key] = batcher
        return batcher

    def _named_calibration(self, opened: _OpenCollection, calibration: str) -> Searcher:
        searcher = opened.by_calibration.get(calibration)
        if searcher is None:
            with self._opening():
                searcher = self._with_calibration(opened.searcher, calibration)
                with self._lock:
                    opened.by_calibration[calibration] = searcher
                    while len(opened.by_calibration) > _MAX_CALIBRATIONS:
                        opened.by_calibration.pop(next(iter(opened.by_calibration)))
        return searcher

    def _with_calibration(self, searcher: Searcher, calibration_id: str) -> Searcher:
        """A searcher of the same store with another calibration, and the encoder of queries that it needs."""
        collection = collections.require(self.engine, searcher.collection)
        plain = calibration_id == NONE
        calibration = None if plain else load(self.engine, collection, calibration_id)
        ranking = RankingOptions(calibration=calibration_id, hybrid=self._options.hybrid)
        encoder = self._query_encoder(collection, calibration)
        return replace(searcher, encoder=encoder, calibration=calibration, ranking=ranking)

    def _recount(self, opened: _OpenCollection, last_run_ended: dt.datetime | None) -> None:
        """Update the searchers' languages: at once after a run, and from time to time, as others write into a store."""
        if opened.counted_for != last_run_ended:
            with opened.counting:
                if opened.counted_for != last_run_ended:
                    self._count(opened)
                    opened.counted_for = last_run_ended
            return
        now = time.monotonic()
        with self._lock:
            if now - opened.counted_at < _COUNT_SECONDS:
                return
            opened.counted_at = now
        self._count(opened)  # other threads do not wait for it

    def _count(self, opened: _OpenCollection) -> None:
        searcher = opened.searcher
        languages = searcher.store.count()
        if languages and languages != searcher.languages:
            same_languages = languages.keys() == searcher.languages.keys()
            detector = searcher.detector if same_languages else Detector(languages.keys())
            detector.load()
            for opened_searcher in (searcher, *opened.by_calibration.values()):
                opened_searcher.detector, opened_searcher.languages = detector, languages

    def _retire(self, opened: _OpenCollection | None) -> None:
        """Close the collection as soon as no search uses it; the caller holds the lock."""
        if opened is not None:
            opened.retired = True
            if not opened.searches:
                opened.searcher.close()

    def versions(self) -> list[Any]:
        """What decides how each collection is searched, and the end of its last run; no connection stays open."""
        with self.engine.connect() as connection:
            versions = [connection.execute(_STATE, {"name": name}).one_or_none() for name in self.names()]
        self.engine.dispose()
        return versions

    def prepare_forks(self) -> None:
        """Open what forked processes share: encoders, calibrations and embedded vectors; no thread is started.

        A collection that can't be opened is left to the processes, which say why.
        """
        for name in self.names():
            with suppress(DragomanError), self.searcher(name) as searcher:
                if isinstance(searcher.store, EmbeddedStore):
                    searcher.store.prepare_forks(searcher.stored_model)
                else:  # a server's connections can't be shared
                    self._retire(self._open.pop(name))
        self.engine.dispose()
        _spare_garbage_collector()

    def forked(self) -> None:
        """Let this process, which was forked after ``prepare_forks``, search what is open."""
        for opened in self._open.values():
            opened.searcher.opening.process = os.getpid()

    def warm(self, name: str) -> None:
        """Open a collection and search it once, so that the first request does not wait."""
        with self.searcher(name) as searcher, suppress(BadInput):  # an encoder of words may know none of this query
            searcher.search("a", lang=min(searcher.languages), k=1, ranking=searcher.ranking)

    def close_unused(self) -> None:
        """Close deleted collections and unneeded encoders. Raises SQLAlchemyError: the database does not answer."""
        names = set(self.names())
        with self._lock:
            for name in self._open.keys() - names:
                self._retire(self._open.pop(name))
            for name in self._locks.keys() - names:
                self._locks.pop(name)
                self._failures.pop(name, None)
            if self._openings:
                return
            needed = {
                id(searcher.encoder)
                for opened in self._open.values()
                for searcher in (opened.searcher, *opened.by_calibration.values())
            }
            self._encoders = {key: encoder for key, encoder in self._encoders.items() if id(encoder) in needed}

    def close(self) -> None:
        """Close collections and the database, and let go the encoders."""
        with self._lock:
            for opened in self._open.values():
                self._retire(opened)
            self._open.clear()
            self._encoders.clear()
        self.engine.dispose()


def _spare_garbage_collector() -> None:
    """Let later collections look at new objects alone, and rarely: all take a tenth of a second, and no thread answers.

    A search makes hundreds of objects that live a little: by default they cost two collections a search.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
