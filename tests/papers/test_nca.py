"""NCA's network is the one of the paper: one layer of ELU units between scaled spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from encoders.document import FloatArray
from encoders.maps.mate_scores import over_pairs
from encoders.maps.parallel import ConceptSplit
from papers.mappings import learn_networks
from query.alignment.mate_retrieval import learn_comparer
from tests.query.synthetic import rotated

if TYPE_CHECKING:
    from papers.nca import Network

pytestmark = pytest.mark.torch


def rows(count: int, dim: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)


@pytest.fixture(scope="module")
def network() -> Network:
    """From rows of 6 numbers to rows of 4 that follow from them."""
    from papers.nca import NcaTraining, train

    x, held_out, turn = rows(120, 6, 0) + 2, rows(40, 6, 1) + 2, rows(6, 4, 2)
    settings = NcaTraining(hidden=9, epochs=5)
    return train((x, 3 * np.tanh(x @ turn)), (held_out, 3 * np.tanh(held_out @ turn)), settings)


def test_rows_are_scaled_by_the_training_rows_and_mapped_as_torch_does(network: Network) -> None:
    import torch

    x = rows(120, 6, 0) + 2
    np.testing.assert_allclose(network.mean, x.mean(axis=0), atol=1e-6)
    assert network.scale == pytest.approx((x - x.mean(axis=0)).std(), rel=1e-5)
    queries = rows(10, 6, 3)
    states = torch.from_numpy((queries - network.mean) / np.float32(network.scale))
    for number, (weights, biases) in enumerate(network.layers):
        states = torch.nn.functional.elu(states) if number else states
        states = torch.nn.functional.linear(states, torch.from_numpy(weights.T.copy()), torch.from_numpy(biases))
    np.testing.assert_allclose(network.transform(queries), states.numpy() * network.target_scale, atol=1e-5)


def test_networks_find_more_mates_than_the_raw_vectors() -> None:
    split = ConceptSplit.of(rotated(120), 0)
    networks = learn_networks(split, 0)
    assert over_pairs(networks, split.test).rate > over_pairs(learn_comparer("raw", split), split.test).rate
    x, y = split.test.rows["en"], split.test.rows["de"]
    left, right = networks("en", "de", x, y)
    np.testing.assert_allclose(left[:, : x.shape[1]], x - split.training.rows["en"].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(right[:, -y.shape[1] :], y - split.training.rows["de"].mean(axis=0), atol=1e-6)
