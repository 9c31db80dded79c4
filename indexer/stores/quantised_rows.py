"""An int8 copy of vectors, which bounds their inner products with queries: faster than the products themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from encoders.document import FloatArray, Int8Array, int8_rows

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnxruntime

_MOST_ROWS = 20_000
"""More rows would take much memory while their graph is made; at least twice as many as ``_ENOUGH_ROWS``."""
_ENOUGH_ROWS = 4_000
"""Rows from which calling a graph takes little beside its products."""
LARGEST_DIGIT = 63
"""A query's digits are −63 to 63, in a graph 0 to 126: 2 · 126 · 127 fits the 16 bits of older processors."""
_ROUNDING = 1e-6
"""Allowance for float32's rounding, as a share of the norms' product: not proven, but ten times the error seen."""


@dataclass
class RowBlock:
    """Adjacent rows of a matrix that share a graph."""

    rows: slice  # all rows of the block
    languages: dict[str, slice]  # the rows of each language


def row_blocks(languages: Mapping[str, slice]) -> list[RowBlock]:
    """Languages' rows, in their order, in blocks: small languages share a block, a large language has several."""
    blocks: list[RowBlock] = []
    for lang, rows in languages.items():
        parts = -(-_row_count(rows) // _MOST_ROWS)
        for start, stop in pairwise(np.linspace(rows.start, rows.stop, parts + 1, dtype=np.intp).tolist()):
            if not blocks or _row_count(blocks[-1].rows) >= _ENOUGH_ROWS or stop - start > _ENOUGH_ROWS:
                blocks.append(RowBlock(slice(start, start), {}))
            blocks[-1].rows = slice(blocks[-1].rows.start, stop)
            blocks[-1].languages[lang] = slice(start, stop)
    return blocks


def compared_rows(blocks: Sequence[RowBlock], queries: Mapping[str, FloatArray]) -> int:
    """The number of rows that the blocks' graphs compare, each block once for each array of its languages' queries."""
    return sum(_row_count(block.rows) * len(_distinct_queries(block.languages, queries)) for block in blocks)


def _row_count(rows: slice) -> int:
    return int(rows.stop - rows.start)


def _distinct_queries(langs: Iterable[str], queries: Mapping[str, FloatArray]) -> dict[int, FloatArray]:
    """The arrays of the languages' queries, each once, by their identity."""
    return {id(queries[lang]): queries[lang] for lang in langs if lang in queries}


class QuantisedRows:
    """An int8 copy of vectors.

    An inner product with the copy differs from that with the vector by at most the query's norm times the norm of the
    residual that quantising lost (Cauchy–Schwarz). A query's number has two digits, so it loses next to nothing. A
    graph's rows are centred first: a shorter vector loses less.
    """

    def __init__(self, vectors: FloatArray, blocks: Sequence[RowBlock]) -> None:
        """Copy (n, dim) float32 vectors; the blocks hold each row once. ONNX Runtime must be installed."""
        self._count = len(vectors)
        self._graphs = [_Graph.of(vectors[block.rows], block) for block in blocks]

    def bounds(self, queries: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds, (queries, n) float32, of the products of rows with their language's (queries, dim).

        Each language has the same number of queries. Rows of languages without queries get arbitrary numbers.
        """
        distinct = _distinct_queries(queries, queries)
        digits = dict(zip(distinct, QueryDigits.of(np.stack(list(distinct.values()))), strict=True))
        lower, upper = np.empty((2, len(next(iter(queries.values()))), self._count), dtype=np.float32)
        for graph in self._graphs:
            languages, first = graph.block.languages, graph.block.rows.start
            products_of = {
                identity: graph.products(vectors, digits[identity])
                for identity, vectors in _distinct_queries(languages, queries).items()
            }
            for lang in queries.keys() & languages.keys():
                products, errors = products_of[id(queries[lang])]
                rows = languages[lang]
                columns = slice(rows.start - first, rows.stop - first)
                np.subtract(products[:, columns], errors[:, columns], out=lower[:, rows])
                np.add(products[:, columns], errors[:, columns], out=upper[:, rows])
        return lower, upper


@dataclass(frozen=True)
class _Graph:
    """The int8 rows of a block."""

    block: RowBlock
    session: onnxruntime.InferenceSession
    mean: FloatArray  # (dim,) mean of the vectors, subtracted before quantising
    units: FloatArray  # (rows,) what 1 in an int8 row stands for
    norms: FloatArray  # (2, rows) norm of the residual; norm of the vector plus norm of the mean

    @classmethod
    def of(cls, vectors: FloatArray, block: RowBlock) -> _Graph:
        """Quantise the (rows, dim) vectors of a block."""
        mean = vectors.mean(axis=0)
        rest = vectors - mean
        rows = int8_rows(rest)
        units = np.abs(rest).max(axis=1) / np.float32(127)
        rest -= rows * units[:, None]
        vector_norms = np.linalg.norm(vectors, axis=1) + np.linalg.norm(mean)
        return cls(block, _session(rows), mean, units, np.stack((np.linalg.norm(rest, axis=1), vector_norms)))

    def products(self, queries: FloatArray, digits: QueryDigits) -> tuple[FloatArray, FloatArray]:
        """Inner products with (queries, dim), (queries, rows), and by how much each may be wrong."""
        digit_products = self.session.run(["products"], {"digits": digits.moved})[0]
        high, low = digit_products.astype(np.float32).reshape(2, len(queries), -1)
        products: FloatArray = high * digits.high_units + low * digits.low_units
        products *= self.units
        products += (queries @ self.mean)[:, None]
        return products, digits.losses @ self.norms


class QueryDigits(NamedTuple):
    """Queries of which each number is a high digit and a low digit, in units of the query."""

    moved: npt.NDArray[np.uint8]  # (2 · queries, dim) high digits, then low digits, plus ``LARGEST_DIGIT``
    high_units: FloatArray  # (queries, 1) float32
    low_units: FloatArray  # (queries, 1) float32
    residuals: FloatArray  # (queries, dim) what the digits leave out
    losses: FloatArray  # (queries, 2) factors; times a row's two norms they bound the error of a product

    @classmethod
    def of(cls, queries: FloatArray) -> list[QueryDigits]:
        """The digits of each array of (arrays, queries, dim) float32."""
        largest = np.maximum(np.abs(queries).max(axis=2, keepdims=True), np.finfo(np.float32).tiny)
        high_units, low_units = largest / np.float32(LARGEST_DIGIT), largest / np.float32(2 * LARGEST_DIGIT**2)
        high = np.rint(queries / high_units)
        rest = queries - high * high_units
        low = np.rint(rest / low_units)
        moved = (np.concatenate((high, low), axis=1) + LARGEST_DIGIT).astype(np.uint8)
        residuals = rest - low * low_units
        norms, residual_norms = (np.linalg.norm(rows, axis=2) for rows in (queries, residuals))
        losses = np.stack((norms + residual_norms, residual_norms + _ROUNDING * norms), axis=2)
        return [cls(*of_array) for of_array in zip(moved, high_units, low_units, residuals, losses, strict=True)]


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
    options.enable_cpu_mem_arena = False  # each of many graphs would keep a megabyte, in each process
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session._model_bytes = None  # noqa: SLF001 - otherwise it keeps the rows twice
    return session
