"""Checkpoints of a training, written atomically, so that a run that is killed at any instant resumes unchanged."""

import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import torch
from filelock import FileLock, Timeout

from encoders.console import Console
from encoders.errors import DISK_FULL, BadInput, MissingPart, StoreError
from encoders.folder.whole_folder import make_folder, sync

_DIGEST = 32
_LEAST_SECONDS = 30.0
_SHARE = 0.05


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a training's folder and lock it. Raises MissingPart: it can't be made; StoreError: another process did."""
    try:
        make_folder(folder)
        lock = FileLock(folder / "lock", timeout=0).acquire()
    except Timeout as error:
        raise StoreError(f"another process trains in {folder}; wait for it, or choose another --output") from error
    except OSError as error:
        raise MissingPart(f"{folder} can't be made ({error.strerror}); choose another --output") from error
    with lock:
        yield


class SavingTimes:
    """When a checkpoint is due: every thirty seconds, or later, so that saving takes at most 5 % of the time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now; ``clock`` gives seconds."""
        self._clock = clock
        self._next = clock() + _LEAST_SECONDS

    @property
    def due(self) -> bool:
        """Whether a checkpoint is due."""
        return self._clock() >= self._next

    def save(self, action: Callable[[], None]) -> None:
        """Save by ``action``; the next checkpoint is due later the longer this takes."""
        start = self._clock()
        action()
        end = self._clock()
        self._next = end + max(_LEAST_SECONDS, (end - start) * (1 / _SHARE - 1))

    def after_step(self, step: int, action: Callable[[], None], console: Console, *, interrupted: bool) -> None:
        """Save by ``action`` if a checkpoint is due or Ctrl-C came. Raises KeyboardInterrupt: it came; all is saved."""
        if interrupted:
            action()
            console.warn(f"stopped after step {step:,}; the same command goes on from there")
            raise KeyboardInterrupt
        if self.due:
            self.save(action)


def save_checkpoint(file: Path, state: Mapping[str, Any]) -> None:
    """Write a state and the state of torch's random generators in place of the old file; make the file's folder.

    A state has tensors, numbers, strings, and lists and dictionaries of these. It is written as it is serialised,
    without a copy in memory, after the SHA-256 of the rest. Raises MissingPart: the disk is full or can't be written.
    """
    random = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        random["cuda"] = torch.cuda.get_rng_state()

    def write(out: IO[bytes]) -> None:
        out.write(bytes(_DIGEST))
        hashed = _Hashed(out)
        try:
            torch.save({"state": dict(state), "random": random}, cast("IO[bytes]", hashed))
        except RuntimeError as error:
            raise hashed.error or error from None  # torch names a place in its own code instead
        out.seek(0)
        out.write(hashed.digest())

    write_whole(file, write)


class _Hashed(io.RawIOBase):
    """A file to write to that hashes what is written, and keeps the error of a write."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._hash = out, hashlib.sha256()
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        try:
            return self._out.write(data)
        except OSError as error:
            self.error = error
            raise

    def digest(self) -> bytes:
        return self._hash.digest()


def write_whole(file: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` write a temporary file and rename it to ``file``: a crash leaves the old or the new content.

    Raises MissingPart: the disk is full or can't be written; the old content is unchanged.
    """
    temporary = file.with_name(f".{file.name}.new")
    try:
        make_folder(file.parent)
        with temporary.open("wb") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
        sync(file.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = "its disk is full" if error.errno in DISK_FULL else error.strerror
        raise MissingPart(
            f"{file} can't be written ({reason}); make room and give the same command: it goes on from what was saved "
            "before"
        ) from error


def load_checkpoint(file: Path, *, random: bool = True) -> dict[str, Any] | None:
    """The state last written, None if there is no file; ``random`` restores torch's generators, too.

    The file is read first for its hash, so that memory holds nothing but the state. Raises BadInput: it is damaged.
    """
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return None
    with opened:
        digest = opened.read(_DIGEST)
        if hashlib.file_digest(opened, "sha256").digest() != digest:
            raise BadInput(f"the checkpoint {file} is damaged; delete it to begin again")
        opened.seek(_DIGEST)
        stored = torch.load(opened, map_location="cpu", weights_only=True)
    state: dict[str, Any] = stored["state"]
    if random:
        torch.set_rng_state(stored["random"]["cpu"])
        if "cuda" in stored["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(stored["random"]["cuda"])
    return state
