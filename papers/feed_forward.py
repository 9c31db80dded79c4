"""Train the feed-forward classifier of frozen vectors that LASER's and T-LASER's papers test encoders with."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from encoders.document import FloatArray
from onnx_export.training.device import seed_torch


@dataclass(frozen=True)
class FeedForwardTraining:
    """Settings of the classifier and of its training; the defaults are those of LASER's script for MLDoc."""

    hidden: tuple[int, ...] = (10, 8)  # widths of the tanh layers
    dropout: float = 0.2  # of the input and of each hidden layer
    rate: float = 1e-3
    batch: int = 12
    epochs: int = 500
    seed: int = 1


class FeedForward:
    """A trained classifier, computed by NumPy."""

    def __init__(self, layers: list[tuple[FloatArray, FloatArray]]) -> None:
        """Take (inputs, outputs) weights and (outputs,) biases of each layer."""
        self._layers = layers

    def predict(self, vectors: FloatArray) -> npt.NDArray[np.intp]:
        """(n,) classes of (n, dim) vectors."""
        states = vectors
        for number, (weights, biases) in enumerate(self._layers):
            states = (states if number == 0 else np.tanh(states)) @ weights + biases
        classes: npt.NDArray[np.intp] = np.argmax(states, axis=1)
        return classes


def train(
    training: tuple[FloatArray, npt.NDArray[np.intp]],
    development: tuple[FloatArray, npt.NDArray[np.intp]],
    settings: FeedForwardTraining | None = None,
) -> FeedForward:
    """Train by cross-entropy and Adam; the weights are those of the last epoch with the best accuracy on development.

    Args:
        training: (n, dim) vectors and (n,) classes from 0.
        development: the same; a class that training lacks is never predicted.
        settings: the published settings by default.
    """
    settings = settings or FeedForwardTraining()
    vectors, classes = (torch.from_numpy(np.ascontiguousarray(values)) for values in training)
    held_out = torch.from_numpy(np.ascontiguousarray(development[0]))
    seed_torch(settings.seed)
    widths = [vectors.shape[1], *settings.hidden, int(classes.max()) + 1]
    parts: list[torch.nn.Module] = []
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        parts += [torch.nn.Tanh()] if number else []
        parts += [torch.nn.Dropout(settings.dropout), torch.nn.Linear(inputs, outputs)]
    network = torch.nn.Sequential(*parts)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.rate)
    loss = torch.nn.CrossEntropyLoss()
    best_accuracy, best_weights = -1.0, network.state_dict()
    for _ in range(settings.epochs):
        network.train()
        order = torch.randperm(len(vectors))
        for start in range(0, len(vectors), settings.batch):
            batch = order[start : start + settings.batch]
            optimizer.zero_grad()
            loss(network(vectors[batch]), classes[batch]).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            predicted = network(held_out).argmax(dim=1).numpy()
        accuracy = float(np.mean(predicted == development[1]))
        if accuracy >= best_accuracy:
            best_accuracy, best_weights = accuracy, copy.deepcopy(network.state_dict())
    network.load_state_dict(best_weights)
    linear = [part for part in network if isinstance(part, torch.nn.Linear)]
    return FeedForward([(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in linear])
