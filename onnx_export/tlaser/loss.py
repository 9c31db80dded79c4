"""The loss of the paper: translation, and the distance constraint of cT-LASER (eqs. 7–10)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from encoders.tlaser.settings import Constraint

EPSILON = 1e-6


class Distances(NamedTuple):
    """The distance terms of a batch.

    Attributes:
        paired: mean of d_p over pairs.
        delta: mean over pairs of (1/N_s) Σ_j (δ^{a→b} + δ^{b→a}).
    """

    paired: Tensor
    delta: Tensor


def translation_loss(logits: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy a token with smoothed labels: (1 − ε)·(−log p(word)) + ε·mean over all words of −log p.

    Args:
        logits: (tokens, vocabulary).
        wanted: (tokens,) ids.
        smoothing: ε.
    """
    return functional.cross_entropy(logits.float(), wanted, label_smoothing=smoothing)


def distances(first: Tensor, second: Tensor, others: Tensor, backward: Tensor, margin: float) -> Distances:
    """Eqs. 7–9. |·|² is the squared Frobenius norm, and v_norm the mean of it over all sentences of the batch.

    Args:
        first: (pairs, dim) P of language a.
        second: (pairs, dim) P of language b, row by row their translations.
        others: (pairs, N_s) for each sentence of a, rows of b it is set against, never its own.
        backward: (pairs, N_s) the same for each sentence of b.
        margin: α.
    """
    scale = (first.square().sum() + second.square().sum()) / (2 * len(first)) + EPSILON
    paired = (first - second).square().sum(dim=1) / scale
    if others.shape[1] == 0:
        return Distances(paired.mean(), paired.new_zeros(()))
    squares = first.square().sum(dim=1)[:, None] + second.square().sum(dim=1)[None, :]
    between = (squares - 2 * first @ second.T) / scale
    forth = (margin - (between.gather(1, others) - paired[:, None])).clamp(min=0)
    back = (margin - (between.T.gather(1, backward) - paired[:, None])).clamp(min=0)
    return Distances(paired.mean(), (forth + back).mean(dim=1).mean())


def total_loss(translation: Tensor, terms: Distances | None, constraint: Constraint) -> Tensor:
    """Eq. 10: β·d_p + λ/N_s·Σ(δ + δ) + 0.5·translation; the last alone where there is no constraint."""
    if terms is None:
        return 0.5 * translation
    return constraint.beta * terms.paired + constraint.lam * terms.delta + 0.5 * translation


def draw_negatives(pairs: int, count: int) -> Tensor:
    """(pairs, count) rows drawn by torch's random numbers on the CPU, none its own; no columns for a single pair."""
    if pairs < 2:
        return torch.zeros((pairs, 0), dtype=torch.int64)
    drawn = torch.randint(pairs - 1, (pairs, count))
    return drawn + (drawn >= torch.arange(pairs)[:, None]).long()
