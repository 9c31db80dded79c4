"""The graph with fused attention, which GPUs run, computes the vectors of the plain graph."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_export.graphs.precision import convert
from tests.onnx_export.bert_graphs import SHAPE, inputs, save, vectors
from tests.onnx_export.cuda_kernels import without_kernel


@pytest.fixture(scope="module")
def plain_and_fused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same weights as two graphs in float32."""
    folder = tmp_path_factory.mktemp("graphs")
    return save(folder / "plain.onnx", fused=False), save(folder / "fused.onnx", fused=True)


@pytest.mark.parametrize("lengths", [[1], [7, 7, 7], [9, 1, 4, 24], [2] * 30])
def test_padded_or_not_both_graphs_give_the_same_vectors(
    plain_and_fused: tuple[Path, Path], lengths: list[int]
) -> None:
    plain, fused = (vectors(graph, lengths) for graph in plain_and_fused)
    np.testing.assert_allclose(fused, plain, atol=1e-5)


@pytest.fixture(scope="module")
def half(plain_and_fused: tuple[Path, Path]) -> Path:
    """The build for cards."""
    file = plain_and_fused[1].with_name("half.onnx")
    convert(plain_and_fused[1], file, "fp16", [inputs([24, 3])])
    return file


def test_the_cuda_provider_has_a_kernel_for_each_node_and_its_types(
    plain_and_fused: tuple[Path, Path], half: Path
) -> None:
    for graph in (plain_and_fused[1], half):
        assert without_kernel(onnx.load(graph)) == []


def test_a_node_without_a_kernel_is_found(plain_and_fused: tuple[Path, Path], half: Path) -> None:
    assert {entry.split()[0] for entry in without_kernel(onnx.load(plain_and_fused[0]))} >= {"If", "ReduceMax"}
    model = onnx.load(half)
    (bounds,) = (node for node in model.graph.node if node.name == "sequence_bounds")
    longer = onnx.helper.make_node("Cast", ["sequence_bounds"], ["longer"], to=onnx.TensorProto.INT64)
    model.graph.node.insert(list(model.graph.node).index(bounds) + 1, longer)
    for node in model.graph.node:
        if node.op_type == "MultiHeadAttention":
            node.input[4] = "longer"
    assert len(without_kernel(model)) == SHAPE.layers, "fused attention takes the texts' bounds in int32"


def test_in_half_precision_each_layer_has_fused_attention(plain_and_fused: tuple[Path, Path], half: Path) -> None:
    kinds = [node.op_type for node in onnx.load(half).graph.node]
    assert kinds.count("MultiHeadAttention") == SHAPE.layers
    assert "Softmax" not in kinds
    lengths = [5, 24, 12]
    np.testing.assert_allclose(vectors(half, lengths), vectors(plain_and_fused[0], lengths), atol=0.01)


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
