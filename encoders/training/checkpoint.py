"""A training's state on disk, written whole or not at all, so that a run killed at any instant goes on as it was."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from encoders.errors import BadInput, MissingPart


def save_checkpoint(file: Path, state: Mapping[str, Any]) -> None:
    """Write a state, and the state of torch's random numbers with it, in place of what was there.

    Args:
        file: to write; its folder is made.
        state: tensors, numbers, strings, and lists and dictionaries of them.

    Raises:
        MissingPart: the disk is full or can't be written.
    """
    buffer = io.BytesIO()
    torch.save({"state": dict(state), "random": _random_state()}, buffer)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as out:
            out.write(buffer.getbuffer())
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        what = "its disk is full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else error.strerror
        raise MissingPart(
            f"the checkpoint {file} can't be written ({what}); make room and run the same command again: it goes on "
            "from the checkpoint before"
        ) from error


def load_checkpoint(file: Path, *, random: bool = True) -> dict[str, Any] | None:
    """The state last written, None where there is none.

    Args:
        file: that ``save_checkpoint`` wrote.
        random: put torch's random numbers back to where they were.

    Raises:
        BadInput: the file is no checkpoint.
    """
    if not file.exists():
        return None
    try:
        stored = torch.load(file, map_location="cpu", weights_only=True)
        state: dict[str, Any] = stored["state"]
        generators = stored["random"]
    except Exception as error:  # pickle, zipfile and torch raise classes of their own
        raise BadInput(f"{file} is no checkpoint that can be read; remove its folder to begin anew") from error
    if random:
        torch.set_rng_state(generators["cpu"])
        if "cuda" in generators and torch.cuda.is_available():
            torch.cuda.set_rng_state(generators["cuda"])
    return state


def _random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
