"""The loss against the paper's equations, term by term, and its gradient."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.tlaser.tlaser_settings import Constraint
from onnx_export.tlaser.loss import distances, draw_negatives, total_loss, translation_loss
from tests.onnx_export.tlaser import tlaser_paper

pytestmark = pytest.mark.torch


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), pairs=st.integers(2, 9), dim=st.integers(1, 8), near=st.floats(0.0, 2.0))
def test_every_term_is_the_papers(seed: int, pairs: int, dim: int, near: float) -> None:
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(pairs, dim))
    second = first + near * rng.normal(size=(pairs, dim))
    logits, wanted = rng.normal(size=(5, 7)), rng.integers(0, 7, 5)
    torch.manual_seed(seed)
    others, backward = draw_negatives(pairs, 20), draw_negatives(pairs, 20)
    constraint = Constraint()
    assert (constraint.beta, constraint.lam, constraint.margin, constraint.negatives) == (0.25, 0.125, 0.5, 20)
    terms = distances(torch.from_numpy(first), torch.from_numpy(second), others, backward, constraint.margin)
    paired = float(np.mean([tlaser_paper.d_p(first, second, row) for row in range(pairs)]))
    deltas = tlaser_paper.margin_term(first, second, others.numpy(), backward.numpy(), 0.5)
    assert terms.paired.item() == pytest.approx(paired, rel=1e-9, abs=1e-12)
    assert terms.delta.item() == pytest.approx(deltas, rel=1e-9, abs=1e-9)
    said = translation_loss(torch.from_numpy(logits), torch.from_numpy(wanted), 0.1)
    mt = tlaser_paper.translation(logits, wanted, 0.1)
    assert said.item() == pytest.approx(mt, rel=1e-5)
    # Eq. 10 is the loss of a sentence, whose translation loss is a sum: over all pairs, and divided by the tokens.
    tokens = 5
    batch = pairs * (0.25 * paired + 0.125 * deltas) + 0.5 * tokens * mt
    assert total_loss(said, terms, constraint, pairs / tokens).item() == pytest.approx(batch / tokens, rel=1e-5)
    of_mean = replace(constraint, summed=False)
    assert total_loss(said, terms, of_mean, pairs / tokens).item() == pytest.approx(
        tlaser_paper.total(mt, paired, deltas, 0.25, 0.125), rel=1e-5
    )
    assert total_loss(said, None, constraint, pairs / tokens).item() == pytest.approx(0.5 * mt, rel=1e-5)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), pairs=st.integers(2, 9), dim=st.integers(1, 8))
def test_distances_can_be_norms_that_are_not_squared(seed: int, pairs: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = 3 * rng.normal(size=(pairs, dim)), 3 * rng.normal(size=(pairs, dim))
    torch.manual_seed(seed)
    others, backward = draw_negatives(pairs, 20), draw_negatives(pairs, 20)
    terms = distances(torch.from_numpy(first), torch.from_numpy(second), others, backward, 0.5, squared=False)
    paired = float(np.mean([tlaser_paper.d_p(first, second, row, power=1) for row in range(pairs)]))
    assert terms.paired.item() == pytest.approx(paired, rel=1e-2, abs=1e-3)
    deltas = tlaser_paper.margin_term(first, second, others.numpy(), backward.numpy(), 0.5, power=1)
    assert terms.delta.item() == pytest.approx(deltas, rel=1e-2, abs=1e-2)


def test_golden_values_of_a_batch_worked_out_by_hand() -> None:
    """Two pairs in the plane: |·|² are 1, 4, 1, 1, so v_norm is 7/4."""
    first, second = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    other = torch.tensor([[1], [0]])
    terms = distances(first, second, other, other, 0.5)
    assert terms.paired.item() == pytest.approx((0 + 1 / 1.75) / 2, rel=1e-5)
    # d_n: a1-b2 2/1.75, a2-b1 5/1.75. Only the second pair comes near its margin, b2-a1: .5 - (2 - 1)/1.75 < 0.
    assert terms.delta.item() == 0.0
    assert distances(first, second, other, other, 1.0).delta.item() == pytest.approx((1 - 1 / 1.75) / 2, rel=1e-5)


def test_its_gradient_is_the_slope_that_small_steps_find() -> None:
    torch.manual_seed(3)
    others, backward = draw_negatives(5, 20), draw_negatives(5, 20)

    def loss(first: torch.Tensor, second: torch.Tensor, mt: torch.Tensor) -> torch.Tensor:
        return total_loss(mt, distances(first, second, others, backward, 0.5), Constraint(), 1 / 7)

    first = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    second = (first.detach() + 0.3 * torch.randn(5, 4, dtype=torch.float64)).requires_grad_()
    mt = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, (first, second, mt))


def test_the_scale_of_vectors_changes_nothing() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(6, 8), torch.randn(6, 8)
    others, backward = draw_negatives(6, 20), draw_negatives(6, 20)
    small = distances(first, second, others, backward, 0.5)
    large = distances(100 * first, 100 * second, others, backward, 0.5)
    assert large.paired.item() == pytest.approx(small.paired.item(), rel=1e-4)
    assert large.delta.item() == pytest.approx(small.delta.item(), rel=1e-4)


@given(pairs=st.integers(2, 50), seed=st.integers(0, 1000))
def test_no_sentence_is_its_own_negative(pairs: int, seed: int) -> None:
    torch.manual_seed(seed)
    drawn = draw_negatives(pairs, 20).numpy()
    assert drawn.shape == (pairs, 20)
    assert (drawn != np.arange(pairs)[:, None]).all()
    assert drawn.min() >= 0
    assert drawn.max() < pairs


def test_a_single_pair_has_no_negatives_and_a_finite_loss() -> None:
    none = draw_negatives(1, 20)
    terms = distances(torch.ones(1, 3), torch.zeros(1, 3), none, none, 0.5)
    assert terms.delta.item() == 0.0
    assert terms.paired.item() == pytest.approx(2.0, rel=1e-4)
