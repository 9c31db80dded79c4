"""Encode ahead: two threads encode documents while the caller's thread reads and stores."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Generic, Self, TypeVar

from encoders.console import Console
from encoders.document import Document, Encoded, Encoder, short_hash
from encoders.inference.batch_checkpoint import Checkpoint, current_checkpoint

_IN_FLIGHT = 3
"""Items being encoded or waiting for it, so that reading, tokenising and writing overlap with encoding."""
Item = TypeVar("Item")
_LONG = 200_000
"""Characters of a document that takes so long that progress visibly stands still."""
_NAME = 40
"""Characters of an id's end that fit on a line with the rest."""
_EVERY = 5.0
"""Seconds between two sentences about one long document."""


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


class ChunkEncoding:
    """The encoding of a chunk's documents; finished batches of a very long document are kept."""

    def __init__(
        self, encoder: Encoder, documents: Sequence[Document], checkpoints: Path | None, say: Callable[[str], None]
    ) -> None:
        """``checkpoints`` is the folder for what is encoded of very long documents; none: nothing is kept."""
        self.sentence = ""  # what is being done; empty if no document is very long
        self._encoder, self._documents, self._say = encoder, documents, say
        self._checkpoint: Checkpoint | None = None
        self._said = time.monotonic()
        longest = max(documents, key=lambda document: len(document.content), default=None)
        if longest and len(longest.content) >= _LONG:
            name = longest.doc_id if len(longest.doc_id) <= _NAME else f"…{longest.doc_id[1 - _NAME :]}"
            self.sentence = f"encoding {name}, {len(longest.content):,} characters"
            if checkpoints:
                name = short_hash(*(document.doc_id for document in documents))
                self._checkpoint = Checkpoint(checkpoints, name, self._show)

    def run(self) -> Encoded:
        """Encode the documents, or go on after a killed process. Raises StoreError: checkpoints can't be written."""
        token = current_checkpoint.set(self._checkpoint)
        try:
            return self._encoder.encode_documents(self._documents)
        finally:
            current_checkpoint.reset(token)

    def forget(self) -> None:
        """Remove what is kept, when the documents are stored."""
        if self._checkpoint:
            self._checkpoint.forget()

    def _show(self, done: int, batches: int) -> None:
        if time.monotonic() - self._said >= _EVERY:
            self._said = time.monotonic()
            self._say(f"{self.sentence}: {done / batches:.0%}")
