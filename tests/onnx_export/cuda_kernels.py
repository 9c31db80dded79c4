"""The kernels of ONNX Runtime's CUDA provider, by which a graph is checked node by node without a card."""

import onnx

from onnx_export.default_model.bert_graph import OPSET

_FLOATS, _INT32, _INT64 = {"float", "float16"}, {"int32"}, {"int64"}
_INDICES = _INT32 | _INT64
_NUMBERS = _FLOATS | _INDICES
_ALL = _NUMBERS | {"bool"}
_KERNELS: list[tuple[str, list[set[str]]]] = [
    ("BiasGelu 1, Gelu 20, Gemm 13, LayerNormalization 17, MatMul 13, SkipLayerNormalization 1, Tanh 13", [_FLOATS]),
    ("Add 14, Div 14, Mul 14, Sub 14", [_NUMBERS]),
    ("Cast 21, Concat 13, Shape 21", [_ALL]),
    ("Clip 13", [_FLOATS | _INT64]),
    ("CumSum 14", [_NUMBERS, _INDICES]),
    ("Expand 13, Unsqueeze 21", [_ALL, _INT64]),
    ("Gather 13, Slice 13", [_ALL, _INDICES]),
    ("MultiHeadAttention 1", [*[_FLOATS] * 4, _INT32]),
    ("Not 1", [{"bool"}]),
    ("PackedMultiHeadAttention 1", [*[_FLOATS] * 4, _INT32, _INT32]),
    ("ReduceL2 18", [_FLOATS | _INT32, _INT64]),
    ("ReduceSum 13", [_NUMBERS, _INT64]),
    ("RemovePadding 1, RestorePadding 1", [_FLOATS, _INT32]),
]
CUDA = {
    name: (int(version), types) for kernels, types in _KERNELS for name, version in map(str.split, kernels.split(", "))
}
"""Operations that ONNX Runtime's CUDA provider has kernels for: the version that opset 21 means, and the types of each
input, of which the last are also those of further inputs. From its docs/OperatorKernels.md (commit 001d12d2), without
the types that no graph here has. Of ``Equal`` it has version 13 and not version 19, which opset 21 means."""


def without_kernel(model: onnx.ModelProto) -> list[str]:
    """Nodes whose version, or whose types of inputs, the CUDA provider has no kernel for."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    kinds = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info)}
    kinds |= {weight.name: weight.data_type for weight in graph.initializer}
    missing = []
    for node in graph.node:
        version, types = CUDA.get(node.op_type, (0, []))
        stated = 1 if node.domain else onnx.defs.get_schema(node.op_type, OPSET).since_version
        places = [*types, *types[-1:] * len(node.input)]
        names = [onnx.TensorProto.DataType.Name(kinds[name]).lower() if name else "" for name in node.input]
        if version != stated or any(name and name not in place for name, place in zip(names, places, strict=False)):
            missing.append(f"{node.op_type} {stated} of {names}")
    return missing
