"""Values beyond half precision's range are found in float32, and their nodes stay there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

from encoders.console import Console
from encoders.document import FloatArray
from encoders.inference.graph import Inputs
from onnx_export.default_model import making
from onnx_export.graphs import precision
from onnx_export.graphs.half_range import LARGEST, largest_values
from onnx_export.graphs.precision import convert
from onnx_export.graphs.samples import token_inputs

IDS = np.array([[1, 0], [0, 2]], dtype=np.int64)
BATCH: Inputs = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}
_GATHER = helper.make_node("Gather", ["table", "input_ids"], ["states"], name="words")


def _product(weight: float) -> onnx.ModelProto:
    """Sums of 64 products of 100 and a weight, of which a hundredth is pooled: half precision ends at weight 10."""
    table = np.full((3, 64), 100, dtype=np.float32)
    table[1, 32:], table[2, 48:] = 0, 50
    constants: dict[str, npt.NDArray[Any]] = {
        "table": table,
        "weight": np.full((64, 4), weight, dtype=np.float32) * np.array([1, 0.5, -1, 0.25], dtype=np.float32),
        "hundredth": np.array(0.01, dtype=np.float32),
        "axis": np.array([1], dtype=np.int64),
    }
    return _model(
        [
            helper.make_node("MatMul", ["states", "weight"], ["sums"]),
            helper.make_node("Mul", ["sums", "hundredth"], ["small"], name="small"),
            helper.make_node("Relu", ["small"], ["positive"], name="relu"),
            helper.make_node("ReduceSum", ["positive", "axis"], ["pooled"], keepdims=0),
        ],
        constants,
    )


def _model(nodes: list[onnx.NodeProto], constants: Mapping[str, npt.NDArray[Any]]) -> onnx.ModelProto:
    """A graph from the rows of a table, ``states``, to ``pooled``, which is scaled to unit length."""
    graph = helper.make_graph(
        [
            _GATHER,
            *nodes,
            helper.make_node("ReduceL2", ["pooled", "axis"], ["norm"], keepdims=1),
            helper.make_node("Div", ["pooled", "norm"], ["vectors"]),
        ],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in BATCH],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", 4])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _half(model: onnx.ModelProto, folder: Path, *batches: Inputs) -> onnx.ModelProto:
    onnx.save(model, folder / "fp32.onnx")
    convert(folder / "fp32.onnx", folder / "fp16.onnx", "fp16", batches)
    assert sorted(file.name for file in folder.iterdir()) == ["fp16.onnx", "fp32.onnx"]
    return onnx.load(folder / "fp16.onnx")


def _in_half_arithmetic(model: onnx.ModelProto) -> FloatArray:
    """The vectors by NumPy, which computes float16 in float16, unlike ONNX Runtime on a CPU."""
    with np.errstate(all="ignore"):
        vectors: FloatArray = onnx.reference.ReferenceEvaluator(model).run(None, dict(BATCH))[0]
    return vectors


def test_a_sum_that_overflows_stays_in_single_precision(tmp_path: Path) -> None:
    model = _product(100)
    expected = _in_half_arithmetic(model)
    assert not np.isfinite(_in_half_arithmetic(_half(model, tmp_path))).all(), "what happens where nobody looks"
    half = _half(model, tmp_path, BATCH)
    np.testing.assert_allclose(_in_half_arithmetic(half), expected, atol=1e-3)
    onnx.checker.check_model(half, full_check=True)
    nodes = {node.op_type: node for node in half.graph.node}
    assert nodes["Mul"].input[0] == "sums", "no cast stands between two nodes in single precision"
    types = {
        info.name: info.type.tensor_type.elem_type for info in onnx.shape_inference.infer_shapes(half).graph.value_info
    }
    assert types["sums"] == TensorProto.FLOAT
    assert types["states"] == types[nodes["Relu"].output[0]] == TensorProto.FLOAT16


def test_a_graph_in_range_is_converted_as_if_nobody_had_looked(tmp_path: Path) -> None:
    assert _half(_product(4), tmp_path, BATCH) == _half(_product(4), tmp_path)


def test_pooling_begins_before_values_that_overflow(tmp_path: Path) -> None:
    model = _product(100)
    del model.graph.node[2:4]  # the sums themselves are pooled
    model.graph.node[2].input[0] = "sums"
    expected = _in_half_arithmetic(model)
    np.testing.assert_allclose(_in_half_arithmetic(_half(model, tmp_path, BATCH)), expected, atol=1e-3)


def test_a_mask_s_lowest_number_is_no_overflow(tmp_path: Path) -> None:
    lowest = np.array(np.finfo(np.float32).min)
    constants: dict[str, npt.NDArray[Any]] = {
        "table": np.arange(12, dtype=np.float32).reshape(3, 4),
        "lowest": lowest,
        "none": np.array(0, dtype=np.int64),
        "axis": np.array([1], dtype=np.int64),
    }
    model = _model(
        [
            helper.make_node("Greater", ["input_ids", "none"], ["there"]),
            helper.make_node("Unsqueeze", ["there", "axis"], ["across"]),
            helper.make_node("Where", ["across", "scores", "lowest"], ["masked"], name="masked"),
            helper.make_node("Softmax", ["masked"], ["shares"], name="shares"),
            helper.make_node("MatMul", ["shares", "states"], ["mixed"], name="mixed"),
            helper.make_node("ReduceSum", ["mixed", "axis"], ["pooled"], keepdims=0),
        ],
        constants,
    )
    turned = helper.make_node("Transpose", ["states"], ["turned"], perm=[0, 2, 1], name="turned")
    scores = helper.make_node("MatMul", ["states", "turned"], ["scores"], name="scores")
    for node in (scores, turned):
        model.graph.node.insert(1, node)
    expected = _in_half_arithmetic(model)
    half = _half(model, tmp_path, BATCH)
    np.testing.assert_allclose(_in_half_arithmetic(half), expected, atol=1e-3)
    (bound,) = (numpy_helper.to_array(weight) for weight in half.graph.initializer if weight.name == "lowest")
    assert (bound.dtype, bound) == (np.float16, -10_000)


def test_large_weights_beside_the_graph_are_measured_too(tmp_path: Path) -> None:
    graph = tmp_path / "fp32.onnx"
    precision.save_graph(onnx.shape_inference.infer_shapes(_product(100)), graph, least=100)
    largest = largest_values(graph, [], [BATCH])
    assert largest["sums"] == pytest.approx(640_000)
    assert largest["small"] == pytest.approx(6_400)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fp32.onnx", "fp32.onnx.data"]


def test_a_value_that_is_not_a_number_is_largest(tmp_path: Path) -> None:
    model = _product(100)
    graph = tmp_path / "fp32.onnx"
    table = np.full((3, 64), np.nan, dtype=np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "table"))
    onnx.save(onnx.shape_inference.infer_shapes(model), graph)
    assert not largest_values(graph, [], [BATCH])["sums"] <= LARGEST


def test_rows_come_in_batches_and_as_one_long_row() -> None:
    first, second = token_inputs([[1, 2, 3], [4]], pad=9, max_tokens=3)
    assert first["input_ids"].tolist() == [[4, 9, 9], [1, 2, 3]]
    assert first["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert second["input_ids"].tolist() == [[1, 2, 3]]


@pytest.mark.long
def test_the_default_encoder_is_far_from_the_end_of_half_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: dict[str, float] = {}

    def largest(*args: object) -> dict[str, float]:
        measured.update(largest_values(*args))  # type: ignore[arg-type]
        return measured

    monkeypatch.setattr(precision, "largest_values", largest)
    making.make(tmp_path / "half", Console(quiet=True), "fp16")
    assert 100 < max(measured.values()) < LARGEST / 10
