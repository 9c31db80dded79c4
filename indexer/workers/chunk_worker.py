"""A worker process: takes the chunk that a message names, encodes and stores it, and marks it done in the ledger."""

import datetime as dt
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlsplit

import numpy as np
import sqlalchemy as sa

from encoders.document import Document, Encoder
from encoders.errors import DragomanError, MissingPart, StoreError
from encoders.folder.whole_folder import make_private_folder
from encoders.inference.session import GraphFailure
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.indexing.encoding_queue import ChunkEncoding
from indexer.indexing.storing import add_vectors, existing_documents, put_encoded
from indexer.ledger.database import is_away, read_database_id, storable
from indexer.ledger.tables import IndexRun
from indexer.stores.contract import VectorStore
from indexer.workers import registry
from indexer.workers.hints import Hints
from indexer.workers.leases import Lease, Leases
from indexer.workers.logs import log_ids, logger
from indexer.workers.registry import Identity
from indexer.workers.shutdown import StopSignal
from indexer.workers.sweeps import active_runs, sweep
from indexer.workers.worker_metrics import Metrics

HEARTBEATS = 4
"""Heartbeats that a worker records during one lease."""
_SWEEP = 5.0
"""Longest time between two sweeps of any worker, in seconds."""
_TICK = 0.25
_PAUSE = 5.0
"""Seconds that a worker rests after it gave a chunk back."""
_BACKOFF = (0.2, 5.0)
"""First and longest pause between two attempts to reach the database, in seconds."""
_MAX_STORES = 4
"""Maximum open stores, for runs take turns; the store used longest ago is closed."""
_LONGEST = 500
"""Longest part of an error message that is stored, in characters; an error may repeat the document's text."""

_Key = tuple[str, int, dt.datetime]
"""Key of an open store: URL, generation, and the collection's creation time, because a name can be used again."""

T = TypeVar("T")


class ChunkWorker:
    """Works on one chunk at a time, with heartbeats; ``failures_in_a_row``: chunks given back without an encoding."""

    def __init__(
        self,
        encoder: Encoder,
        engine: sa.Engine,
        settings: Settings,
        hints: Hints,
        identity: Identity,
        lease_seconds: float,
        stop: StopSignal,
        metrics: Metrics,
        leave: Callable[[], None] | None = None,
    ) -> None:
        """Start the threads; ``leave``, by default an exit, is called when the time is over and the chunk went back."""
        self.identity, self.lease_seconds = identity, lease_seconds
        self._encoder, self._engine, self._settings, self._hints = encoder, engine, settings, hints
        self._stop, self._metrics, self._leave = stop, metrics, leave or end_process
        self._leases = Leases(
            engine, identity.id, identity.model, identity.build, lease_seconds,
            refused=lambda count: metrics.stored(0, count),
        )  # fmt: skip
        self.failures_in_a_row = 0
        with suppress(OSError):
            make_private_folder(settings.home)
        self._keeps_checkpoints = os.access(settings.home, os.W_OK)
        """Whether a killed worker goes on inside a very long document: no other work needs a home to write to."""
        self._stores: dict[str, tuple[_Key, VectorStore]] = {}
        self._current_lease: Lease | None = None
        self._documents = 0
        self._trouble = ""
        self._declined: set[int] = set()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("heartbeats", self._record_heartbeats), ("sweep", self._sweep))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Sign off, and close the stores and the database."""
        self._closed.set()
        for thread in self._threads:
            thread.join(self.lease_seconds)
        self.sign_off()
        for _, store in self._stores.values():
            store.close()
        self._engine.dispose()

    def sign_off(self) -> None:
        """Say in the database that this worker is gone, if the database can be reached."""
        with suppress(StoreError):
            registry.sign_off(self._engine, self.identity.id)

    @property
    def busy(self) -> bool:
        """Whether it has a chunk."""
        return self._current_lease is not None

    def work(self, run_id: int, number: int) -> bool:
        """Process the chunk that a message names, or the next free chunk; false if no chunk was free."""
        if self._stop.requested:
            return False
        started = time.perf_counter()
        try:
            lease = self._retry_while_away(lambda: self._leases.take(run_id, number))
        except StoreError as error:
            logger.warning("no chunk could be taken: %s", error)
            return False
        if lease is None:
            self._decline(run_id, number)
            return False
        self._metrics.spent("claim", started)
        self._current_lease = lease
        try:
            self._process(lease)
        except Exception as error:  # noqa: BLE001 - whatever a document does to the encoder, the other chunks go on
            if isinstance(error, DragomanError) and not isinstance(error, GraphFailure):
                # the database, the store or this machine failed, not a document
                self.failures_in_a_row += isinstance(error, MissingPart)
                self._give_back(lease, str(error))
                return True
            logger.warning("attempt %d failed: %s", lease.attempts, error, extra=log_ids(lease), exc_info=True)
            if self._encoder_works():
                self.failures_in_a_row = 0
                self._metrics.chunk("failed")
                self._release(self._leases.fail, lease, _sentence(error))
            else:
                self.failures_in_a_row += 1
                self._give_back(lease, f"this worker encodes nothing any more: {_sentence(error)}")
        else:
            self._trouble, self.failures_in_a_row = "", 0
        finally:
            self._current_lease = None
        return True

    def _process(self, lease: Lease) -> None:
        started = time.perf_counter()
        documents = self._retry_while_away(lambda: self._leases.documents(lease))
        run = self._retry_while_away(lambda: self._leases.run(lease))
        store = run and self._store(run)
        if not run or not store:  # the collection was deleted meanwhile, with its chunks
            return
        if not documents:
            if self._retry_while_away(lambda: self._leases.renew(lease)):
                raise StoreError(
                    "its documents are not in the ledger's database any more; give the run up (dragoman cancel) and "
                    "index again"
                )
            self._log_lost(lease)
            return
        if run.again:  # a document may have changed or gone since the run began: encode what is stored now
            documents = existing_documents(store, [document.doc_id for document in documents])
        started = self._metrics.spent("read", started)
        checkpoints = self._settings.checkpoints(run.collection) if self._keeps_checkpoints else None
        encoding = ChunkEncoding(
            self._encoder, documents, checkpoints, lambda sentence: logger.info("%s", sentence, extra=log_ids(lease))
        )
        encoded = encoding.run()
        started = self._metrics.spent("encode", started)
        if not self._retry_while_away(lambda: self._leases.renew(lease)):
            self._log_lost(lease)
            return
        if run.again:
            outcome = add_vectors(store, self._encoder, documents, encoded)
        else:
            outcome = put_encoded(store, self.identity.model, documents, encoded)
        started = self._metrics.spent("put", started)
        if not self._retry_while_away(lambda: self._leases.done(lease, outcome.stored, outcome.refused)):
            self._log_lost(lease)
            return
        encoding.forget()
        self._metrics.spent("mark", started)
        self._documents += outcome.stored
        self._metrics.chunk("done")
        self._metrics.stored(outcome.stored, len(outcome.refused))
        logger.info("%d documents stored, %d refused", outcome.stored, len(outcome.refused), extra=log_ids(lease))

    def _give_back(self, lease: Lease, error: str) -> None:
        """Give a chunk back to other workers, log the reason, and rest."""
        self._trouble = error = storable(error)
        logger.warning("given back: %s", error, extra=log_ids(lease))
        self._metrics.chunk("given back")
        with suppress(StoreError):  # without the database the lease runs out
            self._leases.give_back(lease, error)
        self._wait(_PAUSE)

    def _encoder_works(self) -> bool:
        """Whether the encoder still encodes a simple sentence; if not, a failure is not the documents' fault."""
        try:
            vectors = self._encoder.encode_documents([Document("well", "en", "Is this worker well?")]).vectors
        except Exception:  # noqa: BLE001 - any exception means no
            return False
        return bool(np.isfinite(vectors).all() and vectors.any())

    def _log_lost(self, lease: Lease) -> None:
        self._metrics.chunk("lost")
        logger.warning("another worker has the chunk, or its run was given up: dropped", extra=log_ids(lease))

    def _store(self, run: IndexRun) -> VectorStore | None:
        collection = self._retry_while_away(lambda: collections.find(self._engine, run.collection))
        if not collection:
            return None
        key = (collection.place(self._settings), run.generation, collection.created)
        open_key, store = self._stores.pop(collection.name, (None, None))
        if store is None or open_key != key:
            if store is not None:
                store.close()
            database_id = self._retry_while_away(lambda: read_database_id(self._engine))
            store = _open_existing_store(collection, run.generation, self._settings, database_id)
        self._stores[collection.name] = (key, store)
        while len(self._stores) > _MAX_STORES:
            _, oldest = self._stores.pop(next(iter(self._stores)))
            oldest.close()
        return store

    def _decline(self, run_id: int, number: int) -> None:
        """Send a chunk of another model to the queue of that model's workers; logged once per run."""
        with suppress(StoreError):
            for active_run in active_runs(self._engine):
                if active_run.id == run_id and active_run.model != self.identity.model:
                    self._hints.send(active_run.model, [(run_id, number)])
                    self._log_declined(active_run)

    def _log_declined(self, run: IndexRun) -> None:
        if run.id not in self._declined:
            self._declined.add(run.id)
            why, needed = f"holds vectors of model {run.model}", "one that matches"
            if run.again:
                why = f"is encoded again by {run.again['encoder']}, whose model is {run.model}"
                needed = "another one, which loads that encoder"
            logger.warning(
                "collection %s %s, and this worker makes vectors of model %s: it leaves the run to other workers "
                "(logged once); start %s: dragoman worker -c %s",
                run.collection, why, self.identity.model, needed, run.collection,
                extra={"run": run.id},
            )  # fmt: skip

    def _retry_while_away(self, query: Callable[[], T]) -> T:
        """Result of ``query``, repeated until the database can be reached."""
        pause, longest = _BACKOFF
        last_error = ""
        while True:
            try:
                result = query()
            except StoreError as error:
                if not is_away(error) or self._stop.requested:
                    raise
                if not last_error:
                    logger.warning("waiting: %s", error, extra=log_ids(self._current_lease))
                self._trouble = last_error = storable(str(error))
                self._wait(pause)
                pause = min(2 * pause, longest)
            else:
                if last_error:
                    self._trouble = ""
                return result

    def _release(self, release: Callable[[Lease, str], None], lease: Lease, error: str) -> None:
        """Release the chunk in the ledger and send its message; without the database or the broker a sweep does it."""
        with suppress(StoreError):
            release(lease, error)
            self._hints.send(self.identity.model, [(lease.run_id, lease.number)])

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop.requested:
            time.sleep(min(_TICK, seconds))

    def _record_heartbeats(self) -> None:
        """Record heartbeats; give the chunk back and end the process when the time to finish the chunk is over."""
        next_heartbeat = 0.0
        while not self._closed.wait(_TICK):
            lease = self._current_lease
            if self._stop.overdue and lease is not None:
                self._abandon(lease)
                return
            if time.monotonic() < next_heartbeat:
                continue
            next_heartbeat = time.monotonic() + self.lease_seconds / HEARTBEATS
            chunk_key = (lease.run_id, lease.number) if lease else None
            try:
                if lease is not None:
                    self._leases.renew(lease)
                registry.record_heartbeat(
                    self._engine, self.identity, self.lease_seconds, chunk_key, self._documents, self._trouble
                )
            except StoreError as error:
                logger.debug("no heartbeat could be recorded: %s", error)
            except Exception:  # noqa: BLE001 - if this thread ended, the lease would run out unnoticed
                logger.exception("no heartbeat could be recorded")

    def _abandon(self, lease: Lease) -> None:
        logger.warning("time to finish is over: the chunk goes back", extra=log_ids(lease))
        self._release(self._leases.give_back, lease, lease.error)
        self.sign_off()
        self._current_lease = None
        self._leave()

    def _sweep(self) -> None:
        every = min(self.lease_seconds / HEARTBEATS, _SWEEP)
        while not self._closed.wait(every):
            try:
                for ended_run_id in sweep(self._engine, self._settings, self._hints, self.identity.model, every):
                    logger.info("the run is done", extra={"run": ended_run_id})
                for active_run in active_runs(self._engine):  # messages for other models go to other queues
                    if active_run.model != self.identity.model:
                        self._log_declined(active_run)
            except DragomanError as error:
                logger.warning("sweeping: %s", error)
            except Exception:  # noqa: BLE001 - the next sweep may succeed
                logger.exception("sweeping")


def end_process() -> None:
    """End this process at once: what is being encoded is dropped, and nothing of it is stored."""
    logging.shutdown()
    os._exit(0)


def _open_existing_store(collection: Collection, generation: int, settings: Settings, database_id: str) -> VectorStore:
    try:
        return collection.open_store(settings, generation=generation, database_id=database_id)
    except StoreError as error:
        place = collection.place(settings)
        if urlsplit(place).scheme not in {"", "file"}:
            raise
        raise StoreError(
            f"collection {collection.name} is in the folder {place}, which is not on this machine, or not in this "
            "home; work where it is, or index with --store https://… for workers on several machines"
        ) from error


def _sentence(error: Exception) -> str:
    text = storable(str(error)).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:_LONGEST]}" if text else type(error).__name__
