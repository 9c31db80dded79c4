"""The trained weights of an HMDE folder as torch has them, so that what was exported can learn again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from encoders.errors import BadInput
from encoders.folder import ModelFolder
from encoders.hmde.upper import UpperFile
from onnx_export.hmde.model import Upper

WEIGHTS = "weights.safetensors"
"""Float32 tensors: ``upper.NAME``, and ``lower.NAME`` where the lower encoder learnt, too."""


def digest(upper: Upper) -> str:
    """Hash over names and bytes of the weights, 16 hex digits."""
    found = hashlib.sha256()
    for name, tensor in sorted(upper.state_dict().items()):
        found.update(f"{name} {tuple(tensor.shape)}".encode())
        found.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return found.hexdigest()[:16]


def save(folder: Path, upper: Upper, lower: torch.nn.Module | None) -> None:
    """Write the upper encoder's weights into a folder, and the lower one's if it learnt.

    Of a frozen lower encoder that had learnt before, what the folder has of it by a link is kept.

    Raises:
        OSError: the disk is full or can't be written.
    """
    from safetensors.torch import load as unpacked  # noqa: PLC0415
    from safetensors.torch import save as packed  # noqa: PLC0415

    file = folder / WEIGHTS
    learnt = _part(unpacked(file.read_bytes()), "lower") if file.is_file() else {}
    learnt = lower.state_dict() if lower is not None else learnt
    file.unlink(missing_ok=True)  # it may be a link to the base's own
    parts = {"upper": upper.state_dict(), "lower": learnt}
    tensors = {
        f"{part}.{name}": tensor.detach().contiguous()
        for part, state in parts.items()
        for name, tensor in state.items()
    }
    file.write_bytes(packed(tensors))


def load(folder: ModelFolder) -> tuple[Upper, dict[str, torch.Tensor]]:
    """The upper encoder of a folder, and the lower one's weights by name; none where it was frozen.

    Raises:
        BadInput: they are missing, damaged or not what the folder's graphs were made of.
    """
    from safetensors.torch import load as unpacked  # noqa: PLC0415

    about = UpperFile.read(folder)
    file = folder.path / WEIGHTS
    again = "train it again: dragoman train hmde SOURCE… -o FOLDER"
    if not file.is_file():
        raise BadInput(f"{folder.path} has no {WEIGHTS}, so it was made by an earlier version; {again}")
    upper = Upper(about.shape)
    try:
        tensors = unpacked(file.read_bytes())
        upper.load_state_dict(_part(tensors, "upper"))
    except Exception as error:  # safetensors and torch raise classes of their own
        raise BadInput(f"{file} can't be read ({str(error).splitlines()[0]}); {again}") from error
    if digest(upper) != about.weights:
        raise BadInput(f"{file} is damaged or of another training; {again}")
    return upper.eval(), _part(tensors, "lower")


def _part(tensors: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
