"""Find values that half precision can't hold; on a CPU ONNX Runtime computes an fp16 graph in float32, without them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.inference.graph import Inputs
from onnx_export.graphs.samples import measure

LARGEST = float(np.finfo(np.float16).max) / 2
"""Largest value that is left to half precision. Its numbers end at 65,504; other texts than the measured ones may reach
twice as much."""
MASKED = -10_000.0
"""What is added to the attention score of a token that is masked."""


def bound_masks(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Replace masks' numbers below half precision, −∞ too, by −10,000, whose exponential is 0; return the changed."""
    masks, lowest = [], np.finfo(np.float16).min
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(weight)
            if values.min(initial=0) < lowest:
                bounded = np.where(values < lowest, np.float32(MASKED), values)
                weight.CopyFrom(numpy_helper.from_array(bounded, weight.name))
                masks.append(weight)
    return masks


def largest_values(graph: Path, constants: Iterable[onnx.TensorProto], batches: Iterable[Inputs]) -> dict[str, float]:
    """Largest absolute value, over all batches, of each float32 value that a node makes, by the value's name.

    ``graph`` states the types of its values; values without a type or inside branches are left out. ``constants``
    replace the graph's of the same names. Raises MissingPart: no ONNX Runtime; BadInput: the graph can't be loaded.
    """
    typed = onnx.load(graph, load_external_data=False).graph
    made = {name for node in typed.node for name in node.output}
    values = (*typed.value_info, *typed.output)
    names = [info.name for info in values if info.name in made and info.type.tensor_type.elem_type == TensorProto.FLOAT]
    nodes = []
    for name in names:
        nodes.append(helper.make_node("Abs", [name], [f"{name}.absolute"]))
        nodes.append(helper.make_node("ReduceMax", [f"{name}.absolute"], [f"{name}.largest"], keepdims=0))
    largest = np.zeros(len(names), dtype=np.float32)
    for values_of_batch in measure(graph, nodes, [f"{name}.largest" for name in names], batches, constants=constants):
        largest = np.maximum(largest, values_of_batch)
    return dict(zip(names, largest.tolist(), strict=True))
