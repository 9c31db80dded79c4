"""Train NCA's networks with torch, as published, and export them (Tashu et al. 2024, section 3.2.3)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray
from encoders.errors import MissingPart
from onnx_export.training.seeds import seed_torch

_OPSET, _IR = 18, 10


@dataclass(frozen=True)
class NcaTraining:
    """How a network is trained; the defaults are the paper's where it says something.

    Attributes:
        hidden: ELU units.
        rate: Adam's learning rate.
        epochs: at most.
        patience: epochs without a better validation loss after which it stops.
        batch: rows a step.
        seed: of weights and order.
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
    """Train the network from X to Y, and return its ONNX graph; the weights of the best epoch on validation.

    Rows lose their training mean and are scaled to a variance of 1 a coordinate, one number a side, so that Huber's
    δ of 1 means the same for every encoder; the graph takes rows as they are and gives centred rows in their own scale.

    Args:
        training: (n, dim x) and (n, dim y) aligned rows.
        validation: others, for early stopping.
        settings: how.

    Raises:
        MissingPart: torch is not installed.
    """
    try:
        import torch  # noqa: PLC0415 - the train extra
    except ImportError as error:
        raise MissingPart("NCA needs torch; install it: pip install 'dragoman[train]'") from error
    settings = settings or NcaTraining()
    means = [side.mean(axis=0) for side in training]
    scales = [float(np.sqrt((side - mean).var())) or 1.0 for side, mean in zip(training, means, strict=True)]
    x, y, x_held_out, y_held_out = (
        torch.from_numpy(np.asarray((rows - means[side]) / scales[side], dtype=np.float32))
        for some in (training, validation)
        for side, rows in enumerate(some)
    )
    seed_torch(settings.seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], settings.hidden), torch.nn.ELU(), torch.nn.Linear(settings.hidden, y.shape[1])
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.rate)
    loss = torch.nn.HuberLoss()
    best, kept, since = float("inf"), network.state_dict(), 0
    for _ in range(settings.epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x), settings.batch):
            batch = order[start : start + settings.batch]
            optimizer.zero_grad()
            loss(network(x[batch]), y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            value = float(loss(network(x_held_out), y_held_out))
        if value < best:
            best, kept, since = value, copy.deepcopy(network.state_dict()), 0
        else:
            since += 1
            if since == settings.patience:
                break
    weights = {name: tensor.numpy() for name, tensor in kept.items()}
    return graph_of(weights, means[0], scales[0], scales[1])


def graph_of(weights: Mapping[str, np.ndarray], mean: FloatArray, scale: float, target_scale: float) -> bytes:
    """``rows`` (n, dim x) → ``mapped`` (n, dim y), its weights kept in float16: there is a graph each way of a pair.

    Args:
        weights: ``0.weight`` (hidden, dim x) and ``0.bias`` of the ELU units, ``2.weight`` (dim y, hidden), ``2.bias``.
        mean: (dim x,) what a row loses.
        scale: what it is divided by then.
        target_scale: what a prediction is multiplied by.
    """
    constants = {
        "mean": mean.astype(np.float32),
        "scale": np.array(scale, dtype=np.float32),
        "target_scale": np.array(target_scale, dtype=np.float32),
        **{f"{name}.kept": held.astype(np.float16) for name, held in weights.items()},
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
