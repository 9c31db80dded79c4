"""The device, the precision and the random generators of a training."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
import transformers

from encoders.devices import Device
from encoders.errors import MissingPart

_PRIME = 2**64 - 59
"""The largest prime below 2⁶⁴; modulo this prime, different seeds that were shifted past 64 bits stay different."""


def seed_torch(number: int) -> None:
    """Seed torch's generators with a number of at least 0, which may exceed torch's 64 bits."""
    torch.manual_seed(number % _PRIME)


def training_device(device: Device) -> torch.device:
    """Return the device to train on; ``auto`` is CUDA if it is available.

    Raises:
        MissingPart: CUDA was requested and torch has none.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise MissingPart("CUDA was asked for and this PyTorch has none; install the driver, or take --device cpu")
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and chosen.index is not None:
        if chosen.index >= torch.cuda.device_count():
            raise MissingPart(f"there is no NVIDIA card {chosen.index}: PyTorch sees {torch.cuda.device_count()}")
        torch.cuda.set_device(chosen)  # random generators and checkpoints are the current card's
    return chosen


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """On CUDA compute products in bfloat16, weights and sums in float32; on the CPU compute in float32."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()


def set_attention(module: torch.nn.Module, implementation: Literal["eager", "sdpa"]) -> None:
    """Choose how a module's transformers compute attention, where they leave a choice.

    "sdpa" keeps no (tokens, tokens) matrix on a GPU; "eager" is what is exported (``export_module``).
    """
    for part in module.modules():
        if isinstance(part, transformers.PreTrainedModel) and part._supports_sdpa:  # noqa: SLF001 - no public name
            part.set_attn_implementation(implementation)
