"""The feed-forward classifier: its choice of the epoch, and NumPy's prediction against torch's."""

import numpy as np
import pytest

from papers.feed_forward import FeedForward, FeedForwardTraining, train

pytestmark = pytest.mark.torch


def test_prediction_is_a_tanh_network_without_dropout() -> None:
    rng = np.random.default_rng(0)
    shapes = ((6, 10), (10, 8), (8, 3))
    layers = [
        (rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[1]).astype(np.float32)) for shape in shapes
    ]
    vectors = rng.normal(size=(20, 6)).astype(np.float32)
    hidden = np.tanh(np.tanh(vectors @ layers[0][0] + layers[0][1]) @ layers[1][0] + layers[1][1])
    expected = np.argmax(hidden @ layers[2][0] + layers[2][1], axis=1)
    np.testing.assert_array_equal(FeedForward(layers).predict(vectors), expected)


def test_the_last_of_the_best_epochs_on_development_is_kept() -> None:
    """Development turns the classes round, so that accuracy falls while the network learns."""
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    vectors = (np.eye(4)[classes] + 0.1 * rng.normal(size=(60, 4))).astype(np.float32)
    learnt = train((vectors, classes), (vectors, classes), FeedForwardTraining(epochs=60))
    assert np.mean(learnt.predict(vectors) == classes) == 1.0
    turned = train((vectors, classes), (vectors, 1 - classes), FeedForwardTraining(epochs=60))
    assert np.mean(turned.predict(vectors) == classes) < 0.7
    lacking = train((vectors, classes), (vectors, np.full(60, -1)), FeedForwardTraining(epochs=1))
    assert set(lacking.predict(vectors).tolist()) <= {0, 1}
