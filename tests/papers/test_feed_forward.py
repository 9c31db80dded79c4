"""The feed-forward classifier: its choice of the epoch, and its prediction against NumPy's."""

import numpy as np
import pytest
import torch

from papers.feed_forward import FeedForwardTraining, predict, train

pytestmark = pytest.mark.torch


def test_prediction_is_a_tanh_network_without_dropout() -> None:
    rng = np.random.default_rng(0)
    vectors, classes = rng.normal(size=(20, 6)).astype(np.float32), np.arange(20) % 3
    network = train((vectors, classes), (vectors, classes), FeedForwardTraining(epochs=1))
    states = vectors
    for number, layer in enumerate(part for part in network if isinstance(part, torch.nn.Linear)):
        weights, biases = (part.detach().numpy() for part in (layer.weight, layer.bias))
        states = (np.tanh(states) if number else states) @ weights.T + biases
        assert weights.shape == ((10, 6), (8, 10), (3, 8))[number]
    np.testing.assert_array_equal(predict(network, vectors), np.argmax(states, axis=1))


def test_the_last_of_the_best_epochs_on_development_is_kept() -> None:
    """Development turns the classes round, so that accuracy falls while the network learns."""
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    vectors = (np.eye(4)[classes] + 0.1 * rng.normal(size=(60, 4))).astype(np.float32)
    learnt = train((vectors, classes), (vectors, classes), FeedForwardTraining(epochs=60))
    assert np.mean(predict(learnt, vectors) == classes) == 1.0
    turned = train((vectors, classes), (vectors, 1 - classes), FeedForwardTraining(epochs=60))
    assert np.mean(predict(turned, vectors) == classes) < 0.7
    lacking = train((vectors, classes), (vectors, np.full(60, -1)), FeedForwardTraining(epochs=1))
    assert set(predict(lacking, vectors).tolist()) <= {0, 1}
