"""An int8 copy of vectors, which bounds their inner products with queries: faster than the products themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, Int8Array, int8_rows

if TYPE_CHECKING:
    import onnxruntime

_MOST_ROWS = 20_000
"""More rows would take much memory while their graph is made."""
_ENOUGH_ROWS = 4_000
"""Rows from which calling a graph takes little beside its products."""
LARGEST_DIGIT = 63
"""Digits of a query are −63 to 63. Processors without int8 instructions add two products of a digit and a number of a
row in 16 bits: a graph takes digits from 0 to 126, and 2 · 126 · 127 fits."""
_ROUNDING = np.float32(1e-6)
"""Allowance for float32's rounding, as a share of the norms' product: not a proven bound, but thirty times what was
seen."""


RowBlock = Mapping[str, slice]
"""Adjacent rows that one graph has, by language."""


def row_blocks(languages: Mapping[str, slice]) -> list[RowBlock]:
    """Languages' rows, in their order, in blocks: small languages share a block, a large language has several."""
    blocks: list[dict[str, slice]] = []
    for lang, rows in languages.items():
        parts = -(-(rows.stop - rows.start) // _MOST_ROWS)
        for start, stop in pairwise(np.linspace(rows.start, rows.stop, parts + 1, dtype=np.intp).tolist()):
            if not blocks or not _size(blocks[-1]) < _ENOUGH_ROWS >= stop - start:
                blocks.append({})
            blocks[-1][lang] = slice(start, stop)
    return list(blocks)


def products_of_blocks(blocks: Sequence[RowBlock], queries: Mapping[str, FloatArray]) -> int:
    """The number of products of a row and a query that the graphs of blocks compute for queries by language."""
    return sum(_size(block) * sum(map(len, _distinct(block, queries).values())) for block in blocks)


def _size(block: RowBlock) -> int:
    return sum(rows.stop - rows.start for rows in block.values())


def _distinct(langs: Iterable[str], queries: Mapping[str, FloatArray]) -> dict[int, FloatArray]:
    """The arrays of the languages' queries, each once, by their identity."""
    return {id(queries[lang]): queries[lang] for lang in langs if lang in queries}


class QuantisedRows:
    """An int8 copy of vectors.

    An inner product with the copy differs from that with the vector by at most the query's norm times the norm of the
    residual, the part of the vector that quantising lost (Cauchy–Schwarz). Two digits hold each number of a query, so
    that quantising loses next to nothing of it. The rows of a graph are centred first: a shorter vector loses less.
    """

    def __init__(self, vectors: FloatArray, blocks: Sequence[RowBlock]) -> None:
        """Copy (n, dim) float32 vectors, all of them in blocks; ONNX Runtime must be installed."""
        self._count = len(vectors)
        self._graphs = [_Graph.of(vectors, block) for block in blocks]

    def bounds(self, queries: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Bounds of the inner products of each language's rows with the language's (queries, dim) float32.

        Languages that share queries should share the array. Rows of languages without queries get no bounds, and
        numbers that mean nothing.

        Returns:
            Lower and upper bounds, (queries, n) float32.
        """
        most = max(map(len, queries.values()))
        lower, upper = np.empty((2, most, self._count), dtype=np.float32)
        digits = {identity: QueryDigits.of(vectors) for identity, vectors in _distinct(queries, queries).items()}
        for graph in self._graphs:
            for identity, vectors in _distinct(graph.block, queries).items():
                products, errors = graph.products(vectors, digits[identity])
                for lang, rows in graph.block.items():
                    if queries.get(lang) is vectors:
                        own = slice(rows.start - graph.first, rows.stop - graph.first)
                        np.subtract(products[:, own], errors[:, own], out=lower[: len(vectors), rows])
                        np.add(products[:, own], errors[:, own], out=upper[: len(vectors), rows])
        return lower, upper


@dataclass(frozen=True)
class _Graph:
    """The int8 rows of a block.

    Attributes:
        first: the number of the first row.
        mean: (dim,) of the vectors, which their rows lack.
        units: (rows,) a vector's numbers are those of the row, in this unit.
        norms: (2, rows) of what quantising lost; of the vector, with the norm of the mean added.
    """

    block: RowBlock
    first: int
    session: onnxruntime.InferenceSession
    mean: FloatArray
    units: FloatArray
    norms: FloatArray

    @classmethod
    def of(cls, vectors: FloatArray, block: RowBlock) -> _Graph:
        """Quantise the rows of a block."""
        spans = list(block.values())
        vectors = vectors[spans[0].start : spans[-1].stop]
        mean = vectors.mean(axis=0)
        rest = vectors - mean
        rows = int8_rows(rest)
        units = np.abs(rest).max(axis=1) / np.float32(127)
        rest -= rows * units[:, None]
        whole = np.linalg.norm(vectors, axis=1) + np.linalg.norm(mean)
        norms = np.stack((np.linalg.norm(rest, axis=1), whole))
        return cls(block, spans[0].start, _session(rows), mean, units, norms)

    def products(self, queries: FloatArray, digits: QueryDigits) -> tuple[FloatArray, FloatArray]:
        """Inner products with (queries, dim), (queries, rows), and by how much they may be wrong."""
        of_digits = self.session.run(["products"], {"digits": digits.moved})[0]
        products = digits.units @ of_digits.astype(np.float32)
        products *= self.units
        products += (queries @ self.mean)[:, None]
        return products, digits.losses @ self.norms


class QueryDigits(NamedTuple):
    """Queries of which each number is a high digit and a low digit, in units of the query.

    Attributes:
        moved: (2 · queries, dim) the queries' high digits, then their low digits, plus ``LARGEST_DIGIT``.
        units: (queries, 2 · queries) matrix that makes products of queries of the products of their digits.
        residuals: (queries, dim) what the digits leave out.
        losses: (queries, 2) how much a product may be wrong, for each unit of a row's two norms.
    """

    moved: npt.NDArray[np.uint8]
    units: FloatArray
    residuals: FloatArray
    losses: FloatArray

    @classmethod
    def of(cls, queries: FloatArray) -> QueryDigits:
        """The digits of (queries, dim) float32."""
        largest = np.maximum(np.abs(queries).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        high_units, low_units = largest / np.float32(LARGEST_DIGIT), largest / np.float32(2 * LARGEST_DIGIT**2)
        high = np.rint(queries / high_units)
        rest = queries - high * high_units
        low = np.rint(rest / low_units)
        moved = (np.concatenate((high, low)) + LARGEST_DIGIT).astype(np.uint8)
        residuals = rest - low * low_units
        units = np.concatenate((np.diag(high_units[:, 0]), np.diag(low_units[:, 0])), axis=1)
        norms, lost = (np.linalg.norm(rows, axis=1) for rows in (queries, residuals))
        return cls(moved, units, residuals, np.stack((norms + lost, lost + _ROUNDING * norms), axis=1))


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
