"""Quantise an fp32 graph to int8, with ranges of the products' inputs that sample inputs set.

The ranges are constants, so a vector does not depend on its batch. A few columns of a transformer's values are many
times as large as the others, and would leave them few of the 256 levels. So each column of a product's input is divided
by a number of its own, and the weights that it meets are multiplied by it: SmoothQuant (Xiao et al., 2023, eq. 3, 4).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray, Int8Array, int8_rows_and_scales
from encoders.errors import BadInput
from encoders.inference.graph import Inputs
from encoders.inference.unpadded import CONTRIB
from onnx_export.graphs.samples import measure

STRENGTH = 0.7
"""The paper's α: the share of a column's size that the weights take over; found on the parity gate's texts
(docs/decisions/0023-fixed-ranges.md)."""
_LEAST_SHARE = 0.1
"""Least size of a column as a share of the mean: other texts may use a column that the samples hardly use."""
_Span = tuple[FloatArray, FloatArray]
"""The least of each column of a value, at most 0, and the largest, at least 0, both (columns,)."""
_LEVELS = 255
"""The largest of the levels, which begin at 0."""
_LARGEST_PAIR = 127
"""The largest sum of two neighbouring weights in units of their scale, before both are rounded."""


@dataclass(frozen=True)
class _Rounding:
    """How an input of products becomes levels: level = value / factor / step + zero."""

    factors: FloatArray  # (columns,) float32
    step: np.float32
    zero: np.uint8


def eight_bits(source: Path, batches: Iterable[Inputs]) -> onnx.ModelProto:
    """Quantise a graph's constant matrices and embeddings: weights in int8 with a scale an output or a row.

    ``source``, of opset 21 or later, has a temporary graph beside it meanwhile. A value beyond the range that the
    ``batches`` set becomes the end of the range. Raises MissingPart: ONNX Runtime is not installed; BadInput: the graph
    can't be loaded, or makes values that are not finite numbers.
    """
    model = onnx.load(source, load_external_data=False)
    weights = {weight.name: weight for weight in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type == "MatMul" and constant_matrix(node, weights)]
    widths = {product.input[0]: weights[product.input[1]].dims[0] for product in products}
    spans = _spans(source, widths, batches)  # before the weights are loaded: the session has them, too
    onnx.load_external_data_for_model(model, str(source.parent))
    graph = _Graph(model.graph, weights, _roundings(products, weights, spans))
    for node in model.graph.node:
        if constant_matrix(node, weights):
            (graph.product if node.op_type == "MatMul" else graph.rows)(node)
        elif node.output[0] not in graph.computed:
            graph.nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(graph.nodes)
    model.graph.initializer.extend(graph.constants.values())
    if not any(entry.domain == CONTRIB for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    return model


def _roundings(
    products: Sequence[onnx.NodeProto], weights: Mapping[str, onnx.TensorProto], spans: Mapping[str, _Span]
) -> dict[str, _Rounding]:
    """The rounding of each value that enters a product, by its name."""
    names: dict[str, set[str]] = defaultdict(set)
    for product in products:
        value, weight = product.input
        names[value].add(weight)
    readers = Counter(name for of_value in names.values() for name in of_value)
    roundings = {}
    for value, of_value in names.items():
        lowest, highest = spans[value]
        factors = np.ones_like(highest)
        if all(readers[name] == 1 for name in of_value):  # a matrix can't take a factor from each of several values
            matrices = [numpy_helper.to_array(weights[name]) for name in sorted(of_value)]
            sizes = _sizes(np.maximum(-lowest, highest))
            largest_weights = _sizes(np.max([np.abs(matrix).max(axis=1) for matrix in matrices], axis=0))
            factors = sizes**STRENGTH / largest_weights ** (1 - STRENGTH)
        least, largest = (lowest / factors).min(), (highest / factors).max()
        step = np.float32((largest - least) / _LEVELS) or np.float32(1)
        roundings[value] = _Rounding(factors, step, np.uint8(np.rint(-least / step)))
    return roundings


def _spans(source: Path, widths: Mapping[str, int], batches: Iterable[Inputs]) -> dict[str, _Span]:
    """The span of each column of the values, whose numbers of columns are ``widths``."""
    if not widths:
        return {}
    constants = [numpy_helper.from_array(np.array([0], dtype=np.int64), "first_axis.measured")]
    nodes, names = [], []
    for value, width in widths.items():
        shape = numpy_helper.from_array(np.array([-1, width], dtype=np.int64), f"{value}.shape")
        constants.append(shape)
        nodes.append(helper.make_node("Reshape", [value, shape.name], [f"{value}.flat"]))
        for kind in ("ReduceMin", "ReduceMax"):
            names.append(f"{value}.{kind}")
            nodes.append(helper.make_node(kind, [f"{value}.flat", constants[0].name], [names[-1]], keepdims=0))
    measured = list(zip(*measure(source, nodes, names, batches, constants=constants), strict=True))
    lowest = [np.minimum(0, np.min(of_batches, axis=0)) for of_batches in measured[::2]]
    highest = [np.maximum(0, np.max(of_batches, axis=0)) for of_batches in measured[1::2]]
    if not all(np.isfinite(columns).all() for columns in (*lowest, *highest)):
        raise BadInput(
            "the graph makes values that are not finite numbers, so int8 has no range; take --precision fp32"
        )
    return dict(zip(widths, zip(lowest, highest, strict=True), strict=True))


def _sizes(largest: FloatArray) -> FloatArray:
    """Sizes of columns, none of them far below the mean, and 1 where all are 0."""
    mean = largest.mean()
    return np.maximum(largest, mean * _LEAST_SHARE) if mean > 0 else np.ones_like(largest)


def _whole_weights_and_scales(weights: FloatArray) -> tuple[Int8Array, FloatArray]:
    """Quantise (outputs, columns) weights to int8 with (outputs,) scales, so that all processors compute the same sums.

    x86 processors without VNNI add the products of two neighbouring columns in 16 bits, and cut sums off at 32,767. Two
    neighbouring weights of one sign add up to 127 scales at most, so to 128 when both are rounded; 255 × 128 fits.
    """
    pairs = np.add.reduceat(weights, np.arange(0, weights.shape[1], 2), axis=1)  # an odd last column stands alone
    largest = np.maximum(np.abs(weights).max(axis=1), np.abs(pairs).max(axis=1))
    scales = np.maximum(largest, np.finfo(np.float32).tiny) / np.float32(_LARGEST_PAIR)
    return np.rint(weights / scales[:, None]).astype(np.int8), scales


class _Graph:
    """A graph's nodes while they are replaced; ``computed`` are the values of the new nodes."""

    def __init__(
        self, graph: onnx.GraphProto, weights: Mapping[str, onnx.TensorProto], roundings: Mapping[str, _Rounding]
    ) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.computed: set[str] = set()
        self._weights, self._roundings = weights, roundings
        self._lengths = {weight.name: weight.dims[0] for weight in graph.initializer if len(weight.dims) == 1}
        self._reads = Counter(names_read(graph))
        self._sums = {name: node for node in graph.node if node.op_type == "Add" for name in node.input}

    def product(self, node: onnx.NodeProto) -> None:
        """Replace a product with a constant matrix, and the sum with a bias after it, by a product of whole numbers."""
        value, weight = node.input
        rounding = self._roundings[value]
        levels, step, zero = (f"{value}.{part}" for part in ("levels", "step", "zero"))
        if levels not in self.computed:
            self.computed.add(levels)
            rounded = value
            if (rounding.factors != 1).any():
                rounded = f"{value}.smooth"
                inverse = self._constant(f"{value}.factors", 1 / rounding.factors)
                self.nodes.append(helper.make_node("Mul", [value, inverse], [rounded], name=rounded))
            inputs = [rounded, self._constant(step, np.array(rounding.step))]
            inputs.append(self._constant(zero, np.array(rounding.zero)))
            self.nodes.append(helper.make_node("QuantizeLinear", inputs, [levels], name=levels))
        values, scales = _whole_weights_and_scales(numpy_helper.to_array(self._weights[weight]).T * rounding.factors)
        inputs = [
            levels, self._constant(f"{weight}.int8", values.T), step, self._constant(f"{weight}.scale", scales),
            zero,
        ]  # fmt: skip
        output, bias = self._biased(node.output[0], len(scales))
        if bias:
            inputs += [self._constant(f"{weight}.zero", np.array(0, dtype=np.int8)), bias]
        self.computed.add(output)
        self.nodes.append(helper.make_node("MatMulIntegerToFloat", inputs, [output], name=output, domain=CONTRIB))

    def _biased(self, product: str, width: int) -> tuple[str, str]:
        """The value that a product becomes, and its bias if nothing but the sum with a bias reads the product."""
        if self._reads[product] == 1 and product in self._sums:
            for name in self._sums[product].input:
                if self._lengths.get(name) == width:
                    return self._sums[product].output[0], name
        return product, ""

    def rows(self, node: onnx.NodeProto) -> None:
        """Replace the rows of a constant table by the rows in int8, and their scales."""
        table, indices = node.input
        name = node.output[0]
        values, scales = int8_rows_and_scales(numpy_helper.to_array(self._weights[table]))
        self._constant(f"{table}.rows", values)
        self._constant(f"{table}.rows.scales", scales[:, None])
        self.nodes += [
            helper.make_node("Gather", [f"{table}.rows", indices], [f"{name}.rows"], name=f"{name}.rows"),
            helper.make_node("Gather", [f"{table}.rows.scales", indices], [f"{name}.scales"], name=f"{name}.scales"),
            helper.make_node("Cast", [f"{name}.rows"], [f"{name}.whole"], name=f"{name}.whole", to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}.whole", f"{name}.scales"], [name], name=name),
        ]

    def _constant(self, name: str, value: npt.NDArray[Any]) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name


def names_read(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of the values that a graph's nodes, or its branches' nodes, read, and of its outputs."""
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for branch in (attribute.g, *attribute.graphs):
                yield from names_read(branch)


def constant_matrix(node: onnx.NodeProto, weights: Mapping[str, onnx.TensorProto]) -> onnx.TensorProto | None:
    """The float32 matrix that a product multiplies by, or the table whose rows a node gathers; otherwise none."""
    if node.op_type == "MatMul":
        weight = weights.get(node.input[1])
    elif node.op_type == "Gather" and not any(attribute.name == "axis" and attribute.i for attribute in node.attribute):
        weight = weights.get(node.input[0])
    else:
        return None
    return weight if weight and weight.data_type == TensorProto.FLOAT and len(weight.dims) == 2 else None
