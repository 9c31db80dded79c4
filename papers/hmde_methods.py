"""Encoding methods for the tables of the HMDE paper: the methods of all commands, and mLongformer, only in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from encoders.console import Console
from encoders.document import Encoder
from encoders.machine.placement import Device
from encoders.methods.method_registry import METHODS as EVERYWHERE
from encoders.methods.method_registry import default_method
from encoders.methods.titled_windows import TitledWindows
from encoders.methods.token_windows import Segments
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import find_model, open_named
from query.commands.options.option_types import PATH, Number

if TYPE_CHECKING:
    from papers.trainable import Trainable

LONGFORMER = "longformer"
METHODS = (*EVERYWHERE, LONGFORMER)


@dataclass(frozen=True)
class FineTuning:
    """Settings of a fine-tuning for classification; rate, batch, warm-up and patience are the paper's."""

    rate: float = 2e-5  # peak learning rate of AdamW, without weight decay
    epochs: int = 10  # maximum passes over the training documents; the paper's 50 are for GPUs
    batch: int = 32
    warmup: float = 0.125  # share of the steps until the peak; afterwards the rate falls linearly to 0
    patience: int = 7  # epochs without a smaller loss on the dev part until training stops
    seed: int = 0

    @classmethod
    def of(cls, epochs: int | None, rate: float | None) -> FineTuning:
        """The defaults but for what is given."""
        return cls(rate=rate or cls.rate, epochs=epochs or cls.epochs)

    def rate_at(self, step: int, steps: int) -> float:
        """Learning rate of a step; steps count from 0."""
        rising = (step + 1) / max(self.warmup * steps, 1)
        return self.rate * min(rising, (steps - step) / max((1 - self.warmup) * steps, 1), 1.0)


def open_method(
    reference: str, method: str | None, device: Device, console: Console, checkpoint: str | None = None
) -> Encoder:
    """Open an encoder by a method; for *longformer*, by the default's name or by a Hugging Face folder or name.

    Without a method, a folder that was trained for none is opened by *segments*, as the paper does.
    """
    if method != LONGFORMER:
        folder = find_model(reference, console)
        if method is None and default_method(folder) == TitledWindows.method:
            method = Segments.method
        return open_named(reference, method, console, device=device)
    require_torch()
    from papers.trainable import TorchEncoder, open_trainable  # noqa: PLC0415 - torch

    return TorchEncoder(open_trainable(reference, method, checkpoint, device, console), method)


def trainable_encoder(
    encoder: Encoder, reference: str, checkpoint: str | None, device: Device, console: Console
) -> Trainable:
    """The trainable form of an open encoder: that of a ``TorchEncoder``, else one loaded from the checkpoint."""
    require_torch()
    from papers.trainable import TorchEncoder, open_trainable  # noqa: PLC0415 - torch

    if isinstance(encoder, TorchEncoder):
        return encoder.trainable
    return open_trainable(reference, encoder.spec.method, checkpoint, device, console)


# Options of the tables that classify, for ``papers.runner.option``.
TAUGHT: dict[str, Any] = {
    "default": "en",
    "show_default": True,
    "metavar": "LANG",
    "help": "Language to learn from.",
}
EPOCHS: dict[str, Any] = {
    "type": click.IntRange(1),
    "help": f"With --fine-tuned: maximum passes over the training part.  [default: {FineTuning.epochs}]",
}
RATE: dict[str, Any] = {
    "type": Number(0, min_open=True),
    "help": f"With --fine-tuned: peak learning rate.  [default: {FineTuning.rate:g}]",
}
MLDOC: dict[str, Any] = {"type": PATH, "metavar": "DIR", "help": "Folder that MLDoc's own script filled."}
METHOD: dict[str, Any] = {
    "type": click.Choice(METHODS),
    "help": "How a document's vector is made; longformer needs PyTorch.",
}


def require_fine_tuned(values: Sequence[object], *, fine_tuned: bool) -> None:
    """Refuse values of --checkpoint, --epochs and --rate without --fine-tuned."""
    if any(values) and not fine_tuned:
        raise click.UsageError("--checkpoint, --epochs and --rate belong to --fine-tuned; give it too")
