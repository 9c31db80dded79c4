"""Train NCA's networks with torch as published (Tashu et al. 2024, section 3.2.3), and export them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray
from onnx_export.training.device import seed_torch

_OPSET, _IR = 18, 10


@dataclass(frozen=True)
class NcaTraining:
    """Settings of a network's training; the defaults are the paper's where the paper gives a value.

    Attributes:
        hidden: number of ELU units.
        patience: epochs without a smaller validation loss until training stops.
    """

    hidden: int = 500
    rate: float = 5e-4
    epochs: int = 250
    patience: int = 10
    batch: int = 32
    seed: int = 0


def train(
    training: tuple[FloatArray, FloatArray],
    validation: tuple[FloatArray, FloatArray],
    settings: NcaTraining | None = None,
) -> bytes:
    """Train the network from X to Y, (n, dim x) and (n, dim y) aligned rows; return its ONNX graph.

    The mean of the training rows is subtracted, and rows are divided by a number per side, so that coordinates have
    variance 1 and Huber's δ of 1 means the same for every encoder. The graph takes unscaled rows of X and returns
    centred rows in the scale of Y.

    The weights are those of the epoch with the smallest loss on the validation rows, which also stop the training.
    """
    settings = settings or NcaTraining()
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
    weights = {name: tensor.numpy() for name, tensor in best_weights.items()}
    return build_graph(weights, means[0], scales[0], scales[1])


def build_graph(weights: Mapping[str, np.ndarray], mean: FloatArray, scale: float, target_scale: float) -> bytes:
    """Build the graph ``rows`` (n, dim x) → ``mapped`` (n, dim y).

    The weights are stored in float16, because there are two graphs for each pair of languages, one per direction.

    ``0.weight`` (hidden, dim x) and ``0.bias`` are of the ELU units, ``2.weight`` (dim y, hidden) and ``2.bias`` of the
    output. A row less ``mean`` is divided by ``scale``; the output is multiplied by ``target_scale``.
    """
    constants = {
        "mean": mean.astype(np.float32),
        "scale": np.array(scale, dtype=np.float32),
        "target_scale": np.array(target_scale, dtype=np.float32),
        **{f"{name}.kept": values.astype(np.float16) for name, values in weights.items()},
    }
    nodes = [
        *(helper.make_node("Cast", [f"{name}.kept"], [name], to=TensorProto.FLOAT) for name in weights),
        helper.make_node("Sub", ["rows", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "scale"], ["scaled"]),
        helper.make_node("Gemm", ["scaled", "0.weight", "0.bias"], ["summed"], transB=1),
        helper.make_node("Elu", ["summed"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "2.weight", "2.bias"], ["predicted"], transB=1),
        helper.make_node("Mul", ["predicted", "target_scale"], ["mapped"]),
    ]
    graph = helper.make_graph(
        nodes,
        "nca",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", len(mean)])],
        [helper.make_tensor_value_info("mapped", TensorProto.FLOAT, ["n", len(weights["2.bias"])])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
