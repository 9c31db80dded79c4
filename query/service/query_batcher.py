"""The service's encoder of queries: waiting queries are encoded in one batch, and their vectors are kept."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray, HasQueryLimit
from encoders.waiting_calls import WaitingCalls
from query.service.service_metrics import Metrics

_MOST = 32
"""Maximum number of queries encoded in one call."""
KEPT = 4096
"""Maximum number of vectors kept; vectors of 384 numbers take 6 MB."""

_Key = tuple[str, str]


class QueryBatcher:
    """An encoder of queries for many threads: queries that come while one is encoded wait for the next batch.

    On a CPU they get the vectors that they would get alone, on a card these but for rounding. Vectors depend on the
    model only, so they are kept when the calibration changes.
    """

    def __init__(self, encoder: Encoder, metrics: Metrics) -> None:
        self._encoder, self._metrics = encoder, metrics
        self._vectors: OrderedDict[_Key, FloatArray] = OrderedDict()
        self._lock = threading.Lock()
        self._waiting = WaitingCalls(self._encode, at_once=1, most=_MOST)

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the encoder."""
        return self._encoder.spec

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents → their vectors, by the encoder."""
        return self._encoder.encode_documents(documents)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) unit rows."""
        kept = [self._kept(query) for query in queries]
        for vector in kept:
            self._metrics.vectors.labels("no" if vector is None else "yes").inc()
        new = [query for query, vector in zip(queries, kept, strict=True) if vector is None]
        encoded = iter(self._waiting.call("", new))
        rows = [next(encoded) if vector is None else vector for vector in kept]
        return np.stack(rows) if rows else np.empty((0, self.spec.dim), dtype=np.float32)

    def read_to(self, query: Document) -> int:
        """Number of characters of a query that the encoder reads."""
        return self._encoder.read_to(query) if isinstance(self._encoder, HasQueryLimit) else len(query.content)

    def _kept(self, query: Document) -> FloatArray | None:
        with self._lock:
            if (vector := self._vectors.get(_key(query))) is not None:
                self._vectors.move_to_end(_key(query))
            return vector

    def _encode(self, _: str, queries: Sequence[Document]) -> list[FloatArray]:
        """The vectors of waiting queries; a query that is there twice, or was encoded meanwhile, is encoded once."""
        new = {_key(query): query for query in queries if self._kept(query) is None}
        vectors: dict[_Key, FloatArray] = {}
        if new:
            self._metrics.batches.observe(len(new))
            vectors = dict(zip(new, self._encoder.encode_queries(list(new.values())), strict=True))
        with self._lock:
            self._vectors.update(vectors)
            results = [self._vectors[_key(query)] for query in queries]
            while len(self._vectors) > KEPT:
                self._vectors.popitem(last=False)
        return results


def _key(query: Document) -> _Key:
    return query.lang, query.content
