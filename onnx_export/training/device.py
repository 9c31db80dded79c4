"""Where to train, and in which precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from encoders.errors import MissingPart
from encoders.session import Device


def training_device(device: Device) -> torch.device:
    """The device to train on: ``auto`` takes CUDA where there is one.

    Raises:
        MissingPart: CUDA was asked for and torch has none.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise MissingPart("CUDA was asked for and this PyTorch has none; install the driver, or take --device cpu")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 for products on CUDA, weights and sums in float32; float32 throughout on the CPU."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()
