"""The collections that are served, open: what is searched is always what the database says now."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput, DragomanError, MissingPart, ModelMismatch
from encoders.session import Device
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.database import connect
from indexer.settings import Settings
from indexer.text.language_detection import Detector
from query.calibration import loading
from query.calibration.calibration import Calibration
from query.calibration.table import NONE
from query.ranking.options import RankingOptions
from query.ranking.query_encoder import asked_by, open_query_encoder
from query.ranking.searcher import Searcher, choose
from query.service import collection_state
from query.service.metrics import Metrics
from query.service.query_batcher import QueryBatcher

_COUNTED = 5.0
"""Seconds that the number of documents by language is believed."""
_TRIED_AGAIN = 60.0
"""Seconds until a model that did not fit is loaded again for a collection of which the database says the same."""
_OTHERS = 4
"""Calibrations kept beside the active one, of those that requests named."""


@dataclass(frozen=True)
class _Failed:
    """Why a collection could not be opened.

    Attributes:
        state: what the database said of it then.
        kind: of the error.
        sentence: what it said.
        when: it was tried.
    """

    state: tuple[Any, ...]
    kind: type[ModelMismatch] | type[MissingPart]
    sentence: str
    when: float


@dataclass
class _Open:
    """A collection, open.

    Attributes:
        state: what the database said of it when it was opened; its last items are of calibrations.
        searcher: with the active calibration.
        others: the same store by other calibrations, by the name that requests gave.
        counted: when its documents were counted.
        users: searches that are at it.
        retired: whether another took its place: the last of the users closes it.
    """

    state: tuple[Any, ...]
    searcher: Searcher
    others: dict[str, Searcher] = field(default_factory=dict)
    counted: float = 0.0
    users: int = 0
    retired: bool = False


class OpenCollections:
    """The collections that are served."""

    def __init__(
        self, settings: Settings, names: Sequence[str], device: Device, *, hybrid: bool, metrics: Metrics
    ) -> None:
        """Open the database; collections are opened when they are first searched.

        Args:
            settings: where things are.
            names: of the collections; empty: all there are.
            device: where queries are encoded.
            hybrid: take in the words of a collection when it is opened, and search with them unless told otherwise.
            metrics: told of what queries wait for.

        Raises:
            BadInput: there is no collection of one of the names.
            StoreError: the database can't be opened.
        """
        self._settings, self._names, self._device, self._hybrid = settings, tuple(names), device, hybrid
        self._metrics = metrics
        self._engine = connect(settings.database)
        self._open: dict[str, _Open] = {}
        self._failed: dict[str, _Failed] = {}
        self._encoders: dict[tuple[str, str], QueryBatcher] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        for name in names:
            collections.require(self._engine, name)

    @property
    def engine(self) -> sa.Engine:
        """The database."""
        return self._engine

    def names(self) -> list[str]:
        """Collections that are served, by name."""
        if self._names:
            return list(self._names)
        return collection_state.names(self._engine)

    def row(self, name: str) -> Collection:
        """A collection that is served, as the database has it.

        Raises:
            BadInput: there is none, or it is not served.
        """
        self._check(name)
        return collections.require(self._engine, name)

    def rows(self) -> list[Collection]:
        """All of them."""
        return [one for one in collections.every(self._engine) if not self._names or one.name in self._names]

    def _check(self, name: str) -> None:
        if self._names and name not in self._names:
            raise BadInput(f"there is no collection {name!r} here; there are: {', '.join(self._names)}")

    @contextmanager
    def searcher(self, name: str, calibration: str = "") -> Iterator[Searcher]:
        """A collection as it is now, for one search.

        Args:
            name: of the collection.
            calibration: beginning of an id; ``none``: plain cosine; empty: the active one.

        Raises:
            BadInput: there is no such collection or calibration.
            EmptyCollection: it holds no documents.
            ModelMismatch: the encoder, or the calibration's, is another one.
            StoreError: store or database are away.
        """
        self._check(name)
        opened = self._borrow(name)
        try:
            yield self._by(opened, calibration) if calibration else opened.searcher
        finally:
            self._give_back(opened)

    def _borrow(self, name: str) -> _Open:
        state = collection_state.now(self._engine, name)
        if state is None:
            with self._lock:
                self._retire(self._open.pop(name, None))
            collections.require(self._engine, name)
            raise BadInput(f"there is no collection {name!r}")
        with self._lock:
            opened = self._open.get(name)
            if opened is not None and opened.state == state:
                opened.users += 1
            lock = self._locks.setdefault(name, threading.Lock())
        if opened is None or opened.state != state:
            with lock:
                opened = self._renew(name, state)
        self._recount(opened)
        return opened

    def _renew(self, name: str, state: tuple[Any, ...]) -> _Open:
        """Open a collection, or another calibration of it; threads that wait for it find it done."""
        with self._lock:
            before = self._open.get(name)
            if before is not None and before.state == state:
                before.users += 1
                return before
        failed = self._failed.get(name)
        if failed is not None and failed.state == state and time.monotonic() - failed.when < _TRIED_AGAIN:
            raise failed.kind(failed.sentence)
        same_store = before is not None and before.state[:-2] == state[:-2]
        try:
            searcher = self._calibrated(before.searcher, "") if before and same_store else self._opened(name)
        except (ModelMismatch, MissingPart) as error:
            self._failed[name] = _Failed(state, type(error), str(error), time.monotonic())
            raise
        if before and same_store:
            with self._lock:  # the open collection goes on with another calibration
                before.state, before.searcher, before.others = state, searcher, {}
                before.users += 1
                return before
        fresh = _Open(state, searcher, counted=time.monotonic(), users=1)
        with self._lock:
            self._open[name] = fresh
            self._retire(before)
        return fresh

    def _opened(self, name: str) -> Searcher:
        row = collections.require(self._engine, name)
        encoder = self._encoder(row, loading.load(self._engine, row))
        ranking = RankingOptions(hybrid=self._hybrid)
        searcher = Searcher.open(
            name, self._settings, device=self._device, ranking=ranking, encoder=encoder, console=Console()
        )
        searcher.detector.load()
        return searcher

    def _encoder(self, row: Collection, calibration: Calibration | None) -> QueryBatcher:
        """The encoder of queries that a collection is ranked by with a calibration; loaded once."""
        asker = asked_by(row, calibration)
        with self._lock:
            found = self._encoders.get((asker.encoder, asker.method))
        if found is None or found.spec.model != asker.model:
            loaded = open_query_encoder(row, calibration, self._device, Console())
            made = QueryBatcher(loaded, encoded=self._metrics.encoded, kept=self._metrics.kept)
            with self._lock:
                before = self._encoders.get((asker.encoder, asker.method))
                self._encoders[asker.encoder, asker.method] = made
            if before is not None:
                before.close()
            return made
        return found

    def _by(self, opened: _Open, calibration: str) -> Searcher:
        found = opened.others.get(calibration)
        if found is None:
            found = self._calibrated(opened.searcher, calibration)
            with self._lock:
                opened.others[calibration] = found
                while len(opened.others) > _OTHERS:
                    opened.others.pop(next(iter(opened.others)))
        return found

    def _calibrated(self, searcher: Searcher, wanted: str) -> Searcher:
        """The same store and encoder by another calibration."""
        row = collections.require(self._engine, searcher.collection)
        plain = wanted == NONE
        calibration = None if plain else loading.load(self._engine, row, wanted)
        choice = choose(row.name, calibration, RankingOptions(calibration=wanted, hybrid=self._hybrid))
        return replace(searcher, encoder=self._encoder(row, calibration), calibration=calibration, choice=choice)

    def _recount(self, opened: _Open) -> None:
        """Let languages that came or went since be seen; one thread counts, the others go on meanwhile."""
        now = time.monotonic()
        with self._lock:
            if now - opened.counted < _COUNTED:
                return
            opened.counted = now
        try:
            languages = opened.searcher.store.count()
        except DragomanError:
            self._give_back(opened)
            raise
        searcher = opened.searcher
        if languages and languages != searcher.languages:
            same = languages.keys() == searcher.languages.keys()
            detector = searcher.detector if same else Detector(languages.keys())
            detector.load()
            for one in (searcher, *opened.others.values()):
                one.detector, one.languages = detector, languages

    def _give_back(self, opened: _Open) -> None:
        with self._lock:
            opened.users -= 1
            last = opened.retired and not opened.users
        if last:
            opened.searcher.close()

    def _retire(self, opened: _Open | None) -> None:
        """Close it when nobody is at it any more; the lock is held."""
        if opened is not None:
            opened.retired = True
            if not opened.users:
                opened.searcher.close()

    def warm(self, name: str) -> None:
        """Open a collection and search it once, so that the first who asks does not wait."""
        with self.searcher(name) as searcher, suppress(BadInput):  # an encoder of words may know none of this query
            searcher.search("a", lang=min(searcher.languages), k=1)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            for opened in self._open.values():
                self._retire(opened)
            self._open.clear()
            encoders = list(self._encoders.values())
            self._encoders.clear()
        for encoder in encoders:
            encoder.close()
        self._engine.dispose()
