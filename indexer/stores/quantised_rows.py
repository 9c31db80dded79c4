"""An int8 copy of vectors, which bounds their inner products with queries: faster than the products themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, Int8Array, int8_rows

if TYPE_CHECKING:
    import onnxruntime

_ROWS_OF_A_GRAPH = 20_000
"""More rows would take much memory while their graph is made."""
LARGEST_DIGIT = 63
"""Digits of a query are −63 to 63. Processors without int8 instructions add two products of a digit and a number of a
row in 16 bits: a graph takes digits from 0 to 126, and 2 · 126 · 127 fits."""
_ROUNDING = np.float32(1e-6)
"""Allowance for float32's rounding, as a share of the norms' product: not a proven bound, but thirty times what was
seen."""


class QuantisedRows:
    """An int8 copy of vectors.

    An inner product with the copy differs from that with the vector by at most the query's norm times the norm of the
    residual, the part of the vector that quantising lost (Cauchy–Schwarz). Two digits hold each number of a query, so
    that quantising loses next to nothing of it. The rows of a graph are centred first: a shorter vector loses less.
    """

    def __init__(self, vectors: FloatArray) -> None:
        """Copy (n, dim) float32 vectors; ONNX Runtime must be installed."""
        self._sessions, means, units, residual_norms, norms = [], [], [], [], []
        for start in range(0, len(vectors), _ROWS_OF_A_GRAPH):
            block = vectors[start : start + _ROWS_OF_A_GRAPH]
            mean = block.mean(axis=0)
            rest = block - mean
            rows = int8_rows(rest)
            unit = np.abs(rest).max(axis=1) / np.float32(127)
            rest -= rows * unit[:, None]
            self._sessions.append(_session(rows))
            means.append(mean)
            units.append(unit)
            residual_norms.append(np.linalg.norm(rest, axis=1))
            norms.append(np.linalg.norm(block, axis=1) + np.linalg.norm(mean))
        self._means, self._lengths = np.stack(means), [len(unit) for unit in units]
        self._units, self._residual_norms = np.concatenate(units), np.concatenate(residual_norms)
        self._norms = np.concatenate(norms)

    def bounds(self, queries: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """For each of (queries, dim) float32, (n,) lower and upper bounds of the inner products."""
        digits = QueryDigits.of(queries)
        digit_products = np.concatenate(
            [session.run(None, {"digits": digits.moved})[0] for session in self._sessions], axis=1
        )
        by_mean = queries @ self._means.T
        residual_norms = np.linalg.norm(digits.residuals, axis=1)
        for number, norm in enumerate(np.linalg.norm(queries, axis=1)):
            products = digit_products[number].astype(np.float32) * digits.high_units[number]
            products += digit_products[len(queries) + number].astype(np.float32) * digits.low_units[number]
            products *= self._units
            products += np.repeat(by_mean[number], self._lengths)
            errors = self._residual_norms * (norm + residual_norms[number])
            errors += self._norms * (residual_norms[number] + _ROUNDING * norm)
            yield products - errors, products + errors


class QueryDigits(NamedTuple):
    """Queries of which each number is a high digit and a low digit, in units of the query.

    Attributes:
        moved: (2 · queries, dim) the queries' high digits, then their low digits, plus ``LARGEST_DIGIT``.
        high_units: (queries, 1) float32.
        low_units: (queries, 1) float32.
        residuals: (queries, dim) what the digits leave out.
    """

    moved: npt.NDArray[np.uint8]
    high_units: FloatArray
    low_units: FloatArray
    residuals: FloatArray

    @classmethod
    def of(cls, queries: FloatArray) -> QueryDigits:
        """The digits of (queries, dim) float32."""
        largest = np.maximum(np.abs(queries).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        high_units, low_units = largest / np.float32(LARGEST_DIGIT), largest / np.float32(2 * LARGEST_DIGIT**2)
        high = np.rint(queries / high_units)
        rest = queries - high * high_units
        low = np.rint(rest / low_units)
        moved = (np.concatenate((high, low)) + LARGEST_DIGIT).astype(np.uint8)
        return cls(moved, high_units, low_units, rest - low * low_units)


def _session(rows: Int8Array) -> onnxruntime.InferenceSession:
    """A graph of the products of digits (any, dim) and (n, dim) rows: (any, n) int32."""
    import onnxruntime  # noqa: PLC0415 - few processes search often enough
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["digits", "rows", "zero"], ["products"])],
        "products",
        [helper.make_tensor_value_info("digits", TensorProto.UINT8, ["any", rows.shape[1]])],
        [helper.make_tensor_value_info("products", TensorProto.INT32, ["any", len(rows)])],
        [
            numpy_helper.from_array(np.ascontiguousarray(rows.T), "rows"),
            numpy_helper.from_array(np.uint8(LARGEST_DIGIT), "zero"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session._model_bytes = None  # noqa: SLF001 - otherwise it keeps the rows twice
    return session
