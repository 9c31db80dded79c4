"""Settings of an HMDE training. This module imports no torch, because the command line reads it for its help."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from encoders.folder.model_config import Pooling
from encoders.hmde.triples import Drawing
from encoders.hmde.upper import Form, Segmentation, UpperShape

Preset = Literal["small", "paper"]


@dataclass(frozen=True)
class Settings:
    """All settings of a training; sizes and rates are the paper's (appendix A.1) unless they are changed."""

    frozen: bool = False  # the lower encoder keeps its weights; its vectors are then computed once
    adapters: int = 0  # rank of the matrices that learn instead of the lower encoder's weights; 0: the weights learn
    pooling: Pooling | None = None  # of a lower encoder that learns: ``cls`` as in the paper; None: as the model states
    drawing: Drawing = "turns"  # in which order pairs of pages come
    form: Form = "paper"
    segmentation: Segmentation = "sentences"  # sentences or windows of tokens (HMDE, table 4)
    whole: bool = True  # segments beyond ``sentences`` are read in further parts after training
    layers: int = 2
    feed_forward: int = 2048
    sentences: int = 32  # maximum segments that the upper transformer reads at once
    tokens: int = 128  # maximum tokens of a segment, special tokens and prefix included
    dropout: float = 0.1
    steps: int = 8_600
    batch: int = 2  # triples of a batch; its documents are each other's negatives
    accumulate: int = 64
    rate: float = 1e-5
    warmup: int = 1_000  # steps until the peak; afterwards the rate falls linearly to 0
    decay: float = 0.01
    clip: float = 1.0  # maximum norm of a step's gradient; the paper gives no value
    temperature: float = 0.05  # τ of the loss; the paper gives no value
    pairs: float = 1.0  # weight of the paper's loss, a document against its mate
    hard: bool = True  # whether each triple's hard negative counts in the paper's loss
    titles: float = 0.0  # weight of a title, as a query, against the mate of its page; not in the paper
    excerpts: float = 0.0  # weight of the mean of a few lower vectors against the mate of their page
    excerpt: int = 4  # number of these segments
    bare: float = 0.0  # share of pages read without titles, as these would match their translations; not of windows
    centred: bool = False  # subtract the mean of each language before cosines, as a calibration does
    budget: int = 4_096  # padded tokens of segments that are encoded at once
    held_out: float = 0.1
    evaluate: int = 100  # steps between two validations
    patience: int = 10  # validations without improvement until training stops; 0: never
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
    """Return a preset with some of its settings changed; a frozen encoder keeps its pooling.

    Unless changed, the rate is lower where all lower weights learn, and the warm-up shorter where there are few steps.
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

    points: list[CurvePoint] = field(default_factory=list)  # a point per validation; first before step 1, with its loss
    best: int = 0  # step whose weights are kept
    stopped: str = ""  # why training ended before its last step; empty if it did not
    validated: bool = True  # whether concepts were held out; if not, scores are 0 and the last weights stay

    @property
    def best_score(self) -> float:
        """Score of the weights that are kept."""
        return max((point.score for point in self.points), default=0.0)
