"""Find the values of a graph that half precision can't hold.

A test of the fp16 graph on a CPU can't find them: ONNX Runtime's CPU provider computes it in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.devices import CPU
from encoders.graph import Inputs, load_graph
from encoders.session import CPU_TOKEN_BUDGET, padded, token_batches

LARGEST = float(np.finfo(np.float16).max) / 2
"""Largest value that is left to half precision. Its numbers end at 65,504; other texts than the measured ones may reach
twice as much."""
MASKED = -10_000.0
"""What is added to the attention score of a token that is masked."""


def token_inputs(rows: Sequence[Sequence[int]], pad: int, max_tokens: int) -> Iterator[Inputs]:
    """Inputs of a graph of tokens: the rows in padded batches, then a long row of the first rows' tokens."""
    arrays = [np.array(row, dtype=np.int32) for row in rows]
    joined = np.concatenate(arrays)[: min(max_tokens, CPU_TOKEN_BUDGET)]
    batches = [[arrays[row] for row in batch] for batch in token_batches(list(map(len, arrays)), CPU_TOKEN_BUDGET)]
    for batch in (*batches, [joined]):
        ids, mask = padded(batch, pad)
        yield {"input_ids": ids, "attention_mask": mask}


def bound_masks(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Replace numbers below half precision's lowest, −∞ too, by −10,000; return the constants that changed.

    Such numbers are those of masks. The exponential of both is 0, but a score plus −10,000 stays in the range.
    """
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

    ``graph`` states the types of its values. A value without a type, and values inside branches, are left out. Each
    value is reduced where it is made, so that memory holds no more than in any run. ``constants`` replace the graph's
    of the same names. The graph that is run lies beside ``graph`` meanwhile.

    Raises:
        MissingPart: ONNX Runtime is not installed.
        BadInput: the graph can't be loaded.
    """
    model = onnx.load(graph, load_external_data=False)
    replacements = {constant.name: constant for constant in constants}
    for weight in model.graph.initializer:
        if weight.name in replacements:
            weight.CopyFrom(replacements[weight.name])
    made = {name for node in model.graph.node for name in node.output}
    typed = (*model.graph.value_info, *model.graph.output)
    names = [info.name for info in typed if info.name in made and info.type.tensor_type.elem_type == TensorProto.FLOAT]
    for name in names:
        model.graph.node.append(helper.make_node("Abs", [name], [f"{name}.absolute"]))
        model.graph.node.append(helper.make_node("ReduceMax", [f"{name}.absolute"], [f"{name}.largest"], keepdims=0))
        model.graph.output.append(helper.make_tensor_value_info(f"{name}.largest", TensorProto.FLOAT, []))
    measured = graph.with_name(f"{graph.stem}-measured.onnx")
    try:
        onnx.save(model, measured)
        del model
        session = load_graph(measured, CPU)
        largest = np.zeros(len(names), dtype=np.float32)
        for batch in batches:
            largest = np.maximum(largest, session.run([f"{name}.largest" for name in names], dict(batch)))
    finally:
        measured.unlink(missing_ok=True)
    return dict(zip(names, largest.tolist(), strict=True))
