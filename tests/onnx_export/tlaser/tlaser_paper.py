"""The paper's loss, written down in numpy as its equations stand, one sentence after another."""

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
EPSILON = 1e-6


def norm(vector: Matrix, power: int) -> float:
    """|·|², read as the squared norm (power 2) or as the norm (power 1)."""
    return float(sum(value**2 for value in vector) ** (power / 2))


def v_norm(first: Matrix, second: Matrix, power: int) -> float:
    """The average over all sentences of the batch of what |·|² is."""
    return float(np.mean([norm(row, power) for row in (*first, *second)]))


def d_p(first: Matrix, second: Matrix, row: int, power: int = 2) -> float:
    """Eq. 7."""
    return norm(first[row] - second[row], power) / (v_norm(first, second, power) + EPSILON)


def d_n(first: Matrix, second: Matrix, row: int, other: int, power: int = 2) -> float:
    """Eq. 8."""
    return norm(first[row] - second[other], power) / (v_norm(first, second, power) + EPSILON)


def delta(first: Matrix, second: Matrix, row: int, other: int, margin: float, power: int = 2) -> float:
    """Eq. 9, a → b; b → a with the sides changed."""
    return max(0.0, margin - (d_n(first, second, row, other, power) - d_p(first, second, row, power)))


def margin_term(first: Matrix, second: Matrix, others: Rows, backward: Rows, margin: float, power: int = 2) -> float:
    """(1/N_s) Σ_j (δ^{a→b} + δ^{b→a}), the mean over pairs."""
    pairs = []
    for row in range(len(first)):
        forth = [delta(first, second, row, int(other), margin, power) for other in others[row]]
        back = [delta(second, first, row, int(other), margin, power) for other in backward[row]]
        pairs.append((sum(forth) + sum(back)) / len(forth))
    return float(np.mean(pairs))


def translation(logits: Matrix, wanted: Rows, smoothing: float) -> float:
    """Cross-entropy with smoothed labels, the mean over tokens."""
    losses = []
    for scores, word in zip(logits, wanted, strict=True):
        log_p = scores - np.log(np.exp(scores).sum())
        losses.append(-(1 - smoothing) * log_p[word] - smoothing * log_p.mean())
    return float(np.mean(losses))


def total(mt: float, paired: float, deltas: float, beta: float, lam: float) -> float:
    """Eq. 10."""
    return beta * paired + lam * deltas + 0.5 * mt
