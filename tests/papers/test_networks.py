"""NCA's network and the classifier are the papers': their layers against NumPy, and the epoch that is kept."""

import numpy as np
import pytest
import torch

from encoders.document import FloatArray
from encoders.maps.mate_scores import over_pairs
from encoders.maps.parallel import ConceptSplit
from papers.mappings import learn_networks
from papers.networks import HIDDEN, Nca, predict, train_classifier
from query.alignment.mate_retrieval import learn_comparer
from tests.query.synthetic import rotated

pytestmark = pytest.mark.torch


def rows(count: int, dim: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)


def layers(network: torch.nn.Sequential) -> list[tuple[FloatArray, FloatArray]]:
    linear = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    return [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in linear]


def test_nca_scales_rows_by_the_training_rows_and_has_one_layer_of_elu_units() -> None:
    x, held_out, turn = rows(120, 6, 0) + 2, rows(40, 6, 1) + 2, rows(6, 4, 2)
    network = Nca((x, 3 * np.tanh(x @ turn)), (held_out, 3 * np.tanh(held_out @ turn)), epochs=5)
    np.testing.assert_allclose(network.mean, x.mean(axis=0), atol=1e-6)
    assert network.scale == pytest.approx((x - x.mean(axis=0)).std(), rel=1e-5)
    (weights, biases), (output_weights, output_biases) = layers(network.network)
    assert weights.shape == (6, HIDDEN)
    queries = rows(10, 6, 3)
    states = (queries - network.mean) / network.scale @ weights + biases
    mapped = np.where(states > 0, states, np.expm1(np.minimum(states, 0))) @ output_weights + output_biases
    target = 3 * np.tanh(x @ turn)
    np.testing.assert_allclose(network.transform(queries), mapped * (target - target.mean(axis=0)).std(), atol=1e-4)


def test_networks_find_more_mates_than_the_raw_vectors() -> None:
    split = ConceptSplit.of(rotated(120), 0)
    networks = learn_networks(split, 0)
    assert over_pairs(networks, split.test).rate > over_pairs(learn_comparer("raw", split), split.test).rate
    x, y = split.test.rows["en"], split.test.rows["de"]
    left, right = networks("en", "de", x, y)
    np.testing.assert_allclose(left[:, : x.shape[1]], x - split.training.rows["en"].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(right[:, -y.shape[1] :], y - split.training.rows["de"].mean(axis=0), atol=1e-6)


def test_the_last_of_the_best_epochs_on_development_is_kept() -> None:
    """Development turns the classes round, so that accuracy falls while the network learns."""
    classes = np.arange(60) % 2
    vectors = (np.eye(4)[classes] + 0.1 * rows(60, 4, 0)).astype(np.float32)
    learnt = train_classifier((vectors, classes), (vectors, classes), epochs=60)
    assert np.mean(predict(learnt, vectors) == classes) == 1.0
    turned = train_classifier((vectors, classes), (vectors, 1 - classes), epochs=60)
    assert np.mean(predict(turned, vectors) == classes) < 0.7
    lacking = train_classifier((vectors, classes), (vectors, np.full(60, -1)), epochs=1)
    assert set(predict(lacking, vectors).tolist()) <= {0, 1}
    network = train_classifier((rows(20, 6, 0), np.arange(20) % 3), (rows(20, 6, 0), np.arange(20) % 3), epochs=1)
    first, second, last = layers(network)  # tanh, without dropout when it predicts
    assert [weights.shape for weights, _ in (first, second, last)] == [(6, 10), (10, 8), (8, 3)]
    states = np.tanh(np.tanh(rows(20, 6, 0) @ first[0] + first[1]) @ second[0] + second[1]) @ last[0] + last[1]
    np.testing.assert_array_equal(predict(network, rows(20, 6, 0)), np.argmax(states, axis=1))
