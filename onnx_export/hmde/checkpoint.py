"""A file that is written whole or not at all, and read back only if it is what was written."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

from encoders.errors import BadInput, MissingPart

_DIGEST = 32


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint beside the old one and give it its name, so that a crash leaves one of the two.

    Raises:
        MissingPart: the disk is full; the old one is still there.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    write(path, hashlib.sha256(data).digest() + data)


def write(path: Path, data: bytes) -> None:
    """Write a file atomically.

    Raises:
        MissingPart: the disk is full; what was there is there still.
    """
    fresh = path.with_name(f".{path.name}.new")
    try:
        with fresh.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise
        raise MissingPart(
            f"the disk of {path.parent} is full; make room and give the same command: it goes on where it stopped"
        ) from error


def load(path: Path) -> dict[str, Any] | None:
    """Read a checkpoint; nothing where there is none.

    Raises:
        BadInput: it is damaged.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        raise BadInput(f"the checkpoint {path} is damaged; delete it to begin again")
    state: dict[str, Any] = torch.load(io.BytesIO(data[_DIGEST:]), map_location="cpu", weights_only=True)
    return state
