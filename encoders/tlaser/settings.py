"""Sizes of a model, and settings of its training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Variant = Literal["t", "ct", "laser"]
Preset = Literal["small", "paper"]

NAMES: dict[Variant, str] = {"t": "T-LASER", "ct": "cT-LASER", "laser": "LASER"}


@dataclass(frozen=True)
class Sizes:
    """The shape of a model.

    Attributes:
        dim: width of the embedding P and of the encoder; LASER's LSTM has half of it in each direction.
        heads: attention heads; LASER has none.
        ffn: width inside a feed-forward network; LASER has none.
        decoder: width of the decoder's only layer.
        language: width of the target language's embedding.
        vocabulary: maximum number of tokens of the joint BPE.
        shared: whether encoder, decoder and output share one table of tokens; otherwise there are three tables.
        max_tokens: longest sentence, special tokens included.
    """

    dim: int
    layers: int
    heads: int
    ffn: int
    decoder: int
    language: int
    vocabulary: int
    shared: bool
    max_tokens: int


@dataclass(frozen=True)
class TlaserTraining:
    """How a model is trained.

    Attributes:
        batch_tokens: padded tokens of a batch, on the longer side.
        warmup: steps until the highest learning rate; after them the rate falls with the square root of the step.
        interval: steps between two rows of the curve, each with a validation and a checkpoint.
    """

    steps: int
    batch_tokens: int
    accumulate: int
    rate: float
    warmup: int
    dropout: float
    smoothing: float = 0.1
    decay: float = 1e-4
    clip: float = 1.0
    interval: int = 200
    seed: int = 0


@dataclass(frozen=True)
class Constraint:
    """The distance constraint of cT-LASER (eqs. 7–10), with the paper's constants.

    Attributes:
        beta: weight of the distance of pairs (β).
        lam: weight of the margin to other sentences (λ = β/2).
        margin: α.
        negatives: other sentences that each pair is compared with (N_s).
    """

    beta: float = 0.25
    lam: float = 0.125
    margin: float = 0.5
    negatives: int = 20


NO_CONSTRAINT = Constraint(beta=0.0, lam=0.0)


@dataclass(frozen=True)
class TlaserPlan:
    """All settings that decide what a model learns from a corpus."""

    variant: Variant
    sizes: Sizes
    training: TlaserTraining

    @property
    def constraint(self) -> Constraint:
        """The paper's distance constraint for cT-LASER, none for T-LASER and LASER."""
        return Constraint() if self.variant == "ct" else NO_CONSTRAINT


def preset(name: Preset, variant: Variant) -> TlaserPlan:
    """The paper's sizes and training (Table 1 and footnote 6), or small sizes that train on two cores in minutes."""
    laser = variant == "laser"
    if name == "paper":
        sizes = Sizes(1024, 6, 16, 4096, 2048 if laser else 1024, 32, 50_000, shared=False, max_tokens=1024)
        return TlaserPlan(variant, sizes, TlaserTraining(100_000, 16_000, 8, 5e-4, 4000, 0.3, interval=1000))
    sizes = Sizes(96, 2, 4, 192, 192 if laser else 96, 32, 2_000, shared=True, max_tokens=128)
    return TlaserPlan(variant, sizes, TlaserTraining(6_000, 512, 1, 3e-3, 200, 0.0))
