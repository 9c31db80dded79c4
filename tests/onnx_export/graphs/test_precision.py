"""fp32 graphs → fp16, int8 and 4 bits: contract, sizes, arithmetic; what is beyond half precision stays in float32."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray
from encoders.errors import DISK_FULL
from encoders.folder.model_config import Precision
from encoders.inference.graph import Inputs, load_graph
from encoders.machine.placement import CPU
from onnx_export.default_model import bert_graph
from onnx_export.graphs.half_range import LARGEST, largest_values
from onnx_export.graphs.precision import BLOCK, convert, quantise_blocks, save_graph
from tests.onnx_export.conftest import SHAPE, files_of_at_most, weights


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "fp32.onnx"
    onnx.save(bert_graph.build(weights(), SHAPE), file)
    return file


def converted(source: Path, folder: Path, precision: Precision) -> Path:
    convert(source, folder / "model.onnx", precision, BATCHES)
    return folder / "model.onnx"


def run(graph: Path, ids: Any, mask: Any) -> FloatArray:
    return np.asarray(load_graph(graph, CPU).run(["vectors"], {"input_ids": ids, "attention_mask": mask})[0])


def batch() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    mask = (np.arange(40) < np.array([40, 1, 17, 5, 28, 9, 33, 2])[:, None]).astype(np.int64)
    return rng.integers(0, SHAPE.vocabulary, mask.shape), mask


BATCHES: list[Inputs] = [dict(zip(("input_ids", "attention_mask"), batch(), strict=True))]


_BARS = {"fp32": (1.0, 1), "fp16": (0.99999, 1 / 2), "int8": (0.998, 1 / 3), "q4": (0.95, 1 / 4)}


@pytest.mark.parametrize("precision", get_args(Precision))
def test_every_precision_keeps_the_contract(source: Path, tmp_path: Path, precision: Precision) -> None:
    cosine, room = _BARS[precision]
    own = tmp_path / "fp32.onnx"
    own.write_bytes(source.read_bytes())
    graph = converted(own, tmp_path, precision)
    assert {file.name for file in tmp_path.iterdir()} == {"fp32.onnx", "model.onnx"}
    ids, mask = batch()
    vectors = run(graph, ids, mask)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=2e-6)
    assert np.einsum("ij,ij->i", vectors, run(source, ids, mask)).min() >= cosine - 1e-6
    before, after = onnx.load(source).graph, onnx.load(graph).graph
    assert [info.name for info in after.input] == ["input_ids", "attention_mask"]
    assert [info.type for info in after.input] == [info.type for info in before.input]
    assert [(info.name, info.type) for info in after.output] == [(info.name, info.type) for info in before.output]
    rooms = [sum(len(value.raw_data) for value in of.initializer if len(value.dims) > 1) for of in (before, after)]
    assert rooms[1] <= room * rooms[0]
    assert graph.read_bytes() == converted(own, tmp_path, precision).read_bytes()
    save_graph(onnx.load(source), tmp_path / "split.onnx", least=1000)
    split = converted(tmp_path / "split.onnx", tmp_path, precision)  # its weights lie beside it
    np.testing.assert_array_equal(run(split, ids, mask), vectors)


def test_a_weight_that_nothing_reads_is_left_out_and_a_branch_keeps_its_own(tmp_path: Path) -> None:
    made = [helper.make_node("Identity", ["inner"], ["out"])]
    branch = helper.make_graph(made, "b", [], [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])
    node = helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=branch)
    weights_of = [numpy_helper.from_array(np.ones(2, dtype=np.float32), name) for name in ("inner", "unread")]
    condition = helper.make_tensor_value_info("condition", TensorProto.BOOL, [])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", [condition], [result], weights_of), ir_version=10)
    save_graph(model, tmp_path / "g.onnx")
    assert [weight.name for weight in onnx.load(tmp_path / "g.onnx").graph.initializer] == ["inner"]


def test_fp16_keeps_sums_and_norms_in_single_precision_and_bears_large_states(source: Path, tmp_path: Path) -> None:
    graph = onnx.load(converted(source, tmp_path, "fp16")).graph
    types = {tuple(weight.dims): weight.data_type for weight in graph.initializer}
    assert types[SHAPE.vocabulary, SHAPE.hidden] == TensorProto.FLOAT16
    assert not any(weight.data_type == TensorProto.FLOAT for weight in graph.initializer)
    assert {"Cast", "ReduceSum", "ReduceL2", "Div"} >= {node.op_type for node in graph.node[-4:]}
    casts = [node.output[0] for node in graph.node if node.op_type == "Cast"]
    assert "vectors" not in casts, "a cast at the end would mean that the norm was computed in half precision"
    large, ids, mask = weights(), *batch()
    large["encoder.layer.1.output.LayerNorm.weight"] *= 4000
    onnx.save(bert_graph.build(large, SHAPE), tmp_path / "fp32.onnx")
    vectors = run(converted(tmp_path / "fp32.onnx", tmp_path, "fp16"), ids, mask)
    assert np.einsum("ij,ij->i", vectors, run(tmp_path / "fp32.onnx", ids, mask)).min() > 0.9999


def test_four_bits_compute_with_the_weights_that_the_formula_gives(source: Path, tmp_path: Path) -> None:
    """The oracle: the fp32 graph with each weight replaced by its dequantised one."""
    rounded = onnx.load(source)
    products = {node.input[1] for node in rounded.graph.node if node.op_type == "MatMul"}
    tables = {node.input[0] for node in rounded.graph.node if node.op_type == "Gather"}
    for weight in rounded.graph.initializer:
        matrix = numpy_helper.to_array(weight)
        if weight.name in products:
            weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(dequantised(matrix.T).T), weight.name))
        elif weight.name in tables:
            weight.CopyFrom(numpy_helper.from_array(dequantised(matrix), weight.name))
    onnx.save(rounded, tmp_path / "rounded.onnx")
    ids, mask = batch()
    expected = run(tmp_path / "rounded.onnx", ids, mask)
    cosines = np.einsum("ij,ij->i", run(converted(source, tmp_path, "q4"), ids, mask), expected)
    assert cosines.min() > 0.999, "what is left is the rounding of activations to int8"


def dequantised(rows: FloatArray) -> FloatArray:
    blocks = quantise_blocks(rows)
    values = (blocks.codes.astype(np.float32) - 8) * blocks.scales[:, :, None]
    return np.ascontiguousarray(values.reshape(len(rows), -1)[:, : rows.shape[1]])


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 80)), elements=st.floats(-9, 9, width=32)))
def test_a_four_bit_weight_is_within_one_step_of_its_own(rows: FloatArray) -> None:
    blocks = quantise_blocks(rows)
    assert blocks.codes.shape == (len(rows), -(-rows.shape[1] // BLOCK), BLOCK)
    steps = np.repeat(np.abs(blocks.scales), BLOCK, axis=1)[:, : rows.shape[1]]
    assert (np.abs(dequantised(rows) - rows) <= steps * (1 + 1e-5) + 1e-30).all()
    largest, kept = (np.abs(values).max(axis=1) for values in (rows, dequantised(rows)))
    np.testing.assert_allclose(kept, largest, rtol=1e-6, atol=1e-30, err_msg="the largest of a block is kept exactly")


def test_large_weights_stand_beside_the_graph_for_all_who_may_read_it(source: Path, tmp_path: Path) -> None:
    target, data = tmp_path / "model.onnx", tmp_path / "model.onnx.data"
    for _ in range(2):
        save_graph(onnx.load(source), target, least=1000)
    assert target.stat().st_size < 60_000
    assert data.stat().st_mode == target.stat().st_mode
    assert data.stat().st_size < source.stat().st_size * 1.2, "written once, not appended to"
    ids, mask = batch()
    np.testing.assert_array_equal(run(target, ids, mask), run(source, ids, mask))
    save_graph(onnx.load(target), target)
    assert not data.exists()


@pytest.mark.long
def test_more_than_two_gigabytes_of_weights_which_no_message_holds_are_converted(source: Path, tmp_path: Path) -> None:
    made, word = weights(), "embeddings.word_embeddings.weight"
    made[word] = np.pad(made[word], ((0, 12_000_000), (0, 0)))
    save_graph(bert_graph.build(made, replace(SHAPE, vocabulary=len(made[word]))), tmp_path / "fp32.onnx")
    graph = converted(tmp_path / "fp32.onnx", tmp_path, "fp32")
    assert graph.with_name("model.onnx.data").stat().st_size > 2**31
    np.testing.assert_allclose(run(graph, *batch()), run(source, *batch()), atol=1e-6)
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_a_disk_without_room_is_the_system_s_error(source: Path, tmp_path: Path, precision: Precision) -> None:
    own = tmp_path / "fp32.onnx"
    own.write_bytes(source.read_bytes())
    room = files_of_at_most(own.stat().st_size + 100)  # the graph fits, with types it doesn't
    with room, pytest.raises(OSError, match="File too large") as full:
        converted(own, tmp_path, precision)
    assert full.value.errno in DISK_FULL


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
        return np.asarray(onnx.reference.ReferenceEvaluator(model).run(None, dict(BATCH))[0])


def test_a_sum_that_overflows_stays_in_single_precision(tmp_path: Path) -> None:
    model = _product(100)
    expected = _in_half_arithmetic(model)
    assert not np.isfinite(_in_half_arithmetic(_half(model, tmp_path))).all(), "what happens where nobody looks"
    half = _half(model, tmp_path, BATCH)
    np.testing.assert_allclose(_in_half_arithmetic(half), expected, atol=1e-3)
    onnx.checker.check_model(half, full_check=True)
    nodes = {node.op_type: node for node in half.graph.node}
    assert nodes["Mul"].input[0] == "sums", "no cast stands between two nodes in single precision"
    values = onnx.shape_inference.infer_shapes(half).graph.value_info
    types = {info.name: info.type.tensor_type.elem_type for info in values}
    assert types["sums"] == TensorProto.FLOAT
    assert types["states"] == types[nodes["Relu"].output[0]] == TensorProto.FLOAT16
    del model.graph.node[2:4]  # the sums themselves are pooled, before which pooling begins
    model.graph.node[2].input[0] = "sums"
    expected = _in_half_arithmetic(model)
    np.testing.assert_allclose(_in_half_arithmetic(_half(model, tmp_path, BATCH)), expected, atol=1e-3)


def test_a_mask_s_lowest_number_is_no_overflow(tmp_path: Path) -> None:
    constants: dict[str, npt.NDArray[Any]] = {
        "table": np.arange(12, dtype=np.float32).reshape(3, 4),
        "lowest": np.array(np.finfo(np.float32).min),
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


def test_large_weights_beside_the_graph_are_measured_too_and_what_is_not_a_number_is_largest(tmp_path: Path) -> None:
    graph = tmp_path / "fp32.onnx"
    save_graph(onnx.shape_inference.infer_shapes(_product(100)), graph, least=100)
    largest = largest_values(graph, [], [BATCH])
    assert largest["sums"] == pytest.approx(640_000)
    assert largest["small"] == pytest.approx(6_400)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fp32.onnx", "fp32.onnx.data"]
    model = _product(100)
    table = np.full((3, 64), np.nan, dtype=np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "table"))
    onnx.save(onnx.shape_inference.infer_shapes(model), graph)
    assert not largest_values(graph, [], [BATCH])["sums"] <= LARGEST
