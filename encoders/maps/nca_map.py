"""Neural concept approximation in ONNX Runtime (Tashu et al. 2024, section 3.2.3)."""

from __future__ import annotations

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.machine.placement import check_runtime
from encoders.wording import first_line


class Network:
    """One direction of NCA: from rows of one space to centred rows of another.

    The graph takes ``rows`` (n, dim) float32 as the encoder made them and returns ``mapped`` (n, dim); it centres the
    rows itself.
    """

    def __init__(self, graph: bytes) -> None:
        """Load a graph.

        Raises:
            MissingPart: ONNX Runtime is missing.
            BadInput: the graph can't be loaded.
        """
        check_runtime()
        import onnxruntime  # noqa: PLC0415 - --help need not load it

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's error classes share no base but Exception
            raise BadInput(f"the network can't be loaded ({first_line(error)}); train it again") from error

    def transform(self, rows: FloatArray) -> FloatArray:
        """Map rows to centred rows of the other space, (n, dim)."""
        mapped: FloatArray = self._session.run(["mapped"], {"rows": rows.astype(np.float32, copy=False)})[0]
        return mapped


def compared(
    x: FloatArray, y: FloatArray, means: tuple[FloatArray, FloatArray], forward: Network, backward: Network
) -> tuple[FloatArray, FloatArray]:
    """Rows whose cosines compare X with Y, both as the encoder made them: [x, f(x)] and [g(y), y].

    ``means`` are those of X and of Y in training; ``forward`` is f, from X to Y, and ``backward`` g.
    """
    x_rows = np.concatenate([x - means[0], forward.transform(x)], axis=1)
    y_rows = np.concatenate([backward.transform(y), y - means[1]], axis=1)
    return x_rows, y_rows
