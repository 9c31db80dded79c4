"""The service's encoder of queries: waiting queries are encoded in one batch, and their vectors are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np

from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray, HasQueryLimit

AT_ONCE = 32
"""Maximum number of queries encoded in one call."""
KEPT = 4096
"""Maximum number of vectors kept; vectors of 384 numbers take 6 MB."""

_Key = tuple[str, str]
_Waiting = tuple[_Key, Document, "Future[FloatArray]"]


class QueryBatcher:
    """An encoder of queries for many threads.

    One thread encodes. A query that comes while the thread is idle is encoded at once; queries that come while it
    encodes wait for the next batch, and get the vectors that they would get alone. Vectors depend on the model only, so
    they are kept when the calibration changes. After ``close`` a query is encoded in its caller's thread.
    """

    def __init__(self, encoder: Encoder, *, encoded: Callable[[int], None], kept: Callable[[bool], None]) -> None:
        """Start the thread.

        ``encoded`` is called with the number of queries of each batch, ``kept`` for each query with whether its vector
        was kept.
        """
        self._encoder = encoder
        self._count_encoded, self._count_kept = encoded, kept
        self._vectors: OrderedDict[_Key, FloatArray] = OrderedDict()
        self._pending: dict[_Key, Future[FloatArray]] = {}
        self._closed = False
        self._lock, self._encoder_lock = threading.Lock(), threading.Lock()
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="queries", daemon=True)
        self._thread.start()

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the encoder."""
        return self._encoder.spec

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents → their vectors, by the encoder."""
        return self._encoder.encode_documents(documents)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) unit rows."""
        vectors = [self._vector(query) for query in queries]
        rows = [vector.result() if isinstance(vector, Future) else vector for vector in vectors]
        return np.stack(rows) if rows else np.empty((0, self.spec.dim), dtype=np.float32)

    def read_to(self, query: Document) -> int:
        """Number of characters of a query that the encoder reads."""
        return self._encoder.read_to(query) if isinstance(self._encoder, HasQueryLimit) else len(query.content)

    def close(self) -> None:
        """End the thread after the waiting queries."""
        with self._lock:
            self._closed = True
            self._queue.put(None)

    def _vector(self, query: Document) -> FloatArray | Future[FloatArray]:
        key = (query.lang, query.content)
        with self._lock:
            vector = self._vectors.get(key)
            self._count_kept(vector is not None)
            if vector is not None:
                self._vectors.move_to_end(key)
                return vector
            if (pending := self._pending.get(key)) is not None:
                return pending
            future: Future[FloatArray] = Future()
            self._pending[key] = future
            closed = self._closed
            if not closed:
                self._queue.put((key, query, future))
        if closed:
            self._encode([(key, query, future)])
        return future

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            while len(batch) < AT_ONCE and not self._queue.empty():
                waiting = self._queue.get()
                if waiting is None:
                    self._queue.put(None)
                    break
                batch.append(waiting)
            self._encode(batch)

    def _encode(self, batch: Sequence[_Waiting]) -> None:
        self._count_encoded(len(batch))
        try:
            with self._encoder_lock:
                vectors = self._encoder.encode_queries([query for _, query, _ in batch])
        except Exception as error:  # noqa: BLE001 - raised in the threads that wait for the vectors
            with self._lock:
                for key, _, _ in batch:
                    self._pending.pop(key, None)
            for _, _, future in batch:
                future.set_exception(error)
            return
        with self._lock:
            for (key, _, _), vector in zip(batch, vectors, strict=True):
                self._vectors[key] = vector
                self._pending.pop(key, None)
            while len(self._vectors) > KEPT:
                self._vectors.popitem(last=False)
        for (_, _, future), vector in zip(batch, vectors, strict=True):
            future.set_result(vector)
