"""The papers' small networks over frozen vectors, trained with torch: NCA's, and LASER's and T-LASER's classifier."""

import copy
from collections.abc import Callable
from itertools import permutations

import numpy as np
import numpy.typing as npt
import torch

from encoders.document import FloatArray
from encoders.maps.mate_scores import Comparer
from encoders.maps.parallel import ConceptSplit
from onnx_export.training.device import seed_torch

IntArray = npt.NDArray[np.intp]
_Sides = tuple[FloatArray, FloatArray]
_Classified = tuple[FloatArray, IntArray]
HIDDEN = 500  # NCA's ELU units


class Nca:
    """One direction of NCA: from rows of one space to centred rows of another (Tashu et al. 2024, 3.2.3)."""

    def __init__(self, training: _Sides, validation: _Sides, seed: int = 0, epochs: int = 250) -> None:
        """Train the network from X to Y, (n, dim x) and (n, dim y) aligned rows.

        The mean of the training rows is subtracted, and rows are divided by a number per side, so that coordinates have
        variance 1 and Huber's δ of 1 means the same for every encoder. The weights are rounded to float16.
        """
        means = [side.mean(axis=0) for side in training]
        scales = [float((side - mean).std()) or 1.0 for side, mean in zip(training, means, strict=True)]
        x, y, x_held_out, y_held_out = (
            torch.from_numpy(np.asarray((rows - means[side]) / scales[side], dtype=np.float32))
            for sides in (training, validation)
            for side, rows in enumerate(sides)
        )
        seed_torch(seed)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.ELU(), torch.nn.Linear(HIDDEN, y.shape[1])
        )
        loss = torch.nn.HuberLoss()

        def held_out() -> float:
            return float(loss(self.network(x_held_out), y_held_out))

        _fit(self.network, x, y, loss, held_out, rate=5e-4, batch=32, epochs=epochs, patience=10)
        self.network.half().float()
        self.mean: FloatArray = means[0].astype(np.float32)
        self.scale, self._target_scale = scales

    def transform(self, rows: FloatArray) -> FloatArray:
        """Map (n, dim) rows to centred rows of the other space."""
        with torch.no_grad():
            mapped = self.network(torch.from_numpy((rows - self.mean) / np.float32(self.scale)))
        return np.asarray(mapped.numpy() * np.float32(self._target_scale), dtype=np.float32)


def nca_comparer(split: ConceptSplit, seed: int) -> Comparer:
    """Train a network for each ordered pair of languages on the training concepts; validation concepts stop it.

    Rows X and Y of two languages are compared by [x, f(x)] and [g(y), y], x and y less their means in training.
    """
    training, validation = split.training.rows, split.validation.rows
    networks = {
        (lang, other): Nca((training[lang], training[other]), (validation[lang], validation[other]), seed)
        for lang, other in permutations(training, 2)
    }

    def compared(lang: str, other: str, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        f, g = networks[lang, other], networks[other, lang]
        return np.hstack([x - f.mean, f.transform(x)]), np.hstack([g.transform(y), y - g.mean])

    return compared


def predict(network: torch.nn.Module, vectors: FloatArray) -> IntArray:
    """(n,) classes of (n, dim) vectors."""
    with torch.no_grad():
        classes: IntArray = network(torch.from_numpy(np.ascontiguousarray(vectors))).argmax(dim=1).numpy()
    return classes


def train_classifier(training: _Classified, development: _Classified, epochs: int = 500) -> torch.nn.Sequential:
    """Train the feed-forward classifier, on vectors and classes from 0, with the settings of LASER's script."""
    vectors, classes = (torch.from_numpy(np.ascontiguousarray(values)) for values in training)
    seed_torch(1)
    linear, tanh, dropout = torch.nn.Linear, torch.nn.Tanh(), torch.nn.Dropout(0.2)
    network = torch.nn.Sequential(
        *(dropout, linear(vectors.shape[1], 10), tanh),
        *(dropout, linear(10, 8), tanh),
        *(dropout, linear(8, int(classes.max()) + 1)),
    )

    def error() -> float:
        return float(np.mean(predict(network, development[0]) != development[1]))

    _fit(network, vectors, classes, torch.nn.CrossEntropyLoss(), error, rate=1e-3, batch=12, epochs=epochs)
    return network


def _fit(
    network: torch.nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    loss: torch.nn.Module,
    error: Callable[[], float],
    *,
    rate: float,
    batch: int,
    epochs: int,
    patience: int | None = None,
) -> None:
    """Train by Adam until ``patience`` epochs had no smaller error, and keep the first best epoch; else the last."""
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    best_error, best_weights, epochs_since_best = float("inf"), network.state_dict(), 0
    for _ in range(epochs):
        network.train()
        for rows in torch.split(torch.randperm(len(x)), batch):
            optimizer.zero_grad()
            loss(network(x[rows]), y[rows]).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            current = error()
        epochs_since_best += 1
        if current < best_error or (current == best_error and patience is None):
            best_error, best_weights, epochs_since_best = current, copy.deepcopy(network.state_dict()), 0
        if epochs_since_best == patience:
            break
    network.load_state_dict(best_weights)
