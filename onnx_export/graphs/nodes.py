"""What the nodes of an ONNX graph read."""

from collections.abc import Iterator, Mapping

import onnx
from onnx import TensorProto


def names_read(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of the values that a graph's nodes, or its branches' nodes, read, and of its outputs."""
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for branch in (attribute.g, *attribute.graphs):
                yield from names_read(branch)


def constant_matrix(node: onnx.NodeProto, weights: Mapping[str, onnx.TensorProto]) -> onnx.TensorProto | None:
    """The float32 matrix that a product multiplies by, or the table whose rows a node gathers; otherwise none."""
    if node.op_type == "MatMul":
        weight = weights.get(node.input[1])
    elif node.op_type == "Gather" and not any(attribute.name == "axis" and attribute.i for attribute in node.attribute):
        weight = weights.get(node.input[0])
    else:
        return None
    return weight if weight and weight.data_type == TensorProto.FLOAT and len(weight.dims) == 2 else None
