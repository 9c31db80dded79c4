"""Trained weights of an HMDE folder: float32 tensors ``upper.NAME``, and ``lower.NAME`` if the lower encoder learnt.

The file's metadata describe the lower encoder's module under ``lower``.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import WEIGHTS, UpperFile
from encoders.phrases import first_line
from onnx_export.hmde.upper_model import Upper
from onnx_export.huggingface.sentence_module import described

_AGAIN = "train it again: dragoman train hmde SOURCE… -o FOLDER"


def digest(upper: Upper) -> str:
    """Hash of the names, shapes and bytes of the weights, 16 hex digits."""
    weights_hash = hashlib.sha256()
    for name, tensor in sorted(upper.state_dict().items()):
        weights_hash.update(f"{name} {tuple(tensor.shape)}".encode())
        weights_hash.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return weights_hash.hexdigest()[:16]


def save(folder: Path, upper: Upper, lower: torch.nn.Module | None) -> None:
    """Write the upper encoder's weights into a folder, and the lower encoder's if it was trained, now or earlier.

    Raises OSError: the disk is full or can't be written.
    """
    from safetensors.torch import save as packed  # noqa: PLC0415

    file = folder / WEIGHTS
    tensors, metadata = read_tensors(file) if file.is_file() else ({}, {})
    if lower is not None:
        tensors = {f"lower.{name}": tensor for name, tensor in lower.state_dict().items()}
        metadata = {"lower": described(lower)}
    tensors = {name: tensor for name, tensor in tensors.items() if name.startswith("lower.")}
    tensors |= {f"upper.{name}": tensor for name, tensor in upper.state_dict().items()}
    file.unlink(missing_ok=True)  # the file may be a link to the base folder's file
    file.write_bytes(packed({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, metadata))


def read_tensors(file: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """All tensors of a file and its metadata. Raises BadInput: the file is missing or damaged."""
    from safetensors import safe_open  # noqa: PLC0415

    if not file.is_file():
        raise BadInput(f"{file.parent} has no {file.name}, so it was made by an earlier version; {_AGAIN}")
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata() or {}  # noqa: SIM118
    except Exception as error:  # safetensors raises its own exception classes
        raise BadInput(f"{file} can't be read ({first_line(error)}); {_AGAIN}") from error


def load_upper(folder: ModelFolder) -> tuple[Upper, dict[str, torch.Tensor]]:
    """The upper encoder of a folder, and the lower encoder's weights by name; none if it was frozen.

    Raises BadInput: the weights are missing, damaged or of another training.
    """
    about, file = UpperFile.read(folder), folder.path / WEIGHTS
    upper, (tensors, _) = Upper(about.shape), read_tensors(file)
    try:
        upper.load_state_dict(weights_of(tensors, "upper"))
    except RuntimeError as error:
        raise BadInput(f"{file} can't be read ({first_line(error)}); {_AGAIN}") from error
    if digest(upper) != about.weights:
        raise BadInput(f"{file} is damaged or of another training; {_AGAIN}")
    return upper.eval(), weights_of(tensors, "lower")


def weights_of(tensors: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    """The weights of ``upper`` or ``lower`` among a file's tensors, by the names that they have in the encoder."""
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
