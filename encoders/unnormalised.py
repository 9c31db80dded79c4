"""An encoder's graph without its last step: vectors as pooling makes them, not scaled to unit length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoders.errors import BadInput

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_PASSED = ("Cast", "Identity")
_UNIT = "vectors.unit"


def unnormalise(model: ModelProto, file: Path) -> None:
    """Make a graph's ``vectors`` what the L2 norm would have divided; a sum that the norm divides becomes the mean.

    Raises BadInput: the graph, read from ``file``, does not end with a division by the L2 norm.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    last = _maker(makers, "vectors")
    numerator = last.input[0] if last is not None and _divides_by_norm(makers, last) else ""
    if not numerator:
        raise BadInput(f"{file} does not end with vectors divided by their length, so their lengths can't be had")
    for node in model.graph.node:
        node.output[:] = [_UNIT if name == "vectors" else name for name in node.output]
        node.input[:] = [_UNIT if name == "vectors" else name for name in node.input]
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - a search needs no onnx

    is_sum = makers[numerator].op_type == "ReduceSum"
    nodes = [helper.make_node("Cast", [numerator], ["vectors.whole" if is_sum else "vectors"], to=TensorProto.FLOAT)]
    if is_sum:
        model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "vectors.axis"))
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["vectors.mask"], to=TensorProto.FLOAT),
            helper.make_node("ReduceSum", ["vectors.mask", "vectors.axis"], ["vectors.tokens"], keepdims=1),
            helper.make_node("Div", ["vectors.whole", "vectors.tokens"], ["vectors"]),
        ]
    model.graph.node.extend(nodes)


def _maker(makers: dict[str, NodeProto], name: str) -> NodeProto | None:
    """The node that makes a value; casts and identities are passed over."""
    node = makers.get(name)
    while node is not None and node.op_type in _PASSED:
        node = makers.get(node.input[0])
    return node


def _divides_by_norm(makers: dict[str, NodeProto], node: NodeProto) -> bool:
    """Whether a node divides by the L2 norm of what it divides, perhaps bounded from below and expanded."""
    if node.op_type != "Div" or node.input[0] not in makers:
        return False
    norm = _maker(makers, node.input[1])
    while norm is not None and norm.op_type in ("Clip", "Max", "Expand"):
        norm = _maker(makers, norm.input[0])
    return norm is not None and norm.op_type == "ReduceL2"
