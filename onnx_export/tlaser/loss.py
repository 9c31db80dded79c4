"""The loss of the paper: translation, and the distance constraint of cT-LASER and cLASER (eqs. 7–10)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from encoders.tlaser.tlaser_settings import Constraint

EPSILON = 1e-6


class Distances(NamedTuple):
    """The distance terms of a batch."""

    paired: Tensor  # mean of d_p over the pairs
    delta: Tensor  # mean over the pairs of (1/N_s) Σ_j (δ^{a→b} + δ^{b→a})


def translation_loss(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Mean cross-entropy per token with smoothed labels: (1 − ε)·(−log p(word)) + ε·mean over all words of −log p.

    ``logits`` are (tokens, vocabulary), ``labels`` (tokens,) ids of the correct words; ``smoothing`` is ε.
    """
    return functional.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def distances(
    first: Tensor, second: Tensor, forward_negatives: Tensor, backward_negatives: Tensor, margin: float
) -> Distances:
    """Distance terms of eqs. 7–9.

    |·|² is the squared Frobenius norm; v_norm is its mean over the batch's sentences. ``first`` and ``second`` are
    (pairs, dim) P of translations; the negatives are (pairs, N_s) rows of the other language, never a translation.
    """
    squares = first.square().sum(dim=1), second.square().sum(dim=1)
    scale = torch.cat(squares).mean() + EPSILON
    paired = (first - second).square().sum(dim=1) / scale
    if forward_negatives.shape[1] == 0:
        return Distances(paired.mean(), paired.new_zeros(()))
    cross_distances = (squares[0][:, None] + squares[1][None, :] - 2 * first @ second.T) / scale
    forward_delta = (margin - (cross_distances.gather(1, forward_negatives) - paired[:, None])).clamp(min=0)
    backward_delta = (margin - (cross_distances.T.gather(1, backward_negatives) - paired[:, None])).clamp(min=0)
    return Distances(paired.mean(), (forward_delta + backward_delta).mean(dim=1).mean())


def total_loss(
    translation: Tensor, terms: Distances | None, constraint: Constraint, sentences_per_token: float
) -> Tensor:
    """Eq. 10 per target token: β·d_p + λ/N_s·Σ(δ + δ) + 0.5·translation; without distance terms 0.5·translation.

    A sentence's loss is summed over its tokens; ``sentences_per_token`` scales its distance terms, which count once.
    """
    if terms is None:
        return 0.5 * translation
    return sentences_per_token * (constraint.beta * terms.paired + constraint.lam * terms.delta) + 0.5 * translation


def draw_negatives(pairs: int, count: int) -> Tensor:
    """Draw (pairs, count) rows with torch's CPU generator, never a pair's own row; a single pair gives no columns."""
    if pairs < 2:
        return torch.zeros((pairs, 0), dtype=torch.int64)
    drawn = torch.randint(pairs - 1, (pairs, count))
    return drawn + (drawn >= torch.arange(pairs)[:, None]).long()
