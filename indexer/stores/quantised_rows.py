"""An int8 copy of vectors, which bounds their inner products with queries in a fifth of the time of the products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, int8_rows

_ROWS = 20_000
"""Rows of one graph: more would take much memory while it is made."""
_DIGIT = 63
"""Largest digit of a query. Processors without int8 instructions add two products of a digit and a number of a row in
16 bits: digits are moved to 0 … 126, and 2 · 126 · 127 fits."""
_ROUNDING = np.float32(1e-6)
"""Bound of float32's rounding errors, as a share of the product of the norms."""


class QuantisedRows:
    """An int8 copy of vectors.

    A query's inner product with a vector is that with the copy, but for the query's norm times the norm of what
    quantising took from the vector (Cauchy and Schwarz). Each number of a query is written with two digits, so that
    quantising takes next to nothing from it. The rows of a graph are centred first: a shorter vector loses less.
    """

    def __init__(self, vectors: FloatArray) -> None:
        """Copy (n, dim) float32 vectors; ONNX Runtime must be installed."""
        self._graphs = [_Graph(vectors[start : start + _ROWS]) for start in range(0, len(vectors), _ROWS)]

    def bounds(self, queries: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """For each of (queries, dim) float32, (n,) lower bounds of the inner products, and the width of the bounds."""
        peaks = np.maximum(np.abs(queries).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        units = peaks / np.float32(_DIGIT), peaks / np.float32(2 * _DIGIT**2)
        first = np.rint(queries / units[0])
        rest = queries - first * units[0]
        second = np.rint(rest / units[1])
        lost = np.linalg.norm(rest - second * units[1], axis=1)
        digits = (np.concatenate((first, second)) + _DIGIT).astype(np.uint8)
        products = [graph.products(digits) for graph in self._graphs]
        for number, query in enumerate(queries):
            lower, width = zip(
                *(
                    graph.bounds(
                        query,
                        of_digits[number] * units[0][number] + of_digits[len(queries) + number] * units[1][number],
                        lost[number],
                    )
                    for graph, of_digits in zip(self._graphs, products, strict=True)
                ),
                strict=True,
            )
            yield np.concatenate(lower), np.concatenate(width)


class _Graph:
    """The products of queries' digits with some rows, in ONNX Runtime."""

    def __init__(self, vectors: FloatArray) -> None:
        import onnxruntime  # noqa: PLC0415 - few processes search often enough
        from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

        self._mean = vectors.mean(axis=0)
        rest = vectors - self._mean
        rows = int8_rows(rest)
        self._units = np.abs(rest).max(axis=1) / np.float32(127)
        rest -= rows * self._units[:, None]
        self._norm = np.linalg.norm(vectors, axis=1).max() + np.linalg.norm(self._mean)
        self._lost = np.linalg.norm(rest, axis=1) + _ROUNDING * self._norm
        graph = helper.make_graph(
            [helper.make_node("MatMulInteger", ["digits", "rows", "zero"], ["products"])],
            "products",
            [helper.make_tensor_value_info("digits", TensorProto.UINT8, ["digits", rows.shape[1]])],
            [helper.make_tensor_value_info("products", TensorProto.INT32, ["digits", len(rows)])],
            [
                numpy_helper.from_array(np.ascontiguousarray(rows.T), "rows"),
                numpy_helper.from_array(np.uint8(_DIGIT), "zero"),
            ],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._session._model_bytes = None  # noqa: SLF001 - otherwise it keeps the rows twice

    def products(self, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
        """(digits, n) products."""
        products: npt.NDArray[np.int32] = self._session.run(None, {"digits": digits})[0]
        return products

    def bounds(self, query: FloatArray, products: FloatArray, lost: np.float32) -> tuple[FloatArray, FloatArray]:
        """(n,) lower bounds of a query's inner products, and the width of the bounds.

        ``products`` are (n,) of the written query with the int8 rows, ``lost`` is the norm of what was not written.
        """
        width = self._lost * np.linalg.norm(query) + lost * self._norm
        return products * self._units + (query @ self._mean - width), 2 * width
