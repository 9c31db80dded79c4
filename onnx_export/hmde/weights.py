"""The trained weights of an HMDE folder in torch's form, so that an exported model can be trained again.

The file has float32 tensors: ``upper.NAME``, and ``lower.NAME`` if the lower encoder was trained.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import WEIGHTS, UpperFile
from encoders.wording import first_line
from onnx_export.hmde.upper_model import Upper


def digest(upper: Upper) -> str:
    """Hash of the names, shapes and bytes of the weights, 16 hex digits."""
    weights_hash = hashlib.sha256()
    for name, tensor in sorted(upper.state_dict().items()):
        weights_hash.update(f"{name} {tuple(tensor.shape)}".encode())
        weights_hash.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return weights_hash.hexdigest()[:16]


def save(folder: Path, upper: Upper, lower: torch.nn.Module | None) -> None:
    """Write the upper encoder's weights into a folder, and the lower encoder's if it was trained.

    If the lower encoder is frozen now and was trained earlier, its weights in the folder's linked file are kept.

    Raises:
        OSError: the disk is full or can't be written.
    """
    from safetensors.torch import load as unpacked  # noqa: PLC0415
    from safetensors.torch import save as packed  # noqa: PLC0415

    file = folder / WEIGHTS
    earlier = _part(unpacked(file.read_bytes()), "lower") if file.is_file() else {}
    file.unlink(missing_ok=True)  # the file may be a link to the base folder's file
    parts = {"upper": upper.state_dict(), "lower": earlier if lower is None else lower.state_dict()}
    tensors = {
        f"{part}.{name}": tensor.detach().contiguous()
        for part, state in parts.items()
        for name, tensor in state.items()
    }
    file.write_bytes(packed(tensors))


def load(folder: ModelFolder) -> tuple[Upper, dict[str, torch.Tensor]]:
    """Load the upper encoder of a folder, and the lower encoder's weights by name; none if it was frozen.

    Raises:
        BadInput: the weights are missing, damaged or not those of the folder's graphs.
    """
    from safetensors.torch import load as unpacked  # noqa: PLC0415

    about = UpperFile.read(folder)
    file = folder.path / WEIGHTS
    remedy = "train it again: dragoman train hmde SOURCE… -o FOLDER"
    if not file.is_file():
        raise BadInput(f"{folder.path} has no {WEIGHTS}, so it was made by an earlier version; {remedy}")
    upper = Upper(about.shape)
    try:
        tensors = unpacked(file.read_bytes())
        upper.load_state_dict(_part(tensors, "upper"))
    except Exception as error:  # safetensors and torch raise their own exception classes
        raise BadInput(f"{file} can't be read ({first_line(error)}); {remedy}") from error
    if digest(upper) != about.weights:
        raise BadInput(f"{file} is damaged or of another training; {remedy}")
    return upper.eval(), _part(tensors, "lower")


def _part(tensors: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
