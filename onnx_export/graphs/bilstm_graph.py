"""LASER's encoder as an ONNX graph: embeddings, bidirectional LSTMs, the maximum over positions, L2.

Torch's exporter unrolls an LSTM to a fixed length and can't say where a padded text ends.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray

_OPSET, _IR = 21, 10


def build_bilstm(weights: Mapping[str, FloatArray], layers: int) -> onnx.ModelProto:
    """Build the graph ``input_ids``, ``attention_mask`` (texts, tokens) int64 → ``vectors`` (texts, dim) unit rows.

    The weights, float32, have torch's names: ``tokens.weight`` and the names of ``lstm``.
    """
    table = weights["tokens.weight"]
    constants: dict[str, np.ndarray] = {
        "table": table,
        "one": np.array([1], dtype=np.int64),
        "last": np.array([-1], dtype=np.int64),
        "first": np.array([0], dtype=np.int64),
        "zero": np.array(0, dtype=np.int64),
        "joined": np.array([0, 0, -1], dtype=np.int64),
        "lowest": np.array(np.finfo(np.float32).min, dtype=np.float32),
        "tiny": np.array(1e-12, dtype=np.float32),
    }
    nodes = [
        helper.make_node("ReduceSum", ["attention_mask", "one"], ["counts"], keepdims=0),
        helper.make_node("Cast", ["counts"], ["lengths"], to=TensorProto.INT32),
        helper.make_node("Gather", ["table", "input_ids"], ["words"], axis=0),
        helper.make_node("Transpose", ["words"], ["states.0"], perm=[1, 0, 2]),
    ]
    for layer in range(layers):
        constants |= _layer(weights, layer)
        names = [f"states.{layer}", f"W.{layer}", f"R.{layer}", f"B.{layer}", "lengths"]
        hidden = constants[f"R.{layer}"].shape[2]
        nodes += [
            helper.make_node("LSTM", names, [f"both.{layer}"], direction="bidirectional", hidden_size=hidden),
            helper.make_node("Transpose", [f"both.{layer}"], [f"apart.{layer}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"apart.{layer}", "joined"], [f"states.{layer + 1}"]),
        ]
    nodes += [
        helper.make_node("Transpose", ["attention_mask"], ["places"], perm=[1, 0]),
        helper.make_node("Greater", ["places", "zero"], ["there"]),
        helper.make_node("Unsqueeze", ["there", "last"], ["mask"]),
        helper.make_node("Where", ["mask", f"states.{layers}", "lowest"], ["known"]),
        helper.make_node("ReduceMax", ["known", "first"], ["largest"], keepdims=0),
        helper.make_node("ReduceL2", ["largest", "one"], ["norms"], keepdims=1),
        helper.make_node("Max", ["norms", "tiny"], ["sizes"]),
        helper.make_node("Div", ["largest", "sizes"], ["vectors"]),
    ]
    dim = 2 * constants["R.0"].shape[2]
    graph = helper.make_graph(
        nodes,
        "laser",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", dim])],
        [numpy_helper.from_array(np.ascontiguousarray(values), name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


def _layer(weights: Mapping[str, FloatArray], layer: int) -> dict[str, FloatArray]:
    """A layer's weights of both directions, stacked as ONNX expects."""
    suffixes = [f"{layer}{direction}" for direction in ("", "_reverse")]
    biases = [
        np.concatenate([_reordered_gates(weights[f"lstm.bias_{part}_l{suffix}"]) for part in ("ih", "hh")])
        for suffix in suffixes
    ]
    return {
        f"W.{layer}": np.stack([_reordered_gates(weights[f"lstm.weight_ih_l{suffix}"]) for suffix in suffixes]),
        f"R.{layer}": np.stack([_reordered_gates(weights[f"lstm.weight_hh_l{suffix}"]) for suffix in suffixes]),
        f"B.{layer}": np.stack(biases),
    }


def _reordered_gates(rows: FloatArray) -> FloatArray:
    """Reorder torch's gates (input, forget, cell, output) as ONNX's (input, output, forget, cell)."""
    input_gate, forget_gate, cell_gate, output_gate = np.split(rows, 4)
    return np.concatenate([input_gate, output_gate, forget_gate, cell_gate])
