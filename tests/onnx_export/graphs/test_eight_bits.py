"""int8 graphs: fixed ranges from samples, columns of like size, whole numbers that are exact on every processor."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import load_graph
from encoders.machine.placement import CPU
from onnx_export.graphs.eight_bits import STRENGTH, eight_bits
from onnx_export.graphs.parity import read_texts
from onnx_export.graphs.precision import four_bits, save_graph
from onnx_export.graphs.samples import sample_texts

ROWS, COLUMNS, OUTPUTS = 40, 24, 6
RNG = np.random.default_rng(7)
WEIGHT = RNG.normal(size=(COLUMNS, OUTPUTS)).astype(np.float32)
BIAS = RNG.normal(size=OUTPUTS).astype(np.float32)
SAMPLES = RNG.normal(size=(ROWS, COLUMNS)).astype(np.float32)


def write(
    folder: Path, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str] = ("y",), weight: FloatArray = WEIGHT
) -> Path:
    """A graph of ``x`` (rows, columns) with a weight and a bias, or of the rows or columns ``ids`` of the weight."""
    ids = nodes[0].op_type == "Gather"
    kind, shape = (TensorProto.INT64, ["rows"]) if ids else (TensorProto.FLOAT, ["rows", len(weight)])
    made = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("ids" if ids else "x", kind, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(BIAS, "bias")],
    )
    file = folder / "fp32.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), file)
    return file


PRODUCT = helper.make_node("MatMul", ["x", "weight"], ["product"])
SUM = helper.make_node("Add", ["product", "bias"], ["y"])


def run(model: onnx.ModelProto, folder: Path, x: FloatArray, output: str = "y") -> FloatArray:
    save_graph(model, folder / "int8.onnx")
    return np.asarray(load_graph(folder / "int8.onnx", CPU).run([output], {"x": x})[0])


def test_products_are_those_of_the_levels_that_the_formula_gives(tmp_path: Path) -> None:
    """The oracle: equations 3 and 4 of SmoothQuant, and rounding by the samples' range, in NumPy."""
    x = SAMPLES * np.linspace(3, 30, COLUMNS, dtype=np.float32)
    factors = np.abs(x).max(axis=0) ** STRENGTH / np.abs(WEIGHT).max(axis=1) ** (1 - STRENGTH)
    smooth, weight = x / factors, WEIGHT * factors[:, None]
    step = (smooth.max() - smooth.min()) / 255
    zero = np.rint(-smooth.min() / step)
    levels = np.clip(np.rint(smooth / step) + zero, 0, 255)
    pairs = weight.reshape(COLUMNS // 2, 2, OUTPUTS)
    scales = np.maximum(pairs.clip(0).sum(axis=1), (-pairs).clip(0).sum(axis=1)).max(axis=0) / 127
    expected = (levels - zero) @ np.rint(weight / scales) * step * scales + BIAS
    made = run(eight_bits(write(tmp_path, [PRODUCT, SUM]), [{"x": x[:25]}, {"x": x[25:]}]), tmp_path, x)
    differences = np.abs(made - expected) / np.abs(expected).max()
    assert np.median(differences) < 1e-5
    assert differences.max() < 0.005, "a value between two levels may take either"
    np.testing.assert_allclose(made, x @ WEIGHT + BIAS, atol=0.02 * np.abs(expected).max())


def test_a_value_beyond_the_range_becomes_its_end_and_a_column_that_no_sample_uses_still_counts(tmp_path: Path) -> None:
    model = eight_bits(write(tmp_path, [PRODUCT, SUM]), [{"x": SAMPLES}])
    beyond, far = (np.full((1, COLUMNS), value, dtype=np.float32) for value in (50, 5_000))
    np.testing.assert_array_equal(run(model, tmp_path, beyond), run(model, tmp_path, far))
    silent = SAMPLES.copy()
    silent[:, 5] = 0
    model = eight_bits(write(tmp_path, [PRODUCT, SUM]), [{"x": silent}])
    one = np.zeros((1, COLUMNS), dtype=np.float32)
    one[0, 5] = 0.5
    np.testing.assert_allclose(run(model, tmp_path, one)[0], 0.5 * WEIGHT[5] + BIAS, atol=0.2)
    nothing = eight_bits(write(tmp_path, [PRODUCT, SUM]), [{"x": np.zeros_like(SAMPLES)}])
    assert np.isfinite(run(nothing, tmp_path, SAMPLES)).all()


def test_the_sum_with_a_bias_is_part_of_the_product_unless_another_node_reads_it(tmp_path: Path) -> None:
    model = eight_bits(write(tmp_path, [PRODUCT, SUM]), [{"x": SAMPLES}])
    assert [node.op_type for node in model.graph.node] == ["Mul", "QuantizeLinear", "MatMulIntegerToFloat"]
    other_reader = [PRODUCT, SUM, helper.make_node("Neg", ["product"], ["negative"])]
    for nodes, other, sign in ((other_reader, "negative", -1), ([PRODUCT, SUM], "product", 1)):
        model = eight_bits(write(tmp_path, nodes, ("y", other)), [{"x": SAMPLES}])
        product = sign * run(model, tmp_path, SAMPLES, other)
        np.testing.assert_allclose(run(model, tmp_path, SAMPLES), product + BIAS, atol=1e-5)


def test_a_sum_in_which_a_branch_reads_the_product_stays(tmp_path: Path) -> None:
    positive = helper.make_tensor_value_info("positive", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Relu", ["product"], ["positive"])], "branch", [], [positive])
    condition = helper.make_node("Constant", [], ["true"], value=numpy_helper.from_array(np.array(True)))
    choice = helper.make_node("If", ["true"], ["z"], then_branch=branch, else_branch=branch)
    model = eight_bits(write(tmp_path, [PRODUCT, SUM, condition, choice], ("y", "z")), [{"x": SAMPLES}])
    expected = np.maximum(run(model, tmp_path, SAMPLES) - BIAS, 0)
    np.testing.assert_allclose(run(model, tmp_path, SAMPLES, "z"), expected, atol=1e-5)


def test_two_values_share_a_weight_that_is_stored_once(tmp_path: Path) -> None:
    nodes = [
        PRODUCT,
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("MatMul", ["negative", "weight"], ["opposite"]),
        helper.make_node("Sub", ["product", "opposite"], ["y"]),
    ]
    model = eight_bits(write(tmp_path, nodes), [{"x": SAMPLES}])
    stored = [weight.data_type for weight in model.graph.initializer if len(weight.dims) == 2]
    assert stored.count(TensorProto.INT8) == 1
    assert "Mul" not in {node.op_type for node in model.graph.node}, "a weight can't take a factor from two values"
    np.testing.assert_allclose(run(model, tmp_path, SAMPLES), 2 * SAMPLES @ WEIGHT, atol=0.4)  # the products reach 33


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_of_a_table_are_gathered(tmp_path: Path, axis: int) -> None:
    """A graph without a product has no range; the batches' shapes differ."""
    table = RNG.normal(size=(9, 9)).astype(np.float32)
    file = write(tmp_path, [helper.make_node("Gather", ["weight", "ids"], ["y"], axis=axis)], weight=table)
    ids = np.array([8, 0, 0, 3])
    for model in (eight_bits(file, [{"ids": ids}, {"ids": ids[:2]}]), four_bits(onnx.load(file))):
        save_graph(model, tmp_path / "g.onnx")
        rows = load_graph(tmp_path / "g.onnx", CPU).run(None, {"ids": ids})[0]
        np.testing.assert_allclose(rows, np.take(table, ids, axis=axis), atol=0.3)


def test_values_that_are_not_finite_have_no_range(tmp_path: Path) -> None:
    samples = SAMPLES.copy()
    samples[1, 2] = np.inf
    said = r"^the graph makes values that are not finite numbers, .* take --precision fp32$"
    with pytest.raises(BadInput, match=said):
        eight_bits(write(tmp_path, [PRODUCT, SUM]), [{"x": samples}])
    assert [file.name for file in tmp_path.iterdir()] == ["fp32.onnx"]


def assert_fits_16_bits(weights: npt.NDArray[np.int8]) -> None:
    """The oracle is the arithmetic of x86 without VNNI: levels to 255 times two neighbours of an output's weights."""
    padded = np.pad(weights.astype(np.int64), ((0, len(weights) % 2), (0, 0)))
    pairs = padded.reshape(len(padded) // 2, 2, -1)
    assert 255 * pairs.clip(min=0).sum(axis=1).max() < 2**15
    assert 255 * pairs.clip(max=0).sum(axis=1).min() >= -(2**15)


@pytest.mark.parametrize("columns", [4, 7])
def test_no_processor_cuts_a_sum_off(tmp_path: Path, columns: int) -> None:
    weight = np.zeros((columns, OUTPUTS), dtype=np.float32)
    weight[:, 0], weight[:, 1], weight[::2, 2], weight[-1, 3] = 1, -1, 0.3, 1
    weight[:2, 4] = 1  # neighbours that are added
    weight[1:3, 5] = 1  # neighbours that are not
    x = np.linspace(0, 1, 256, dtype=np.float32)[:, None] * np.ones(columns, dtype=np.float32)
    model = eight_bits(write(tmp_path, [PRODUCT, SUM], weight=weight), [{"x": x}])
    stored = {value.name: numpy_helper.to_array(value) for value in model.graph.initializer}
    assert_fits_16_bits(stored["weight.int8"])
    np.testing.assert_allclose(stored["weight.scale"][4:], np.array([2, 1]) / 127, rtol=1e-6)
    exact = np.arange(256)[:, None] * stored["weight.int8"].astype(np.int64).sum(axis=0)
    expected = exact * stored["x.step"] * stored["weight.scale"] + BIAS
    np.testing.assert_allclose(run(model, tmp_path, x), expected, atol=1e-5)


def test_the_default_encoder_s_weights_fit_and_no_text_of_the_gate_set_the_ranges(default_folder: ModelFolder) -> None:
    model = onnx.load(default_folder.graph, load_external_data=False)  # these weights lie in the graph
    weights = [value for value in model.graph.initializer if value.name.endswith(".int8")]
    assert weights
    for weight in weights:
        assert_fits_16_bits(numpy_helper.to_array(weight))
    assert not {text.text for text in read_texts()} & set(sample_texts())
