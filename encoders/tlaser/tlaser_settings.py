"""Sizes of a model, and settings of its training."""

from dataclasses import dataclass
from typing import Literal

Variant = Literal["t", "ct", "laser", "claser"]
Preset = Literal["small", "paper"]

NAMES: dict[Variant, str] = {"t": "T-LASER", "ct": "cT-LASER", "laser": "LASER", "claser": "cLASER"}
RECURRENT: frozenset[Variant] = frozenset({"laser", "claser"})
"""Variants whose encoder is a BiLSTM; the others have a transformer."""
CONSTRAINED: frozenset[Variant] = frozenset({"ct", "claser"})
"""Variants that are trained with the distance constraint."""


@dataclass(frozen=True)
class Sizes:
    """The shape of a model."""

    dim: int  # width of the embedding P and of the encoder; LASER's LSTM has half of it in each direction
    token_width: int  # width of a token's vector in the encoder, and in LASER's decoder. Of T-LASER it must be ``dim``.
    layers: int
    heads: int  # attention heads; LASER has none
    ffn: int  # width inside a feed-forward network; LASER has none
    decoder: int  # width of the decoder's only layer
    language: int  # width of the target language's embedding, which is appended to the token's (eq. 3).
    vocabulary: int  # maximum number of tokens of the joint BPE
    # whether encoder, decoder and output share one table of tokens. T-LASER's decoder then projects token and language
    # back to its width; with three tables both fill the width.
    shared: bool
    max_tokens: int  # longest sentence, special tokens included


@dataclass(frozen=True)
class TlaserTraining:
    """How a model is trained."""

    steps: int
    batch_tokens: int  # padded tokens of a batch, on the longer side
    accumulate: int
    rate: float
    warmup: int  # steps to the highest rate, which falls with √step after them; 0: the rate is constant
    dropout: float
    smoothing: float = 0.1
    decay: float = 1e-4
    clip: float = 1.0
    interval: int = 200  # steps between two rows of the curve, each with a validation
    seed: int = 0


@dataclass(frozen=True)
class Constraint:
    """The distance constraint of cT-LASER and cLASER (eqs. 7–10), with the paper's constants."""

    beta: float = 0.25  # weight of the distance of pairs (β)
    lam: float = 0.125  # weight of the margin to other sentences (λ = β/2)
    margin: float = 0.5  # α
    negatives: int = 20  # other sentences that each pair is compared with (N_s)


NO_CONSTRAINT = Constraint(beta=0.0, lam=0.0)


@dataclass(frozen=True)
class TlaserPlan:
    """All settings that decide what a model learns from a corpus."""

    variant: Variant
    sizes: Sizes
    training: TlaserTraining
    constraint: Constraint = NO_CONSTRAINT


def preset(name: Preset, variant: Variant) -> TlaserPlan:
    """The paper's sizes and training, or small sizes that train on two cores in minutes.

    T-LASER's are those of Table 1 and footnote 6, LASER's those of Artetxe and Schwenk (2019): Adam with a constant
    rate of 1e-3, a dropout of 0.1, token vectors of 320.
    """
    laser = variant in RECURRENT
    constraint = Constraint() if variant in CONSTRAINED else NO_CONSTRAINT
    if name == "small":
        sizes = Sizes(96, 96, 2, 4, 192, 192 if laser else 96, 32, 2_000, shared=True, max_tokens=128)
        return TlaserPlan(variant, sizes, TlaserTraining(6_000, 512, 1, 3e-3, 200, 0.0), constraint)
    if laser:
        sizes = Sizes(1024, 320, 6, 16, 4096, 2048, 32, 50_000, shared=False, max_tokens=8192)
        training = TlaserTraining(100_000, 16_000, 8, 1e-3, 0, 0.1, smoothing=0.0, decay=0.0, interval=1000)
    else:
        sizes = Sizes(1024, 1024, 6, 16, 4096, 1024, 32, 50_000, shared=False, max_tokens=2048)
        training = TlaserTraining(100_000, 16_000, 8, 5e-4, 4000, 0.3, interval=1000)
    return TlaserPlan(variant, sizes, training, constraint)
