"""Load an int8 graph in OpenVINO, which is faster where a processor computes in bfloat16 and batches have one shape."""

import logging
import sys
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from encoders.document import FloatArray
from encoders.inference.graph import Graph, Inputs
from encoders.machine.placement import is_installed
from encoders.phrases import first_line

_logger = logging.getLogger("dragoman.encoders")


class OpenVinoGraph:
    """A graph for batches of one shape, without padding; several threads may run it at once, each on one core."""

    def __init__(self, file: Path, shape: tuple[int, int], threads: int) -> None:
        """Load the graph for (texts, tokens). Raises RuntimeError: OpenVINO can't read or compile it."""
        core = _core()
        model = core.read_model(str(file))
        for choice in (node for node in model.get_ops() if node.get_type_name() == "If"):
            branch = choice.get_else_body()  # without mask; OpenVINO would join no nodes across a choice
            for entry in choice.get_input_descriptions(1):
                value = branch.get_parameters()[entry.body_parameter_index].output(0)
                value.replace(choice.input_value(entry.input_index))
            choice.output(0).replace(branch.get_results()[0].input_value(0))
        model.validate_nodes_and_infer_types()
        model.reshape({name: shape for value in model.inputs for name in value.names})
        settings = {"NUM_STREAMS": threads, "INFERENCE_NUM_THREADS": threads, "ENABLE_CPU_PINNING": False}
        compiled = core.compile_model(model, "CPU", settings)
        self._free = SimpleQueue[Any]()
        for _ in range(threads):
            self._free.put(compiled.create_infer_request())

    def run(self, output: str, inputs: Inputs) -> FloatArray:
        """The graph's output of the inputs."""
        request = self._free.get()
        try:
            return np.asarray(request.infer(dict(inputs))[output], dtype=np.float32)  # a copy of the request's
        finally:
            self._free.put(request)


def _core() -> Any:
    """OpenVINO, without its converter of models, which sends usage data when it is imported."""
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
    import openvino  # noqa: PLC0415 - an extra

    return openvino.Core()


def faster_graph(graph: Graph, file: Path, output: str, shape: tuple[int, int], threads: int) -> Graph | OpenVinoGraph:
    """The graph for a shape in OpenVINO, if that is installed, faster and agrees with ``graph``; otherwise ``graph``.

    A processor's instructions decide whether it is faster, not a trial: a run that goes on uses what it began with.
    """
    if not is_installed("openvino") or "BF16" not in _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        return graph
    ids = 1 + np.arange(shape[0] * shape[1]).reshape(shape) % 32  # the first tokens of any vocabulary
    sample = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    try:
        faster = OpenVinoGraph(file, shape, threads)
        cosine = float((faster.run(output, sample) * graph.run(output, sample)).sum(axis=1).min())
    except RuntimeError as error:
        _logger.warning("%s works in ONNX Runtime: OpenVINO fails (%s)", file, first_line(error))
        return graph
    if not cosine >= 0.97:  # the parity bar of int8
        _logger.warning("%s works in ONNX Runtime: OpenVINO's vectors differ (cosine %.3f)", file, cosine)
        return graph
    return faster
