"""The cache folder: models, and which files had their hash."""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import platformdirs

from encoders.document import short_hash


def cache_folder() -> Path:
    """Folder of models, and of what saves time: ``DRAGOMAN_CACHE``, or the platform's cache folder."""
    return Path(os.environ.get("DRAGOMAN_CACHE") or platformdirs.user_cache_dir("dragoman", appauthor=False))


def model_cache() -> Path:
    """Folder of exported and downloaded models, in the cache."""
    return cache_folder() / "models"


def file_hash(*files: Path) -> str:
    """First 16 hex digits of the SHA-256 over the files' contents."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as handle:
            while block := handle.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


_TICK = 2.0
"""Seconds within which a file may change twice without another time of change, on the coarsest file system."""


def has_hash(files: Sequence[Path], digest: str, *, again: bool) -> bool:
    """Whether files have a SHA-256. A yes is cached until size, time or path changes; ``again`` reads the files."""
    state = _state(files)
    names = [str(file) for file in files]
    record = cache_folder() / "checked" / short_hash(digest, json.dumps(names), json.dumps(state))
    if not again and os.access(record, os.F_OK):  # false where the cache is closed to this user
        return True
    before = time.time_ns()
    if file_hash(*files) != digest:
        return False
    settled = all(before - max(changed, modified) > _TICK * 1e9 for _, changed, modified, *_ in state)
    if settled and _state(files) == state:
        with suppress(OSError):  # the cache can't be written: the next process reads the files, too
            record.parent.mkdir(parents=True, exist_ok=True)
            record.touch()
    return True


def _state(files: Sequence[Path]) -> list[tuple[int, ...]]:
    """Size, times and place on the disk of each file."""
    status = [file.stat() for file in files]
    return [(now.st_size, now.st_ctime_ns, now.st_mtime_ns, now.st_ino, now.st_dev) for now in status]
