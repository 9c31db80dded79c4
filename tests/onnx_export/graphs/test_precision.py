"""fp32 graphs → fp16, int8 and 4 bits: the contract stays, the sizes shrink, the arithmetic is what is said."""

import resource
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
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
from onnx_export.graphs.precision import BLOCK, convert, four_bits, quantise_blocks, save_graph
from tests.onnx_export.conftest import SHAPE, weights


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "fp32.onnx"
    onnx.save(bert_graph.build(weights(), SHAPE), file)
    return file


def converted(source: Path, folder: Path, precision: Precision) -> Path:
    convert(source, folder / "model.onnx", precision, BATCHES)
    return folder / "model.onnx"


def run(graph: Path, ids: Any, mask: Any) -> FloatArray:
    vectors: FloatArray = load_graph(graph, CPU).run(["vectors"], {"input_ids": ids, "attention_mask": mask})[0]
    return vectors


def words(weight: onnx.TensorProto) -> bool:
    return tuple(weight.dims) == (SHAPE.vocabulary, SHAPE.hidden)


def batch() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    lengths = np.array([40, 1, 17, 5, 28, 9, 33, 2])
    mask = (np.arange(40) < lengths[:, None]).astype(np.int64)
    return rng.integers(0, SHAPE.vocabulary, mask.shape), mask


BATCHES: list[Inputs] = [dict(zip(("input_ids", "attention_mask"), batch(), strict=True))]


CLOSE: list[tuple[Precision, float]] = [("fp32", 1.0), ("fp16", 0.99999), ("int8", 0.998), ("q4", 0.95)]


@pytest.mark.parametrize(("precision", "cosine"), CLOSE)
def test_every_precision_makes_float_unit_rows_close_to_the_sources(
    source: Path, tmp_path: Path, precision: Precision, cosine: float
) -> None:
    graph = converted(source, tmp_path, precision)
    ids, mask = batch()
    vectors = run(graph, ids, mask)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=2e-6)
    assert np.einsum("ij,ij->i", vectors, run(source, ids, mask)).min() >= cosine - 1e-6


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8", "q4"])
def test_inputs_and_output_stay_as_the_contract_says(source: Path, tmp_path: Path, precision: Precision) -> None:
    before, after = onnx.load(source).graph, onnx.load(converted(source, tmp_path, precision)).graph
    assert [info.name for info in after.input] == ["input_ids", "attention_mask"]
    assert [info.type for info in after.input] == [info.type for info in before.input]
    assert [(info.name, info.type) for info in after.output] == [(info.name, info.type) for info in before.output]


def test_nothing_but_the_graph_is_left_behind(source: Path, tmp_path: Path) -> None:
    own = tmp_path / "fp32.onnx"
    own.write_bytes(source.read_bytes())
    for precision in ("fp32", "fp16", "int8", "q4"):
        convert(own, tmp_path / f"{precision}.made.onnx", precision, BATCHES)
    made = [f"{precision}.made.onnx" for precision in ("fp16", "fp32", "int8", "q4")]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["fp32.onnx", *made])


def test_each_step_down_takes_less_room(source: Path, tmp_path: Path) -> None:
    sizes = []
    for precision in ("fp32", "fp16", "int8", "q4"):
        convert(source, tmp_path / f"{precision}.onnx", precision, BATCHES)
        weights_of = onnx.load(tmp_path / f"{precision}.onnx").graph.initializer
        sizes.append(sum(len(weight.raw_data) for weight in weights_of if len(weight.dims) > 1))
    fp32, fp16, int8, q4 = sizes
    assert fp16 == fp32 / 2
    assert int8 < fp32 / 3
    assert q4 < fp32 / 4


def test_int8_takes_every_matrix_and_every_embedding(source: Path, tmp_path: Path) -> None:
    graph = onnx.load(converted(source, tmp_path, "int8")).graph
    kinds = Counter(node.op_type for node in graph.node)
    assert kinds["MatMulIntegerToFloat"] == 6 * SHAPE.layers
    assert kinds["MatMul"] == 2 * SHAPE.layers, "the products inside attention, which have no weights"
    assert [weight.data_type for weight in graph.initializer if words(weight)] == [TensorProto.INT8]
    scales = [weight.dims[0] for weight in graph.initializer if weight.name.endswith(".scale")]
    assert sorted(scales) == sorted([SHAPE.hidden] * 5 * SHAPE.layers + [SHAPE.feed_forward] * SHAPE.layers)


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


def test_fp16_keeps_sums_and_norms_in_single_precision(source: Path, tmp_path: Path) -> None:
    graph = onnx.load(converted(source, tmp_path, "fp16")).graph
    assert [weight.data_type for weight in graph.initializer if words(weight)] == [TensorProto.FLOAT16]
    assert not any(weight.data_type == TensorProto.FLOAT for weight in graph.initializer)
    assert {"Cast", "ReduceSum", "ReduceL2", "Div"} >= {node.op_type for node in graph.node[-4:]}
    casts = [node.output[0] for node in graph.node if node.op_type == "Cast"]
    assert "vectors" not in casts, "a cast at the end would mean that the norm was computed in half precision"


def test_fp16_does_not_overflow_on_large_states(tmp_path: Path) -> None:
    large = weights()
    large["encoder.layer.1.output.LayerNorm.weight"] *= 4000
    onnx.save(bert_graph.build(large, SHAPE), tmp_path / "fp32.onnx")
    ids, mask = batch()
    convert(tmp_path / "fp32.onnx", tmp_path / "fp16.onnx", "fp16", BATCHES)
    vectors = run(tmp_path / "fp16.onnx", ids, mask)
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


def test_four_bit_rows_are_gathered_exactly(tmp_path: Path) -> None:
    import onnxruntime

    table = np.random.default_rng(1).normal(size=(11, 48)).astype(np.float32)
    node = helper.make_node("Gather", ["table", "ids"], ["rows"], name="rows")
    ids, rows = ("ids", TensorProto.INT64, ["n"]), ("rows", TensorProto.FLOAT, ["n", 48])
    inputs, outputs = [helper.make_tensor_value_info(*ids)], [helper.make_tensor_value_info(*rows)]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    save_graph(four_bits(model), tmp_path / "g.onnx")
    wanted = np.array([10, 0, 3, 3], dtype=np.int64)
    got = onnxruntime.InferenceSession(tmp_path / "g.onnx").run(None, {"ids": wanted})[0]
    np.testing.assert_allclose(got, dequantised(table)[wanted], rtol=1e-6)


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 80)), elements=st.floats(-9, 9, width=32)))
def test_a_four_bit_weight_is_within_one_step_of_its_own(rows: FloatArray) -> None:
    blocks = quantise_blocks(rows)
    assert blocks.codes.shape == (len(rows), -(-rows.shape[1] // BLOCK), BLOCK)
    steps = np.repeat(np.abs(blocks.scales), BLOCK, axis=1)[:, : rows.shape[1]]
    assert (np.abs(dequantised(rows) - rows) <= steps * (1 + 1e-5) + 1e-30).all()


def test_the_largest_weight_of_a_block_is_kept_exactly_and_zeros_stay_zeros() -> None:
    rows = np.zeros((2, 64), dtype=np.float32)
    rows[0, 5], rows[0, 6] = -7.3, 7.2
    kept = dequantised(rows)
    assert kept[0, 5] == pytest.approx(-7.3, rel=1e-6)
    assert (kept[1] == 0).all()
    assert (kept[0, 32:] == 0).all()


def test_large_weights_stand_beside_the_graph_for_all_who_may_read_it(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.onnx"
    save_graph(onnx.load(source), target, least=1000)
    save_graph(onnx.load(source), target, least=1000)
    data = tmp_path / "model.onnx.data"
    assert target.stat().st_size < 60_000
    assert data.stat().st_mode == target.stat().st_mode
    assert data.stat().st_size < source.stat().st_size * 1.2, "written once, not appended to"
    ids, mask = batch()
    np.testing.assert_array_equal(run(target, ids, mask), run(source, ids, mask))
    save_graph(onnx.load(target), target)
    assert not data.exists()


@pytest.mark.parametrize("precision", ["fp16", "int8", "q4"])
def test_a_source_with_weights_beside_it_is_converted_like_any_other(
    source: Path, tmp_path: Path, precision: Precision
) -> None:
    split = tmp_path / "split.onnx"
    save_graph(onnx.load(source), split, least=1000)
    convert(split, tmp_path / "from_split.onnx", precision, BATCHES)
    convert(source, tmp_path / "from_one.onnx", precision, BATCHES)
    ids, mask = batch()
    np.testing.assert_array_equal(
        run(tmp_path / "from_split.onnx", ids, mask), run(tmp_path / "from_one.onnx", ids, mask)
    )


def test_a_conversion_writes_the_same_bytes_each_time(source: Path, tmp_path: Path) -> None:
    for precision in ("fp32", "fp16", "int8", "q4"):
        first, second = tmp_path / f"{precision}.1.onnx", tmp_path / f"{precision}.2.onnx"
        convert(source, first, precision, BATCHES)
        convert(source, second, precision, BATCHES)
        assert first.read_bytes() == second.read_bytes(), precision


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_a_disk_that_has_no_room_for_the_shapes_is_the_system_s_error(
    source: Path, tmp_path: Path, precision: Precision
) -> None:
    own = tmp_path / "fp32.onnx"
    own.write_bytes(source.read_bytes())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (own.stat().st_size + 100, hard))  # the graph fits, with types it doesn't
    try:
        with pytest.raises(OSError, match="File too large") as full:
            convert(own, tmp_path / "model.onnx", precision, BATCHES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert full.value.errno in DISK_FULL
