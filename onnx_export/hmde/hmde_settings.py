"""Settings of an HMDE training. This module imports no torch, because the command line reads it for its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from encoders.folder.model_config import Pooling
from encoders.hmde.triples import Drawing
from encoders.hmde.upper import Form, Segmentation, UpperShape

Preset = Literal["small", "paper"]
"""Method of the paper's baseline, which reads a whole document at once; it runs in torch only."""


@dataclass(frozen=True)
class Settings:
    """All settings of a training; sizes and rates are the paper's (appendix A.1) unless they are changed.

    Attributes:
        frozen: the lower encoder keeps its weights; its vectors are then computed once.
        adapters: rank of the low-rank matrices that learn instead of the lower encoder's weights; 0: the weights learn.
        pooling: how a lower encoder that learns makes a vector of a text: ``cls``: the first token's state, as in the
            paper; None: as the model states.
        drawing: in which order pairs of pages come.
        segmentation: whether a document is read as sentences or as windows of tokens (HMDE, table 4).
        whole: a document with more segments than ``sentences`` is read in several parts once it is trained.
        sentences: maximum segments that the upper transformer reads at once.
        tokens: maximum tokens of a segment, special tokens and prefix included.
        batch: triples of a batch; documents of a batch are each other's negatives.
        warmup: steps until the peak; afterwards the rate falls linearly to 0.
        clip: maximum norm of a step's gradient; the paper gives no value.
        temperature: τ of the loss; the paper gives no value.
        pairs: weight of the paper's loss, a document against its mate.
        hard: whether each triple's hard negative counts in the paper's loss.
        titles: weight of a title, as a query, against the mate of its page; the paper has no such loss.
        excerpts: weight of the mean of a few segments' vectors of the lower encoder against the mate of their page.
        excerpt: number of these segments.
        bare: share of pages whose sentences are read without the titles, so that a title is not matched with its
            translation; windows keep their titles.
        centred: subtract the mean of each language before cosines, as a calibration does.
        budget: padded tokens of segments that are encoded at once.
        evaluate: steps between two validations.
        patience: validations without improvement until training stops; 0: never.
    """

    frozen: bool = False
    adapters: int = 0
    pooling: Pooling | None = None
    drawing: Drawing = "turns"
    form: Form = "paper"
    segmentation: Segmentation = "sentences"
    whole: bool = True
    layers: int = 2
    feed_forward: int = 2048
    sentences: int = 32
    tokens: int = 128
    dropout: float = 0.1
    steps: int = 8_600
    batch: int = 2
    accumulate: int = 64
    rate: float = 1e-5
    warmup: int = 1_000
    decay: float = 0.01
    clip: float = 1.0
    temperature: float = 0.05
    pairs: float = 1.0
    hard: bool = True
    titles: float = 0.0
    excerpts: float = 0.0
    excerpt: int = 4
    bare: float = 0.0
    centred: bool = False
    budget: int = 4_096
    held_out: float = 0.1
    evaluate: int = 100
    patience: int = 10
    seed: int = 0

    def shape(self, dim: int) -> UpperShape:
        """The upper transformer over vectors of width ``dim``: 64 dimensions a head, as in BERT, or a single head."""
        heads = dim // 64 if dim % 64 == 0 else 1
        return UpperShape(
            dim,
            self.layers,
            heads,
            self.feed_forward,
            self.sentences,
            self.tokens,
            self.form,
            self.segmentation,
            self.whole,
        )


PAPER = Settings(pooling="cls", drawing="shuffled", whole=False, held_out=0.0, patience=0)
"""As published: one pass over 1.1 million triples in steps of 64 batches of two, 8,600 steps; the last step is kept."""
SMALL = Settings(
    frozen=True,
    form="weighted",
    segmentation="windows",
    feed_forward=512,
    steps=150,
    batch=64,
    accumulate=1,
    rate=3e-4,
    warmup=10,
    pairs=0.0,
    titles=1.0,
    excerpts=1.0,
    bare=1.0,
    centred=True,
    evaluate=25,
    patience=4,
)
"""For a few thousand pages on a few cores: the lower encoder is frozen, the upper one starts as method *windows*."""
PRESETS: Mapping[Preset, Settings] = {"small": SMALL, "paper": PAPER}
_LOWER_RATE = 2e-5
"""Learning rate where all weights of a lower encoder learn; a preset's rate is for new weights."""
_WARMUP = 8
"""A preset's warm-up takes at most one eighth of the steps, as in a fine-tuning."""


def settings_of(preset: Preset, changes: Mapping[str, Any]) -> Settings:
    """Return a preset with some of its settings changed.

    The learning rate, unless changed, is lower where all weights of a lower encoder learn. The warm-up, unless changed,
    is shorter where there are few steps. A frozen encoder keeps its pooling.
    """
    settings = replace(PRESETS[preset], **changes)
    if settings.frozen:
        settings = replace(settings, pooling=None)
    if "warmup" not in changes:
        settings = replace(settings, warmup=min(settings.warmup, max(settings.steps // _WARMUP, 1)))
    if PRESETS[preset].frozen and not (settings.frozen or settings.adapters) and "rate" not in changes:
        settings = replace(settings, rate=_LOWER_RATE)
    return settings


@dataclass(frozen=True)
class CurvePoint:
    """Measurements after a number of steps."""

    step: int
    loss: float  # mean loss since the previous point
    rate: float  # learning rate of the next step; 0 after the last step
    score: float  # mean average precision on held-out concepts


@dataclass
class Curve:
    """The course of a training."""

    points: list[CurvePoint] = field(default_factory=list)  # a point per validation; the first is at step 0, with loss
    best: int = 0  # step whose weights are kept
    stopped: str = ""  # why training ended before its last step; empty if it did not
    validated: bool = True  # whether concepts were held out; if not, scores are 0 and the last weights stay

    @property
    def best_score(self) -> float:
        """Score of the weights that are kept."""
        return max((point.score for point in self.points), default=0.0)
