"""Checkpoints of a training, written atomically, so that a run that is killed at any instant resumes unchanged."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from encoders.errors import DISK_FULL, BadInput, MissingPart
from encoders.folder import make_folder, sync

_DIGEST = 32


def save_checkpoint(file: Path, state: Mapping[str, Any]) -> None:
    """Write a state and the state of torch's random generators in place of the old file; make the file's folder.

    A state consists of tensors, numbers, strings, and lists and dictionaries of these.

    Raises:
        MissingPart: the disk is full or can't be written.
    """
    buffer = io.BytesIO()
    torch.save({"state": dict(state), "random": _random_state()}, buffer)
    data = buffer.getvalue()
    write_whole(file, hashlib.sha256(data).digest() + data)


def write_whole(file: Path, data: bytes) -> None:
    """Write a temporary file and rename it to ``file``, so that a crash leaves the old or the new content.

    The next call overwrites the temporary file of a crash.

    Raises:
        MissingPart: the disk is full or can't be written; the old content is unchanged.
    """
    temporary = file.with_name(f".{file.name}.new")
    try:
        make_folder(file.parent)
        with temporary.open("wb") as out:
            out.write(data)
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
    """Return the state last written, None if there is no file; ``random`` restores torch's random generators too.

    Raises:
        BadInput: the file is damaged.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        raise BadInput(f"the checkpoint {file} is damaged; delete it to begin again")
    stored = torch.load(io.BytesIO(data[_DIGEST:]), map_location="cpu", weights_only=True)
    state: dict[str, Any] = stored["state"]
    if random:
        torch.set_rng_state(stored["random"]["cpu"])
        if "cuda" in stored["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(stored["random"]["cuda"])
    return state


def _random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
