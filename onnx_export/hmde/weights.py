"""Trained weights of an HMDE folder: float32 tensors ``upper.NAME``, and ``lower.NAME`` if the lower encoder learnt."""

import hashlib
from pathlib import Path

import numpy as np
import torch

from encoders.hmde.upper import WEIGHTS
from onnx_export.hmde.upper_model import Upper


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
    from safetensors.torch import load as unpacked  # noqa: PLC0415
    from safetensors.torch import save as packed  # noqa: PLC0415

    file = folder / WEIGHTS
    earlier = weights_of(unpacked(file.read_bytes()), "lower") if file.is_file() else {}
    file.unlink(missing_ok=True)  # the file may be a link to the base folder's file
    parts = {"upper": upper.state_dict(), "lower": earlier if lower is None else lower.state_dict()}
    tensors = {
        f"{part}.{name}": tensor.detach().contiguous()
        for part, state in parts.items()
        for name, tensor in state.items()
    }
    file.write_bytes(packed(tensors))


def weights_of(tensors: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    """The weights of ``upper`` or ``lower`` among a file's tensors, by the names that they have in the encoder."""
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
