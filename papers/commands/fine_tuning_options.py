"""Options of an encoder's fine-tuning for classification."""

from __future__ import annotations

import click

from papers.hmde_methods import FineTuning
from query.commands.options.common_options import gathered
from query.commands.options.option_types import Decorator, Number


def fine_tuning_options() -> Decorator:
    """``--epochs`` and ``--rate``; the command gets ``tuning``, which is None if neither is given."""
    return gathered(
        "tuning",
        _tuning,
        click.option(
            "--epochs",
            type=click.IntRange(1),
            help=f"With --fine-tuned: maximum passes over the training part.  [default: {FineTuning.epochs}]",
        ),
        click.option(
            "--rate",
            type=Number(0, min_open=True),
            help=f"With --fine-tuned: peak learning rate.  [default: {FineTuning.rate:g}]",
        ),
    )


def _tuning(epochs: int | None, rate: float | None) -> FineTuning | None:
    if epochs is None and rate is None:
        return None
    return FineTuning(rate=rate or FineTuning.rate, epochs=epochs or FineTuning.epochs)
