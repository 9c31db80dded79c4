"""The device, the precision and the random generators of a training."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
import transformers
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from encoders.console import Console
from encoders.machine.placement import Device, NoCuda, place
from encoders.phrases import install_command

_PRIME = 2**64 - 59
"""The largest prime below 2⁶⁴; modulo this prime, different seeds that were shifted past 64 bits stay different."""
_FUSED = "sdpa_always_masked"
"""Torch's fused attention with a mask in every batch. Transformers' own leaves it out where there is no padding, and to
find that out waits for the card."""
transformers.AttentionInterface.register(_FUSED, sdpa_attention_forward)
transformers.AttentionMaskInterface.register(
    _FUSED, lambda **arguments: sdpa_mask(**{**arguments, "allow_is_bidirectional_skip": False})
)


def seed_torch(number: int) -> None:
    """Seed torch's generators with a number of at least 0, which may exceed torch's 64 bits."""
    torch.manual_seed(number % _PRIME)


def training_device(device: Device, console: Console) -> torch.device:
    """Return the device to train on: where graphs run, too; warn where ``auto`` leaves a card unused.

    Raises MissingPart: a card was requested, and there is none that both ONNX Runtime and PyTorch can use.
    """
    placement = place(device)  # before PyTorch counts cards, for it fixes their order
    remark = placement.remark
    if placement.gpu and torch.cuda.is_available():
        torch.cuda.set_device(placement.gpu.number)  # random generators and checkpoints are the current card's
        return torch.device("cuda", placement.gpu.number)
    if placement.gpu:
        reason = f"this PyTorch can't use the {placement.gpu.name}; install PyTorch for CUDA"
        if device != "auto":
            raise NoCuda(reason)
        remark = f"works on the CPU: {reason}"
    elif device == "auto" and not remark and torch.cuda.is_available():
        remark = f"works on the CPU: this ONNX Runtime has no CUDA; install it: {install_command('gpu')}"
    if remark:
        console.warn_once(remark)
    return torch.device("cpu")


def to_device(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """A tensor of main memory on the device; the host doesn't wait until a card has computed what it has been told."""
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def mixed_precision(device: torch.device | str) -> AbstractContextManager[object]:
    """On CUDA compute products in bfloat16, weights and sums in float32; on the CPU compute in float32."""
    return torch.autocast("cuda", torch.bfloat16) if torch.device(device).type == "cuda" else nullcontext()


def set_attention(module: torch.nn.Module, implementation: Literal["eager", "fused"]) -> None:
    """Choose a module's attention: "fused" keeps no (tokens, tokens) matrix on a GPU, "eager" is what is exported."""
    for part in module.modules():
        if isinstance(part, transformers.PreTrainedModel) and part._supports_sdpa:  # noqa: SLF001 - no public name
            part.set_attn_implementation(_FUSED if implementation == "fused" else implementation)
