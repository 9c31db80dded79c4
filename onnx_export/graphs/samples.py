"""Sample texts as inputs of a graph, and the values that a graph computes of them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from encoders.document import FloatArray
from encoders.inference.graph import Inputs, load_graph
from encoders.inference.session import CPU_TOKEN_BUDGET, padded, token_batches
from encoders.machine.placement import CPU


def sample_texts() -> list[str]:
    """The package's sample texts, other than the gate's: many scripts, code, tables, numbers, single signs."""
    return Path(__file__).with_name("sample_texts.txt").read_text(encoding="utf-8").splitlines()


def token_inputs(rows: Sequence[Sequence[int]], pad: int, max_tokens: int) -> Iterator[Inputs]:
    """Inputs of a graph of tokens: the rows in padded batches, then a long row of the first rows' tokens."""
    arrays = [np.array(row, dtype=np.int32) for row in rows]
    joined = np.concatenate(arrays)[: min(max_tokens, CPU_TOKEN_BUDGET)]
    batches = [[arrays[row] for row in batch] for batch in token_batches(list(map(len, arrays)), CPU_TOKEN_BUDGET)]
    for batch in (*batches, [joined]):
        ids, mask = padded(batch, pad)
        yield {"input_ids": ids, "attention_mask": mask}


def measure(
    graph: Path,
    nodes: Iterable[onnx.NodeProto],
    names: Sequence[str],
    batches: Iterable[Inputs],
    *,
    constants: Iterable[onnx.TensorProto] = (),
) -> Iterator[list[FloatArray]]:
    """Run a graph with more nodes; for each batch, the values of these names, which the nodes make.

    Nodes that reduce values where they are made keep memory small. ``constants`` replace the graph's of the same names,
    or are more of them. A temporary graph lies beside ``graph``. Raises MissingPart: ONNX Runtime is not installed;
    BadInput: the graph can't be loaded.
    """
    model = onnx.load(graph, load_external_data=False)
    replacements = {constant.name: constant for constant in constants}
    kept = [weight for weight in model.graph.initializer if weight.name not in replacements]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, *replacements.values()])
    model.graph.node.extend(nodes)
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    measured = graph.with_name(f"{graph.stem}-measured.onnx")
    try:
        onnx.save(model, measured)
        del model
        session = load_graph(measured, CPU)
        for batch in batches:
            yield session.run(list(names), dict(batch))
    finally:
        measured.unlink(missing_ok=True)
