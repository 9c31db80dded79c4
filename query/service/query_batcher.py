"""An encoder as the service has it: queries that wait are encoded together, and vectors are kept for the next time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np

from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray, ReadsSoFar

AT_ONCE = 32
"""Queries encoded in one call, at most."""
KEPT = 4096
"""Vectors kept: of 384 numbers, 6 MB."""

_Key = tuple[str, str]
_Waiting = tuple[_Key, Document, "Future[FloatArray]"]


class QueryBatcher:
    """An encoder of queries for many threads.

    One thread encodes. A query that comes while it is idle is encoded at once; those that come meanwhile wait, and are
    encoded together then, each as if it were alone. Vectors are the model's, whatever the calibration: a calibration
    that is changed finds the same ones. Once it is closed, whoever still asks encodes by itself.
    """

    def __init__(self, encoder: Encoder, *, encoded: Callable[[int], None], kept: Callable[[bool], None]) -> None:
        """Take an encoder.

        Args:
            encoder: what encodes.
            encoded: told how many queries each call encoded.
            kept: told of each query whether its vector was there.
        """
        self._encoder = encoder
        self._encoded, self._told = encoded, kept
        self._vectors: OrderedDict[_Key, FloatArray] = OrderedDict()
        self._pending: dict[_Key, Future[FloatArray]] = {}
        self._closed = False
        self._lock, self._encoding = threading.Lock(), threading.Lock()
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="queries", daemon=True)
        self._thread.start()

    @property
    def spec(self) -> EncoderSpec:
        """What encodes."""
        return self._encoder.spec

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents, as the encoder makes them."""
        return self._encoder.encode_documents(documents)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) unit rows."""
        waiting = [self._vector(query) for query in queries]
        rows = [one.result() if isinstance(one, Future) else one for one in waiting]
        return np.stack(rows) if rows else np.empty((0, self.spec.dim), dtype=np.float32)

    def read_to(self, query: Document) -> int:
        """How many characters of a query the encoder reads."""
        return self._encoder.read_to(query) if isinstance(self._encoder, ReadsSoFar) else len(query.content)

    def close(self) -> None:
        """Let the thread end when it has done what waits."""
        with self._lock:
            self._closed = True
            self._queue.put(None)

    def _vector(self, query: Document) -> FloatArray | Future[FloatArray]:
        key = (query.lang, query.content)
        with self._lock:
            vector = self._vectors.get(key)
            self._told(vector is not None)
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
                following = self._queue.get()
                if following is None:
                    self._queue.put(None)
                    break
                batch.append(following)
            self._encode(batch)

    def _encode(self, batch: Sequence[_Waiting]) -> None:
        self._encoded(len(batch))
        try:
            with self._encoding:
                vectors = self._encoder.encode_queries([query for _, query, _ in batch])
        except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
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
