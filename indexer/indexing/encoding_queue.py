"""Encode ahead: two threads encode documents while the caller's thread reads and stores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

from encoders.checkpoint import Checkpoint, checkpoint
from encoders.document import Document, Encoded, Encoder

_IN_FLIGHT = 3
"""Items being encoded or waiting for it, so that reading, tokenising and writing overlap with encoding."""

Item = TypeVar("Item")


class EncodingQueue(Generic[Item]):
    """Items whose documents are being encoded; the caller's thread finishes items in the order of ``add``."""

    def __init__(self, encoder: Encoder, finish: Callable[[Item, Future[Encoded] | None], None]) -> None:
        """``finish`` gets each item with its encoding, or with None if the item had no documents."""
        self._encoder, self._finish = encoder, finish
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="encode")
        self._in_flight: deque[tuple[Item, Future[Encoded] | None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the unfinished items."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def items(self) -> list[Item]:
        """The unfinished items, oldest first."""
        return [item for item, _ in self._in_flight]

    def add(self, item: Item, documents: Sequence[Document], kept: Checkpoint | None = None) -> None:
        """Encode an item's documents; finish the oldest items while too many are unfinished.

        ``kept`` keeps the batches that are done.
        """
        encoding = self._pool.submit(self._encode, documents, kept) if documents else None
        self._in_flight.append((item, encoding))
        while len(self._in_flight) > _IN_FLIGHT:
            self._finish(*self._in_flight.popleft())

    def _encode(self, documents: Sequence[Document], kept: Checkpoint | None) -> Encoded:
        token = checkpoint.set(kept)
        try:
            return self._encoder.encode_documents(documents)
        finally:
            checkpoint.reset(token)

    def finish_all(self) -> None:
        """Finish every item."""
        while self._in_flight:
            self._finish(*self._in_flight.popleft())
