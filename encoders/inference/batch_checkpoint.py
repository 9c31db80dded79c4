"""Keep the vectors of finished batches while a long document is encoded: a killed process goes on there."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from encoders.document import FloatArray
from encoders.errors import StoreError
from encoders.folder.whole_folder import FILE_MODE, make_private_folder

_DIGEST = 16


class Checkpoint:
    """The finished batches of calls of ``OnnxSession.run``, each with its hash, a file for each call."""

    def __init__(self, folder: Path, name: str, progress: Callable[[int, int], None]) -> None:
        """Keep files in a folder that only its owner can read; ``name`` tells apart what is encoded at the same time.

        ``progress`` gets the numbers of batches done and in all, after each batch that was computed.
        """
        self._folder, self._name, self._progress = folder, name, progress
        self._files: list[Path] = []

    def batches(
        self, key: str, sizes: Sequence[int], dim: int, compute: Callable[[int], Iterator[FloatArray]]
    ) -> Iterator[FloatArray]:
        """Yield (size, dim) vectors of all batches of a call, those kept by an earlier call with this key first.

        ``key`` identifies all that decides the vectors; ``compute`` computes the batches from a number on. Raises
        StoreError: the file can't be read or written.
        """
        file = self._folder / f"{self._name}-{key}.f32"
        self._files.append(file)
        restored = _restored(file, sizes, dim)
        yield from restored
        done = len(restored)
        for number, vectors in enumerate(_appended(file, compute(done), done), start=done + 1):
            yield vectors
            self._progress(number, len(sizes))

    def forget(self) -> None:
        """Remove the files, when the documents are stored."""
        for file in self._files:
            file.unlink(missing_ok=True)


def _restored(file: Path, sizes: Sequence[int], dim: int) -> list[FloatArray]:
    """The batches that a file has, up to the first that is not whole; the rest of the file is removed."""
    batches: list[FloatArray] = []
    with _file_errors(file):
        make_private_folder(file.parent)
        file.touch(mode=FILE_MODE)
        with file.open("r+b") as stored:
            end = 0
            for number, size in enumerate(sizes):
                batch = stored.read(4 * dim * size)
                if len(batch) < 4 * dim * size or stored.read(_DIGEST) != _digest(number, batch):
                    break
                batches.append(np.frombuffer(batch, dtype=np.float32).reshape(size, dim))
                end = stored.tell()
            stored.truncate(end)
    return batches


def _appended(file: Path, computed: Iterator[FloatArray], done: int) -> Iterator[FloatArray]:
    """Yield the batches, each when it is in the file; ``done`` batches came before."""
    with _file_errors(file), file.open("ab") as stored:
        for number, vectors in enumerate(computed, start=done):
            batch = np.ascontiguousarray(vectors, dtype=np.float32).tobytes()
            stored.write(batch + _digest(number, batch))
            stored.flush()
            yield vectors


@contextmanager
def _file_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{file} can't be written ({error.strerror or error}); make room, or see that the folder is yours, "
            "then run the command again"
        ) from error


def _digest(number: int, batch: bytes) -> bytes:
    """A hash of a batch and its place: a full disk or a power loss leaves a part of it, or zeros in its midst."""
    return hashlib.blake2b(batch, digest_size=_DIGEST, salt=number.to_bytes(8)).digest()


current_checkpoint: ContextVar[Checkpoint | None] = ContextVar("current_checkpoint", default=None)
"""Keeps the batches of calls of ``OnnxSession.run`` in this context; none: they are short."""
