"""Encode a chunk of documents; if a document is very long, keep each finished batch, and report progress."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from encoders.document import Document, Encoded, Encoder, short_hash
from encoders.inference.batch_checkpoint import Checkpoint, current_checkpoint

_LONG = 200_000
"""Characters of a document that takes so long that progress visibly stands still."""
_NAME = 40
"""Characters of an id's end that fit on a line with the rest."""
_EVERY = 5.0
"""Seconds between two sentences about one long document."""


class ChunkEncoding:
    """The encoding of a chunk's documents."""

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
