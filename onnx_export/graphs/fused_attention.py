"""Attention as one node of ONNX Runtime, for GPUs: its kernel keeps no (tokens, tokens) matrix in memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray
from encoders.inference.graph import Inputs, load_graph
from encoders.inference.unpadded import CONTRIB
from encoders.machine.placement import CPU

_IDS, _MASK = "input_ids", "attention_mask"
_PREFIX = "fused."
"""Beginning of the names in a graph of another exporter."""
_TOLERANCE = 1e-5
"""Largest difference of the outputs of both graphs."""
_HEADS_FIRST, _TURNED = [0, 2, 1, 3], [0, 2, 3, 1]


def sequence_bounds(prefix: str = "") -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes and constants that make ``sequence_bounds``, the padding as fused attention reads it: (3 texts + 2,) int32.

    First the tokens of each text, then twice, for queries and keys, where each text begins among all padded tokens and
    where the last ends. All is computed from the values of ``attention_mask``: its shape is on the host.
    """

    def node(kind: str, name: str, *inputs: str, **attributes: int) -> onnx.NodeProto:
        sources = [source if source == _MASK else prefix + source for source in inputs]
        return helper.make_node(kind, sources, [prefix + name], name=prefix + name, **attributes)

    constants = {
        "row_axis": np.array([1], dtype=np.int64),
        "times": np.array([0], dtype=np.int32),
        "plus": np.array([1], dtype=np.int32),
        "after_last": np.array([0], dtype=np.int32),
        "texts_axis": np.array(0, dtype=np.int64),
    }
    nodes = [
        node("Cast", "present", _MASK, to=TensorProto.INT32),
        node("Mul", "zeros", "present", "times"),
        node("Add", "ones", "zeros", "plus"),
        node("ReduceSum", "lengths", "present", "row_axis", keepdims=0),
        node("ReduceSum", "widths", "ones", "row_axis", keepdims=0),
        node("Concat", "padded_widths", "widths", "after_last", axis=0),
        node("CumSum", "starts", "padded_widths", "texts_axis", exclusive=1),
        node("Concat", "sequence_bounds", "lengths", "starts", "starts", axis=0),
    ]
    return nodes, [numpy_helper.from_array(value, prefix + name) for name, value in constants.items()]


def attention(name: str, parts: Sequence[str], bounds: str, heads: int, scale: float) -> onnx.NodeProto:
    """Attention of query, key and value, each (texts, tokens, hidden), over the tokens of each text."""
    return helper.make_node(
        "MultiHeadAttention", [*parts, "", bounds], [name], name=name, domain=CONTRIB, num_heads=heads, scale=scale
    )


def fuse_attention(graph: Path, batches: Sequence[Inputs]) -> None:
    """Make each attention of a float32 graph one node, in the graph's file.

    The file stays as it is if it has no attention as torch exports of BERT and XLM-R, or if an output for a batch
    differs by more than the tolerance on the CPU. Raises BadInput: it can't be loaded; MissingPart: no ONNX Runtime.
    """
    model = onnx.load(graph, load_external_data=False)
    if not _fuse(model.graph):
        return
    model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    fused = graph.with_name("fused.onnx")
    onnx.save(model, fused)
    plain, outputs = (_outputs(file, batches) for file in (graph, fused))  # not both graphs in memory
    if all(np.allclose(*pair, atol=_TOLERANCE) for pair in zip(outputs, plain, strict=True)):
        fused.replace(graph)
    else:
        fused.unlink()


def _outputs(graph: Path, batches: Sequence[Inputs]) -> list[FloatArray]:
    session = load_graph(graph, CPU)
    return [session.run(None, dict(batch))[0] for batch in batches]


def _fuse(graph: onnx.GraphProto) -> bool:
    """Replace attention, and the nodes that it alone reads, by single nodes; return whether there was any."""
    if _MASK not in {value.name for value in graph.input}:
        return False
    makers = {output: node for node in graph.node for output in node.output}
    shapes = {value.name: value.type.tensor_type.shape.dim for value in graph.value_info}
    constants = {weight.name: weight for weight in graph.initializer}

    def before(name: str, kind: str, perm: Sequence[int] = ()) -> list[str]:
        """Inputs of the node that makes a value; LookupError if the node is of another kind."""
        node = makers[name]
        if node.op_type != kind or (perm and node.attribute[0].ints != perm):
            raise LookupError(name)
        return list(node.input)

    def fused(node: onnx.NodeProto) -> onnx.NodeProto | None:
        """Attention in the place of the node that joins its heads; none for another node."""
        try:
            joined = before(node.output[0], "Reshape")[0]
            shares, values = before(before(joined, "Transpose", _HEADS_FIRST)[0], "MatMul")
            scaled, _ = before(before(shares, "Softmax")[0], "Add")
            product, scale = before(scaled, "Mul")
            queries, keys = before(product, "MatMul")
            orders = ((queries, _HEADS_FIRST), (keys, _TURNED), (values, _HEADS_FIRST))
            split = [before(before(part, "Transpose", order)[0], "Reshape")[0] for part, order in orders]
            heads = shapes[before(queries, "Transpose")[0]][2].dim_value
            factor = float(numpy_helper.to_array(constants[scale]))
        except LookupError:
            return None
        return attention(node.output[0], split, f"{_PREFIX}sequence_bounds", heads, factor) if heads else None

    fused_nodes = [fused(node) for node in graph.node]
    if not any(fused_nodes):
        return False
    bounds, numbers = sequence_bounds(_PREFIX)
    nodes = list(bounds)
    for new, old in zip(fused_nodes, graph.node, strict=True):
        nodes += _compare_ids(old) if old.op_type == "Equal" and old.input[0] == _IDS else [new or old]
    needed, kept = {output.name for output in graph.output}, []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(numbers)
    return True


def _compare_ids(equal: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A comparison of token ids, by which XLM-R finds the padding: the CUDA provider has no ``Equal`` of opset 19."""
    difference, differs = f"{_PREFIX}{equal.name}.difference", f"{_PREFIX}{equal.name}.differs"
    return [
        helper.make_node("Sub", equal.input, [difference], name=difference),
        helper.make_node("Cast", [difference], [differs], name=differs, to=TensorProto.BOOL),
        helper.make_node("Not", [differs], equal.output, name=f"{_PREFIX}{equal.name}"),
    ]
