"""One process that works: takes the chunk a message names, encodes it, puts it, and writes down that it is done."""

from __future__ import annotations

import datetime as dt
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlsplit

import sqlalchemy as sa

from encoders.document import Document, Encoder
from encoders.errors import DragomanError, MissingPart, StoreError
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.indexing.storing import existing_documents, put_beside, put_encoded
from indexer.ledger.database import is_away, owner_of
from indexer.ledger.ledger import storable
from indexer.ledger.tables import IndexRun
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from indexer.stores.factory import open_store
from indexer.workers import registry
from indexer.workers.hints import Hints
from indexer.workers.leases import Lease, Leases
from indexer.workers.logs import logger, of
from indexer.workers.metrics import Metrics
from indexer.workers.registry import Identity
from indexer.workers.shutdown import StopSignal
from indexer.workers.sweeping import going, sweep

BEATS = 4
"""Signs of life in the time of a lease."""
_SWEEP = 5.0
"""Seconds between two sweeps, by whichever worker, at most."""
_TICK = 0.25
_PAUSE = 5.0
"""Seconds until a worker whose store failed tries the next chunk."""
_BACKOFF = (0.2, 5.0)
_LONGEST = 500
"""Characters of an error that are kept: some repeat the text that they were about."""

_Key = tuple[str, int, dt.datetime]
"""Of an open store: where it is, which generation, and when its collection was made. A name is used again."""

T = TypeVar("T")


class ChunkWorker:
    """Works on one chunk at a time, and shows that it lives.

    Attributes:
        who: what it is.
        lease_seconds: time after which its chunk is anybody's, if it shows no sign of life.
        unwell: chunks in a row that went back because it encoded nothing.
    """

    def __init__(
        self,
        encoder: Encoder,
        engine: sa.Engine,
        settings: Settings,
        hints: Hints,
        who: Identity,
        lease_seconds: float,
        stop: StopSignal,
        metrics: Metrics,
    ) -> None:
        """Begin to show signs of life, and to look after the runs of the encoder's model."""
        self.who, self.lease_seconds = who, lease_seconds
        self._encoder, self._engine, self._settings, self._hints = encoder, engine, settings, hints
        self._stop, self._metrics = stop, metrics
        self._leases = Leases(
            engine, who.id, who.model, who.build, lease_seconds, refused=lambda count: metrics.stored(0, count)
        )
        self.unwell = 0
        self._stores: dict[str, tuple[_Key, VectorStore]] = {}
        self._at: Lease | None = None
        self._documents = 0
        self._trouble = ""
        self._declined: set[int] = set()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("signs of life", self._live), ("sweep", self._sweep))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Sign off; stores and the database are let go."""
        self._closed.set()
        for thread in self._threads:
            thread.join(self.lease_seconds)
        with suppress(StoreError):
            registry.sign_off(self._engine, self.who.id)
        for _, store in self._stores.values():
            store.close()
        self._engine.dispose()

    def work(self, run: int, number: int) -> bool:
        """Do the chunk that a message names, or the next if that is taken; false where there was nothing to do."""
        if self._stop.asked:
            return False
        started = time.perf_counter()
        try:
            lease = self._patiently(lambda: self._leases.take(run, number))
        except StoreError as error:
            logger.warning("no chunk could be taken: %s", error)
            return False
        if lease is None:
            self._decline(run, number)
            return False
        self._metrics.spent("claim", started)
        self._at = lease
        try:
            self._do(lease)
        except DragomanError as error:  # of database, store or this machine: nobody's documents are the reason
            self.unwell += isinstance(error, MissingPart)
            self._return(lease, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a document does to an encoder, the others go on
            logger.warning("attempt %d failed: %s", lease.attempts, error, extra=of(lease), exc_info=True)
            if self._is_well():
                self.unwell = 0
                self._metrics.chunk("failed")
                self._leave(self._leases.fail, lease, _sentence(error))
                self._tell_others(lease.run, lease.number)
            else:
                self.unwell += 1
                self._return(lease, f"this worker encodes nothing any more: {_sentence(error)}")
        else:
            self._trouble, self.unwell = "", 0
        finally:
            self._at = None
        return True

    def _do(self, lease: Lease) -> None:
        started = time.perf_counter()
        documents = self._patiently(lambda: self._leases.documents(lease))
        run = self._patiently(lambda: self._leases.run(lease))
        store = run and self._store(run)
        if not run or not store:  # deleted meanwhile, its chunks with it
            return
        if not documents:
            if self._patiently(lambda: self._leases.keep(lease)):
                raise StoreError(
                    "its documents are not in the ledger's database any more; give the run up (dragoman cancel) and "
                    "index again"
                )
            self._lost(lease)
            return
        if run.again:  # what is stored now counts: it may have changed, or gone, since the run began
            documents = existing_documents(store, [document.doc_id for document in documents])
        started = self._metrics.spent("read", started)
        encoded = self._encoder.encode_documents(documents)
        started = self._metrics.spent("encode", started)
        if not self._patiently(lambda: self._leases.keep(lease)):
            self._lost(lease)
            return
        if run.again:
            outcome = put_beside(store, self._encoder, documents, encoded)
        else:
            outcome = put_encoded(store, self.who.model, documents, encoded)
        started = self._metrics.spent("put", started)
        if not self._patiently(lambda: self._leases.done(lease, outcome.stored, outcome.notes)):
            self._lost(lease)
            return
        self._metrics.spent("mark", started)
        self._documents += outcome.stored
        self._metrics.chunk("done")
        self._metrics.stored(outcome.stored, len(outcome.notes))
        logger.info("%d documents stored, %d refused", outcome.stored, len(outcome.notes), extra=of(lease))

    def _return(self, lease: Lease, error: str) -> None:
        """Give a chunk back that others may do, say why, and rest a little."""
        self._trouble = error = storable(error)
        logger.warning("given back: %s", error, extra=of(lease))
        self._metrics.chunk("given back")
        self._leave(self._leases.give_back, lease, error)
        self._wait(_PAUSE)

    def _is_well(self) -> bool:
        """Whether the encoder still encodes what every encoder can: else the documents are not the reason."""
        try:
            self._encoder.encode_documents([Document("well", "en", "Is this worker well?")])
        except Exception:  # noqa: BLE001 - whatever it is: the answer is no
            return False
        return True

    def _lost(self, lease: Lease) -> None:
        self._metrics.chunk("lost")
        logger.warning("another worker has the chunk, or its run was given up: dropped", extra=of(lease))

    def _store(self, run: IndexRun) -> VectorStore | None:
        found = self._patiently(lambda: collections.find(self._engine, run.collection))
        if not found:
            return None
        key = (found.place(self._settings), run.generation, found.created)
        known, store = self._stores.pop(found.name, (None, None))
        if store is None or known != key:
            if store is not None:
                store.close()
            store = _opened(found, run.generation, self._settings, self._patiently(lambda: owner_of(self._engine)))
        self._stores[found.name] = (key, store)
        return store

    def _decline(self, run: int, number: int) -> None:
        """A chunk of another model goes where its workers look; said once a run."""
        with suppress(StoreError):
            for other in going(self._engine):
                if other.id == run and other.model != self.who.model:
                    self._hints.send(other.model, [(run, number)])
                    self._say_declined(other)

    def _say_declined(self, run: IndexRun) -> None:
        if run.id not in self._declined:
            self._declined.add(run.id)
            why, which = f"holds vectors of model {run.model}", "one that matches"
            if run.again:
                why = f"is encoded again by {run.again['encoder']}, whose model is {run.model}"
                which = "another one, which loads that encoder"
            logger.warning(
                "collection %s %s, and this worker makes those of %s: declined, once for all; start %s: "
                "dragoman worker -c %s",
                run.collection, why, self.who.model, which, run.collection,
                extra={"run": run.id},
            )  # fmt: skip

    def _tell_others(self, run: int, number: int) -> None:
        with suppress(StoreError):  # or the next sweep does
            self._hints.send(self.who.model, [(run, number)])

    def _patiently(self, act: Callable[[], T]) -> T:
        """Do something with the database, waiting while it is away."""
        pause, longest = _BACKOFF
        away = ""
        while True:
            try:
                found = act()
            except StoreError as error:
                if not is_away(error) or self._stop.asked:
                    raise
                if not away:
                    logger.warning("waiting: %s", error, extra=of(self._at))
                self._trouble = away = storable(str(error))
                self._wait(pause)
                pause = min(2 * pause, longest)
            else:
                if away:
                    self._trouble = ""
                return found

    def _leave(self, how: Callable[[Lease, str], None], lease: Lease, error: str) -> None:
        """Write down that the chunk is anybody's, if that can be done: the end of the lease says the same."""
        with suppress(StoreError):
            how(lease, error)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop.asked:
            time.sleep(min(_TICK, seconds))

    def _live(self) -> None:
        """Show signs of life; return the chunk and end the process when the time to finish it is over."""
        next_sign = 0.0
        while not self._closed.wait(_TICK):
            lease = self._at
            if self._stop.overdue and lease is not None:
                self._abandon(lease)
            if time.monotonic() < next_sign:
                continue
            next_sign = time.monotonic() + self.lease_seconds / BEATS
            at = (lease.run, lease.number) if lease else None
            try:
                if lease is not None:
                    self._leases.keep(lease)
                registry.show_life(self._engine, self.who, self.lease_seconds, at, self._documents, self._trouble)
            except StoreError as error:
                logger.debug("no sign of life could be written: %s", error)
            except Exception:  # noqa: BLE001 - a thread that ends in silence would let leases run out
                logger.exception("no sign of life could be written")

    def _abandon(self, lease: Lease) -> None:
        logger.warning("time to finish is over: the chunk goes back", extra=of(lease))
        self._leave(self._leases.give_back, lease, lease.error)
        self._tell_others(lease.run, lease.number)
        with suppress(StoreError):
            registry.sign_off(self._engine, self.who.id)
        logging.shutdown()
        os._exit(0)  # what the encoder is at is written down nowhere

    def _sweep(self) -> None:
        every = min(self.lease_seconds / BEATS, _SWEEP)
        while not self._closed.wait(every):
            try:
                for run in sweep(self._engine, self._settings, self._hints, self.who.model, every):
                    logger.info("the run is done", extra={"run": run})
                for other in going(self._engine):  # no message of theirs comes here: their queue is another
                    if other.model != self.who.model:
                        self._say_declined(other)
            except DragomanError as error:
                logger.warning("sweeping: %s", error)
            except Exception:  # noqa: BLE001 - the next sweep may go well
                logger.exception("sweeping")


def _opened(found: Collection, generation: int, settings: Settings, owner: str) -> VectorStore:
    place = found.place(settings)
    try:
        return open_store(place, found.name, generation, make=False, credentials=settings.credentials, owner=owner)
    except StoreError as error:
        if urlsplit(place).scheme not in {"", "file"}:
            raise
        raise StoreError(
            f"collection {found.name} is in the folder {place}, which is not on this machine, or not in this home; "
            "work where it is, or index with --store https://… for workers on several machines"
        ) from error


def _sentence(error: Exception) -> str:
    text = storable(str(error)).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:_LONGEST]}" if text else type(error).__name__
