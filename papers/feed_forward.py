"""Train the feed-forward classifier of frozen vectors that LASER's and T-LASER's papers test encoders with."""

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


def predict(network: torch.nn.Module, vectors: FloatArray) -> npt.NDArray[np.intp]:
    """(n,) classes of (n, dim) vectors."""
    with torch.no_grad():
        classes: npt.NDArray[np.intp] = network(torch.from_numpy(np.ascontiguousarray(vectors))).argmax(dim=1).numpy()
    return classes


def train(
    training: tuple[FloatArray, npt.NDArray[np.intp]],
    development: tuple[FloatArray, npt.NDArray[np.intp]],
    settings: FeedForwardTraining | None = None,
) -> torch.nn.Sequential:
    """Train by cross-entropy and Adam; the weights are those of the last epoch with the best accuracy on development.

    Both are (n, dim) vectors and (n,) classes from 0; a class that training lacks is never predicted.
    """
    settings = settings or FeedForwardTraining()
    vectors, classes = (torch.from_numpy(np.ascontiguousarray(values)) for values in training)
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
        accuracy = float(np.mean(predict(network, development[0]) == development[1]))
        if accuracy >= best_accuracy:
            best_accuracy, best_weights = accuracy, copy.deepcopy(network.state_dict())
    network.load_state_dict(best_weights)
    return network
