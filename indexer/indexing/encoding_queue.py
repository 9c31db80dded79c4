"""Encode ahead: two threads encode documents while the caller's thread reads and stores."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Generic, Self, TypeVar

from encoders.console import Console
from encoders.document import Document, Encoded, Encoder
from indexer.indexing.chunk_encoding import ChunkEncoding

_IN_FLIGHT = 3
"""Items being encoded or waiting for it, so that reading, tokenising and writing overlap with encoding."""

Item = TypeVar("Item")


class EncodingQueue(Generic[Item]):
    """Items whose documents are being encoded; the caller's thread finishes items in the order of ``add``."""

    def __init__(
        self,
        encoder: Encoder,
        finish: Callable[[Item, Encoded | None], None],
        console: Console,
        checkpoints: Path | None,
    ) -> None:
        """``finish`` gets an item's encoding (None: no documents); ``checkpoints`` keeps very long documents' parts."""
        self._encoder, self._finish_item, self._console, self._checkpoints = encoder, finish, console, checkpoints
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="encode")
        self._in_flight: deque[tuple[Item, ChunkEncoding, Future[Encoded] | None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the unfinished items."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def items(self) -> list[Item]:
        """The unfinished items, oldest first."""
        return [item for item, *_ in self._in_flight]

    def add(self, item: Item, documents: Sequence[Document]) -> None:
        """Encode an item's documents; finish the oldest items while too many are unfinished."""
        encoding = ChunkEncoding(self._encoder, documents, self._checkpoints, self._console.say)
        self._in_flight.append((item, encoding, self._pool.submit(encoding.run) if documents else None))
        while len(self._in_flight) > _IN_FLIGHT:
            self._finish_oldest()

    def finish_all(self) -> None:
        """Finish every item."""
        while self._in_flight:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        item, encoding, future = self._in_flight.popleft()
        with self._console.if_slow(f"{encoding.sentence} …") if encoding.sentence else nullcontext():
            encoded = future.result() if future else None
        self._finish_item(item, encoded)
        encoding.forget()
