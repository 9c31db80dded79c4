"""fp32 ONNX graphs → fp16, int8 and 4-bit ones: files in, files out, since a graph may be larger than a message may.

What each precision is for: ``fp32`` to compare with; ``fp16`` for GPUs; ``int8`` for CPUs, twice as fast as fp32;
``q4`` where memory is short, an eighth of the size and no faster than fp32.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray
from encoders.errors import MissingPart
from encoders.folder import Precision

UInt8Array = npt.NDArray[np.uint8]

BLOCK = 32
"""Weights that share a scale in 4 bits."""

_INLINE_LIMIT = 1_900_000_000
"""Bytes up to which the weights stand in the ONNX file itself; a protobuf message ends at 2 GiB."""

_CONTRIB = "com.microsoft"


def convert(source: Path, target: Path, precision: Precision) -> None:
    """Write the fp32 graph at ``source`` to ``target`` in another precision.

    The contract of model folders holds for the result too: int64 in, float32 ``vectors`` out. Temporary files stand
    beside ``source``, which must be in a folder that can be written.

    Args:
        source: an fp32 graph of opset 21 or later.
        target: the file to write; its weights go to ``<target>.data`` beside it where they are larger than 1.9 GB.
        precision: of the result.

    Raises:
        MissingPart: ONNX Runtime, which int8 and fp16 need, is not installed.
        OSError: the disk is full, or another one of the system's.
    """
    writers: dict[Precision, Callable[[Path, Path], None]] = {
        "fp32": lambda source, target: save_graph(onnx.load(source), target),
        "fp16": _to_fp16,
        "int8": _to_int8,
        "q4": lambda source, target: save_graph(four_bits(onnx.load(source)), target),
    }
    writers[precision](source, target)


def save_graph(model: onnx.ModelProto, target: Path, *, inline_limit: int = _INLINE_LIMIT) -> None:
    """Write a graph without what its maker left in it about itself (file names, stack traces, names of modules).

    Args:
        model: the graph, its weights loaded.
        target: the file to write.
        inline_limit: bytes of weights above which they go to ``<target>.data``.
    """
    for thing in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        thing.ClearField("doc_string")
        thing.ClearField("metadata_props")
    external = _weight_bytes(model.graph) > inline_limit
    data = target.with_name(f"{target.name}.data")
    data.unlink(missing_ok=True)  # onnx would append to it
    onnx.save(model, target, save_as_external_data=external, location=data.name if external else None)


def _weight_bytes(graph: onnx.GraphProto) -> int:
    return sum(initializer.ByteSize() for initializer in graph.initializer)


@contextmanager
def _seeing_a_full_disk(folder: Path) -> Iterator[None]:
    """Raise the system's own error where a block fails for want of room in a folder.

    ONNX infers shapes in C++, into a file, and doesn't notice when that can't be written: what fails is reading it.
    What it has written stands there still, so that a disk without room has none now.
    """
    try:
        yield
    except Exception:  # protobuf's, ONNX's and ONNX Runtime's, which have no base of their own
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_ROOM))
        raise


_ROOM = 4 << 20
"""Bytes that a disk which is not full has."""


def _to_int8(source: Path, target: Path) -> None:
    """Dynamic quantisation: weights int8 per output, embeddings uint8, activations uint8 by the range of each batch."""
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415
    except ImportError as error:
        raise _no_runtime("int8") from error
    model = onnx.load(source)
    external = _weight_bytes(model.graph) > _INLINE_LIMIT
    # Says that the graph needs no preparation; without it the quantiser prints advice that is wrong for encoders.
    helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    marked = source.with_name(f"{source.stem}-marked.onnx")
    try:
        onnx.save(model, marked, save_as_external_data=external, location=f"{marked.name}.data")
        del model
        with _seeing_a_full_disk(marked.parent):
            quantize_dynamic(
                marked,
                target,
                op_types_to_quantize=["MatMul", "Gather"],
                per_channel=True,
                weight_type=QuantType.QInt8,
                use_external_data_format=external,
                extra_options={"DefaultTensorType": TensorProto.FLOAT},
            )
    finally:
        marked.unlink(missing_ok=True)
        marked.with_name(f"{marked.name}.data").unlink(missing_ok=True)
    quantised = onnx.load(target)
    target.with_name(f"{target.name}.data").unlink(missing_ok=True)
    save_graph(quantised, target)


def _to_fp16(source: Path, target: Path) -> None:
    """Weights and layers in half precision; pooling and the norm, where sums are long, stay in single."""
    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415
    except ImportError as error:
        raise _no_runtime("fp16") from error
    typed = source.with_name(f"{source.stem}-typed.onnx")
    try:
        with _seeing_a_full_disk(typed.parent):
            onnx.shape_inference.infer_shapes_path(str(source), str(typed))
            model = onnx.load(typed)
    finally:
        typed.unlink(missing_ok=True)
    outputs = list(model.graph.output)
    head = _pooling_nodes(model.graph)
    constants = _cut_off(model.graph, head)
    half = convert_float_to_float16(model, keep_io_types=True, disable_shape_infer=True)
    half.graph.node.extend(head)
    half.graph.initializer.extend(constants)
    del half.graph.output[:]
    half.graph.output.extend(outputs)
    save_graph(half, target)


def _pooling_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """What stands between the token states and the output, back to the node that makes one vector of the tokens."""
    ends = {"ReduceSum", "ReduceMean", "Gather", "GatherND", "Slice", "LayerNormalization", "MatMul"}
    producers = {output: node for node in graph.node for output in node.output}
    waiting = [output.name for output in graph.output]
    seen: set[str] = set()
    while waiting:
        node = producers.get(waiting.pop())
        if node is not None and node.output[0] not in seen:
            seen.add(node.output[0])
            waiting.extend(() if node.op_type in ends else node.input)
    return [node for node in graph.node if node.output[0] in seen]


def _cut_off(graph: onnx.GraphProto, head: list[onnx.NodeProto]) -> list[onnx.TensorProto]:
    """Take the last nodes off a graph, what they read from the others becoming its outputs; return their constants."""
    made = {name for node in head for name in node.output}
    read = {name for node in head for name in node.input} - made
    body = [node for node in graph.node if made.isdisjoint(node.output)]
    types = {info.name: info for info in graph.value_info}
    border = [types[name] for name in sorted(read & {name for node in body for name in node.output})]
    constants = []
    for weight in [weight for weight in graph.initializer if weight.name in read]:
        own = onnx.TensorProto()
        own.CopyFrom(weight)
        own.name = f"{weight.name}.single"
        constants.append(own)
        for node in head:
            node.input[:] = [own.name if name == weight.name else name for name in node.input]
    inner = [info for name, info in types.items() if name not in made]
    for things, kept in ((graph.node, body), (graph.output, border), (graph.value_info, inner)):
        del things[:]
        things.extend(kept)
    _drop_unused(graph)
    return constants


def four_bits(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put constant matrices and embeddings into 4 bits: blocks of 32 weights, one scale each, symmetric (Q4_0).

    ONNX Runtime's own quantiser makes the same; importing it switches on logging for the whole process and needs two
    more packages. The graph is changed in place and returned; a vector does not depend on its batch, unlike in int8.

    Args:
        model: an fp32 graph of opset 21 or later, its weights loaded.
    """
    graph = model.graph
    weights = {initializer.name: initializer for initializer in graph.initializer}
    nodes = []
    for node in graph.node:
        nodes.append(node)
        place = {"MatMul": 1, "Gather": 0}.get(node.op_type)
        weight = weights.get(node.input[place]) if place is not None else None
        if weight is None or weight.data_type != TensorProto.FLOAT or len(weight.dims) != 2:
            continue
        matrix = numpy_helper.to_array(weight)
        blocks = quantise_blocks(matrix.T if node.op_type == "MatMul" else matrix)
        make = _matmul_nbits if node.op_type == "MatMul" else _gather_blocks
        nodes[-1], initializers = make(node, weight, blocks)
        known = {initializer.name for initializer in graph.initializer}
        graph.initializer.extend(initializer for initializer in initializers if initializer.name not in known)
    del graph.node[:]
    graph.node.extend(nodes)
    _drop_unused(graph)
    if not any(entry.domain == _CONTRIB for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_CONTRIB, 1))
    return model


@dataclass(frozen=True)
class Blocks:
    """Rows of weights in 4 bits: weight = (code - 8) * scale.

    Attributes:
        codes: (rows, blocks, 32) uint8 in 0..15; a last block that is not full ends in 8, which is zero.
        scales: (rows, blocks) float32.
    """

    codes: UInt8Array
    scales: FloatArray


def quantise_blocks(rows: FloatArray) -> Blocks:
    """Quantise each 32 weights of a row by the one farthest from zero, which gets code 0 (ggml's Q4_0)."""
    count, width = rows.shape
    padded = np.pad(rows, ((0, 0), (0, -width % BLOCK))).reshape(count, -1, BLOCK)
    peaks = np.take_along_axis(padded, np.abs(padded).argmax(axis=2, keepdims=True), axis=2)
    scales = peaks / np.float32(-8)
    steps = np.divide(padded, scales, out=np.zeros_like(padded), where=scales != 0)
    codes = np.clip(np.rint(steps) + 8, 0, 15).astype(np.uint8)
    return Blocks(codes, scales[:, :, 0])


def _pairs(codes: UInt8Array) -> UInt8Array:
    """Two codes a byte along the last axis, the first in the low half."""
    return codes[..., ::2] | (codes[..., 1::2] << np.uint8(4))


def _matmul_nbits(
    node: onnx.NodeProto, weight: onnx.TensorProto, blocks: Blocks
) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    codes, scales = f"{weight.name}.q4.product", f"{weight.name}.q4.product.scales"
    new = helper.make_node(
        "MatMulNBits",
        [node.input[0], codes, scales],
        list(node.output),
        name=node.name,
        domain=_CONTRIB,
        K=weight.dims[0],
        N=weight.dims[1],
        bits=4,
        block_size=BLOCK,
        accuracy_level=4,
    )
    return new, [
        numpy_helper.from_array(_pairs(blocks.codes), codes),
        numpy_helper.from_array(np.ascontiguousarray(blocks.scales), scales),
    ]


def _gather_blocks(
    node: onnx.NodeProto, weight: onnx.TensorProto, blocks: Blocks
) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    codes, scales = f"{weight.name}.q4.rows", f"{weight.name}.q4.rows.scales"
    new = helper.make_node(
        "GatherBlockQuantized",
        [codes, node.input[1], scales],
        list(node.output),
        name=node.name,
        domain=_CONTRIB,
        gather_axis=0,
        quantize_axis=1,
        block_size=BLOCK,
    )
    rows, width = weight.dims
    signed = (
        (blocks.codes ^ np.uint8(8)).reshape(rows, -1)[:, :width].reshape(-1)
    )  # code - 8 in two's complement of four bits
    signed = np.pad(signed, (0, len(signed) % 2))
    return new, [
        helper.make_tensor(codes, TensorProto.INT4, [rows, width], _pairs(signed).tobytes(), raw=True),
        numpy_helper.from_array(np.ascontiguousarray(blocks.scales), scales),
    ]


def _drop_unused(graph: onnx.GraphProto) -> None:
    used = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    for initializer in [initializer for initializer in graph.initializer if initializer.name not in used]:
        graph.initializer.remove(initializer)


def _no_runtime(precision: Precision) -> MissingPart:
    return MissingPart(f"making a graph in {precision} needs ONNX Runtime: pip install 'dragoman[cpu]'")
