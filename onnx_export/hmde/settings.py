"""How HMDE is trained. No torch here: the command reads it for its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from encoders.hmde.upper import Form

Preset = Literal["small", "paper"]
LONGFORMER = "longformer"
"""Method of the paper's baseline that reads a document whole, by torch alone."""


@dataclass(frozen=True)
class Settings:
    """Every setting of a training; the defaults are the paper's (appendix A.1) but where it is silent.

    Attributes:
        frozen: the lower encoder keeps its weights; its vectors are then made once.
        adapters: rank of the matrices that learn in a trained lower's place; 0: its weights do.
        form: of the document's vector.
        layers: of the upper transformer.
        feed_forward: width inside its feed-forward part.
        sentences: it sees at once.
        tokens: a sentence may have.
        dropout: of the upper transformer.
        steps: of the optimiser.
        batch: triples whose documents are each other's negatives.
        accumulate: batches a step.
        rate: learning rate at its peak.
        warmup: steps until then; it falls to nothing in a line afterwards.
        decay: weight decay of AdamW.
        clip: length at which a step's gradient is cut; the paper says nothing of it.
        temperature: τ of the loss; the paper does not say its own.
        pairs: weight of the paper's loss, a document against its mate.
        hard: whether each triple's hard negative counts in it.
        titles: weight of a title, as a query, against the mate of its page; the paper has no such loss.
        excerpts: weight of the mean of a few sentences, as the lower encoder gives them, against their page's mate.
        excerpt: how many those are.
        bare: share of pages that are learnt from without their titles, so that a title is not found by its translation.
        centred: take the mean of each language out before cosines, as a calibration does.
        budget: padded tokens of sentences that are encoded at once.
        held_out: share of the concepts that is kept for validation.
        evaluate: steps between two validations.
        patience: validations without a better one until training stops; 0: never.
        seed: of everything random.
    """

    frozen: bool = False
    adapters: int = 0
    form: Form = "paper"
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


PAPER = Settings()
"""1.1 million triples once, in steps of 64 batches of two: 8,600 steps."""
SMALL = Settings(
    frozen=True,
    form="weighted",
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
"""A few thousand pages on a few cores: the lower encoder as it is, the upper one begins as a mean."""
PRESETS: Mapping[Preset, Settings] = {"small": SMALL, "paper": PAPER}
_LOWER_RATE = 2e-5
"""Of all weights of a lower encoder, where the preset's rate is that of new ones."""
_WARMUP = 8
"""A preset's warm-up takes at most one step of so many, as a fine-tuning's."""


def settings_of(preset: Preset, given: Mapping[str, Any]) -> Settings:
    """A preset with settings given in its place.

    The rate is a lower one where all of a lower encoder is to learn, the warm-up a shorter one where the steps are few.
    """
    settings = replace(PRESETS[preset], **given)
    if "warmup" not in given:
        settings = replace(settings, warmup=min(settings.warmup, max(settings.steps // _WARMUP, 1)))
    if PRESETS[preset].frozen and not (settings.frozen or settings.adapters) and "rate" not in given:
        settings = replace(settings, rate=_LOWER_RATE)
    return settings


@dataclass(frozen=True)
class FineTuning:
    """How a document encoder is trained for a classification; rate, batch, warm-up and patience are the paper's.

    Attributes:
        rate: learning rate at its peak, of AdamW without weight decay.
        epochs: over the training documents; the paper's 50 are for GPUs.
        batch: documents a step.
        warmup: share of the steps until the peak; it falls to nothing in a line afterwards.
        patience: epochs without a smaller loss on the dev part until training stops.
        seed: of everything random.
    """

    rate: float = 2e-5
    epochs: int = 10
    batch: int = 32
    warmup: float = 0.125
    patience: int = 7
    seed: int = 0

    def rate_at(self, step: int, steps: int) -> float:
        """Learning rate of a step, from 0."""
        up = (step + 1) / max(self.warmup * steps, 1)
        return self.rate * min(up, (steps - step) / max((1 - self.warmup) * steps, 1), 1.0)


@dataclass(frozen=True)
class CurvePoint:
    """What is known after some steps.

    Attributes:
        step: how many.
        loss: mean since the point before.
        rate: learning rate of the next step; 0 after the last.
        score: mean average precision on held-out concepts.
    """

    step: int
    loss: float
    rate: float
    score: float


@dataclass
class Curve:
    """How a training went.

    Attributes:
        points: one a validation; the first before the first step, with the loss of that.
        best: step whose weights are kept.
        stopped: the reason it ended before its last step; empty where it did not.
        validated: whether there were held-out concepts; if not, scores are 0 and the last step's weights are kept.
    """

    points: list[CurvePoint] = field(default_factory=list)
    best: int = 0
    stopped: str = ""
    validated: bool = True

    @property
    def best_score(self) -> float:
        """Of the weights that are kept."""
        return max((point.score for point in self.points), default=0.0)
