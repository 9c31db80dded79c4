"""Keep the vectors of finished batches while a long document is encoded: a killed process goes on there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from encoders.document import FloatArray
from encoders.errors import StoreError

_DIGEST = 16


class Checkpoint:
    """The finished batches of calls of ``OnnxSession.run``, each with its hash, a file for each call."""

    def __init__(self, folder: Path | None, progress: Callable[[int, int], None]) -> None:
        """Keep files in a folder; none: keep nothing.

        ``progress`` gets the numbers of batches done and in all, after each batch that was computed.
        """
        self._folder, self._progress = folder, progress
        self._files: list[Path] = []

    def batches(
        self, key: str, sizes: Sequence[int], dim: int, compute: Callable[[int], Iterator[FloatArray]]
    ) -> Iterator[FloatArray]:
        """Yield (size, dim) vectors of all batches of a call, those kept by an earlier call with this key first.

        ``key`` identifies all that decides the vectors. ``compute`` computes the batches from a number on.

        Raises:
            StoreError: the file can't be read or written.
        """
        if self._folder is None:
            yield from self._told(compute(0), 0, len(sizes))
            return
        file = self._folder / f"{key}.f32"
        self._files.append(file)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file.open("a+b") as kept:
                kept.seek(0)
                done = end = 0
                for size in sizes:
                    batch = kept.read(4 * dim * size)
                    if len(batch) < 4 * dim * size or kept.read(_DIGEST) != _digest(batch):
                        break
                    done, end = done + 1, kept.tell()
                    yield np.frombuffer(batch, dtype=np.float32).reshape(size, dim)
                kept.truncate(end)
                for vectors in self._told(compute(done), done, len(sizes)):
                    batch = np.ascontiguousarray(vectors, dtype=np.float32).tobytes()
                    kept.write(batch + _digest(batch))
                    kept.flush()
                    yield vectors
        except OSError as error:
            raise StoreError(f"{file} can't be written ({error.strerror or error}); make room, or see to it") from error

    def forget(self) -> None:
        """Remove the files, when the documents are stored."""
        for file in self._files:
            file.unlink(missing_ok=True)

    def _told(self, computed: Iterator[FloatArray], done: int, batches: int) -> Iterator[FloatArray]:
        """The computed batches; progress is called for each, ``done`` being those before."""
        for number, vectors in enumerate(computed, start=done + 1):
            yield vectors
            self._progress(number, batches)


def _digest(batch: bytes) -> bytes:
    """A hash of a batch: a full disk or a power loss leaves a part of it, or zeros in its midst."""
    return hashlib.blake2b(batch, digest_size=_DIGEST).digest()


checkpoint: ContextVar[Checkpoint | None] = ContextVar("checkpoint", default=None)
"""Keeps the batches of calls of ``OnnxSession.run`` in this context; none: they are short."""
