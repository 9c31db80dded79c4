"""NCA: a network for each ordered pair of languages, trained with torch as published (Tashu et al. 2024, 3.2.3)."""

import copy
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch

from encoders.document import FloatArray
from encoders.maps.mate_scores import Comparer
from encoders.maps.parallel import ConceptSplit
from onnx_export.training.device import seed_torch


@dataclass(frozen=True)
class NcaTraining:
    """Settings of a network's training; the defaults are the paper's where the paper gives a value."""

    hidden: int = 500  # number of ELU units
    rate: float = 5e-4
    epochs: int = 250
    patience: int = 10  # epochs without a smaller validation loss until training stops
    batch: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Network:
    """One direction of NCA: from rows of one space, as the encoder made them, to centred rows of another."""

    mean: FloatArray
    scale: float  # a row less ``mean`` is divided by it
    # (inputs, outputs) weights and (outputs,) biases of the ELU units and of the output
    layers: tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
    target_scale: float  # multiplies the output

    def transform(self, rows: FloatArray) -> FloatArray:
        """Map (n, dim) rows to centred rows of the other space."""
        (weights, biases), (output_weights, output_biases) = self.layers
        states = (rows - self.mean) / np.float32(self.scale) @ weights + biases
        hidden = np.where(states > 0, states, np.expm1(np.minimum(states, 0)))
        return np.asarray((hidden @ output_weights + output_biases) * np.float32(self.target_scale), dtype=np.float32)


def comparer(split: ConceptSplit, seed: int) -> Comparer:
    """Train a network for each ordered pair of languages on the training concepts; validation concepts stop it.

    Rows X and Y of two languages are compared by [x, f(x)] and [g(y), y], x and y less their means in training.
    """
    languages, training, validation = list(split.training.rows), split.training.rows, split.validation.rows
    networks = {
        (source, target): train(
            (training[source], training[target]), (validation[source], validation[target]), NcaTraining(seed=seed)
        )
        for source, target in permutations(languages, 2)
    }

    def compared(lang: str, other: str, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        forward, backward = networks[lang, other], networks[other, lang]
        return (
            np.concatenate([x - forward.mean, forward.transform(x)], axis=1),
            np.concatenate([backward.transform(y), y - backward.mean], axis=1),
        )

    return compared


def train(
    training: tuple[FloatArray, FloatArray], validation: tuple[FloatArray, FloatArray], settings: NcaTraining
) -> Network:
    """Train the network from X to Y, (n, dim x) and (n, dim y) aligned rows.

    The mean of the training rows is subtracted, and rows are divided by a number per side, so that coordinates have
    variance 1 and Huber's δ of 1 means the same for every encoder. The weights are those of the epoch with the smallest
    loss on the validation rows, which also stop the training; they are rounded to float16.
    """
    means = [side.mean(axis=0) for side in training]
    scales = [float(np.sqrt((side - mean).var())) or 1.0 for side, mean in zip(training, means, strict=True)]
    x, y, x_held_out, y_held_out = (
        torch.from_numpy(np.asarray((rows - means[side]) / scales[side], dtype=np.float32))
        for sides in (training, validation)
        for side, rows in enumerate(sides)
    )
    seed_torch(settings.seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], settings.hidden), torch.nn.ELU(), torch.nn.Linear(settings.hidden, y.shape[1])
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.rate)
    loss = torch.nn.HuberLoss()
    best_loss, best_weights, epochs_since_best = float("inf"), network.state_dict(), 0
    for _ in range(settings.epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x), settings.batch):
            batch = order[start : start + settings.batch]
            optimizer.zero_grad()
            loss(network(x[batch]), y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            validation_loss = float(loss(network(x_held_out), y_held_out))
        if validation_loss < best_loss:
            best_loss, best_weights, epochs_since_best = validation_loss, copy.deepcopy(network.state_dict()), 0
        else:
            epochs_since_best += 1
            if epochs_since_best == settings.patience:
                break
    rounded = {name: tensor.numpy().astype(np.float16).astype(np.float32) for name, tensor in best_weights.items()}
    first, last = ((rounded[f"{number}.weight"].T, rounded[f"{number}.bias"]) for number in (0, 2))
    return Network(means[0].astype(np.float32), scales[0], (first, last), scales[1])
