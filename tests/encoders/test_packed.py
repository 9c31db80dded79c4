"""Graphs without padding, as cards compute them: here by the reference of ONNX, with their operations in numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from encoders.document import FloatArray
from encoders.packed import CONTRIB, pack_tokens
from tests.onnx_export.bert_graphs import SHAPE, inputs, save, vectors
from tests.onnx_export.cuda_kernels import CUDA


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
    """The tokens at their places, and zeros elsewhere."""

    def _run(self, row: FloatArray, places: Any) -> tuple[FloatArray]:
        padded = np.zeros((places.size, row.shape[1]), row.dtype)
        padded[places.reshape(-1)[: len(row)]] = row
        return (padded.reshape(*places.shape, -1),)


class PackedMultiHeadAttention(_Operation):
    """Attention of each text's tokens to each other."""

    def _run(
        self,
        query: FloatArray,
        key: FloatArray,
        value: FloatArray,
        _bias: None,
        _places: Any,
        ends: Any,
        num_heads: int = 0,
        scale: float = 0.0,
    ) -> tuple[FloatArray]:
        def heads(rows: FloatArray) -> FloatArray:
            return rows.reshape(len(rows), num_heads, -1).transpose(1, 0, 2)

        def attended(text: slice) -> FloatArray:
            q, k, v = (heads(rows[text]) for rows in (query, key, value))
            scores = scale * q @ k.transpose(0, 2, 1)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed: FloatArray = shares / shares.sum(axis=-1, keepdims=True) @ v
            return mixed.transpose(1, 0, 2).reshape(q.shape[1], -1)

        return (np.concatenate([attended(slice(*pair)) for pair in pairwise(ends)]),)


class SkipLayerNormalization(_Operation):
    """A sum, normalised."""

    def _run(
        self,
        values: FloatArray,
        skip: FloatArray,
        weight: FloatArray,
        shift: FloatArray,
        bias: FloatArray | float = 0.0,
        epsilon: float = 0.0,
    ) -> tuple[FloatArray]:
        total = values + skip + bias
        centred = total - total.mean(axis=-1, keepdims=True)
        scaled: FloatArray = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        return ((scaled * weight + shift).astype(np.float32),)


class BiasGelu(_Operation):
    """Gelu of a sum."""

    def _run(self, values: FloatArray, bias: FloatArray) -> tuple[FloatArray]:
        from scipy.special import erf

        total = values + bias
        return ((total * 0.5 * (1 + erf(total / np.sqrt(2)))).astype(np.float32),)


_OPERATIONS = [RemovePadding, RestorePadding, PackedMultiHeadAttention, SkipLayerNormalization, BiasGelu]


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder in float32, with padding."""
    return save(tmp_path_factory.mktemp("graph") / "fused.onnx", fused=True)


@pytest.mark.parametrize("lengths", [[1], [7, 7, 7], [9, 1, 4, 24]])
def test_without_padding_vectors_are_the_same(fused: Path, lengths: Sequence[int]) -> None:
    model = onnx.load(fused)
    assert pack_tokens(model)
    onnx.checker.check_model(model)
    packed = ReferenceEvaluator(model, new_ops=_OPERATIONS).run(["vectors"], inputs(lengths))[0]
    np.testing.assert_allclose(packed, vectors(fused, lengths), atol=1e-5)


def test_layers_compute_no_padding_and_have_kernels(fused: Path) -> None:
    model = onnx.load(fused)
    assert pack_tokens(model)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("PackedMultiHeadAttention") == SHAPE.layers
    assert kinds.count("RemovePadding") == kinds.count("RestorePadding") == 1
    assert "MultiHeadAttention" not in kinds
    between = kinds[kinds.index("RemovePadding") : kinds.index("RestorePadding")]
    assert between.count("MatMul") == kinds.count("MatMul") == 6 * SHAPE.layers
    assert CUDA.keys() >= set(kinds)


def _other_graphs(fused: Path) -> Iterator[onnx.ModelProto]:
    yield onnx.load(save(fused.with_name("plain.onnx"), fused=False))
    for position, name in ((0, "words"), (3, "encoder.layer.0.attention.self.query.bias"), (4, "lengths")):
        model = onnx.load(fused)
        second = [node for node in model.graph.node if node.op_type == "MultiHeadAttention"][-1]
        second.input[position] = name
        yield model
    model = onnx.load(fused)
    (dense,) = (node for node in model.graph.node if node.output[0] == "encoder.layer.0.gelu")
    dense.op_type = "CumSum"
    yield model


def test_another_graph_stays_as_it_is(fused: Path) -> None:
    """Without fused attention, with a bias in it, over lengths alone, or with a layer that mixes tokens."""
    for model in _other_graphs(fused):
        before = model.SerializeToString()
        assert not pack_tokens(model)
        assert model.SerializeToString() == before
