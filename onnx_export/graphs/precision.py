"""Convert fp32 ONNX graphs to fp16, int8 and 4 bits, from file to file: a graph may exceed a protobuf message's limit.

``fp16`` is for GPUs; ``int8`` is for CPUs, twice as fast as fp32; ``q4`` is for little memory: an eighth of fp32.
"""

import stat
import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.document import FloatArray
from encoders.errors import importing
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import weights_file
from encoders.inference.graph import Inputs
from encoders.inference.unpadded import CONTRIB
from onnx_export.graphs.eight_bits import constant_matrix, eight_bits, names_read
from onnx_export.graphs.half_range import LARGEST, bound_masks, largest_values

UInt8Array = npt.NDArray[np.uint8]

BLOCK = 32
"""Number of 4-bit weights that share a scale."""

_LARGE = 1 << 20
"""Least bytes of a weight that stands beside its graph."""


def convert(source: Path, target: Path, precision: Precision, batches: Iterable[Inputs]) -> None:
    """Write an fp32 graph of opset 21 or later to ``target`` in a precision, large weights to ``<target>.data``.

    Inputs stay int64 and ``vectors`` stay float32. Temporary files are written beside ``source``. ``batches`` of inputs
    set the ranges of int8, and show which nodes of fp16 make or read a value beyond half precision and stay in float32.
    Raises MissingPart: ONNX Runtime, which int8 and fp16 need, is not installed; BadInput: the graph can't be run, or
    in int8 makes values that are not finite numbers; OSError: the disk is full, or another system error.
    """
    writers: dict[Precision, Callable[[Path, Path], None]] = {
        "fp32": lambda source, target: save_graph(onnx.load(source), target),
        "fp16": lambda source, target: _to_fp16(source, target, batches),
        "int8": lambda source, target: save_graph(eight_bits(source, batches), target),
        "q4": lambda source, target: save_graph(four_bits(onnx.load(source)), target),
    }
    writers[precision](source, target)


def save_graph(model: onnx.ModelProto, target: Path, *, least: int = _LARGE) -> None:
    """Write a graph, its weights loaded, without unread weights and its exporter's metadata, such as names of modules.

    Each weight of at least ``least`` bytes goes to ``<target>.data``, which a session maps into memory: of the table of
    250,000 pieces a query needs ten rows.
    """
    for message in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        message.ClearField("doc_string")
        message.ClearField("metadata_props")
    read = set(names_read(model.graph))
    for weight in [weight for weight in model.graph.initializer if weight.name not in read]:
        model.graph.initializer.remove(weight)
    data_file = weights_file(target)
    data_file.unlink(missing_ok=True)  # onnx would append to an old file
    onnx.save(model, target, save_as_external_data=True, location=data_file.name, size_threshold=least)
    if data_file.exists():
        data_file.chmod(stat.S_IMODE(target.stat().st_mode))  # onnx makes it its owner's alone


_PROBE_BYTES = 4 << 20
"""Bytes of the probe file; a disk without room for them counts as full."""


def _to_fp16(source: Path, target: Path, batches: Iterable[Inputs]) -> None:
    """Convert weights and layers to half precision; pooling and norm, of long sums, and wide values stay single."""
    with importing("cpu", "making a graph in fp16 needs ONNX Runtime"):
        from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415
        from onnxruntime.transformers.onnx_model import OnnxModel  # noqa: PLC0415
    shaped = source.with_name(f"{source.stem}-typed.onnx")
    try:
        try:
            onnx.shape_inference.infer_shapes_path(str(source), str(shaped))
            model = onnx.load(shaped)
        except Exception:  # it notices no failed write, but a probe file beside the partial file fails, too
            with tempfile.TemporaryFile(dir=shaped.parent) as probe:
                probe.write(bytes(_PROBE_BYTES))
            raise
        masks = bound_masks(model.graph)
        largest = largest_values(shaped, masks, batches)
    finally:
        shaped.unlink(missing_ok=True)
    wide = {name for name, value in largest.items() if not value <= LARGEST}  # or not a number
    outputs = list(model.graph.output)
    pooling = _pooling_nodes(model.graph, wide)
    constants = _detach_head(model.graph, pooling)
    narrow = [info for info in model.graph.value_info if info.name not in wide]  # the converter casts each typed value
    del model.graph.value_info[:]
    model.graph.value_info.extend(narrow)
    single = [node for node in model.graph.node if not {*node.input, *node.output}.isdisjoint(wide)]
    for node in single:
        node.name = node.name or node.output[0]
    model_fp16 = convert_float_to_float16(
        model, keep_io_types=True, disable_shape_infer=True, node_block_list=[node.name for node in single]
    )
    model_fp16.graph.node.extend(pooling)
    model_fp16.graph.initializer.extend(constants)
    del model_fp16.graph.output[:]
    model_fp16.graph.output.extend(outputs)
    if wide:  # the converter writes casts after the nodes that read them
        OnnxModel.graph_topological_sort(model_fp16.graph)
    save_graph(model_fp16, target)


def _pooling_nodes(graph: onnx.GraphProto, wide: Collection[str]) -> list[onnx.NodeProto]:
    """Nodes from the first that makes one vector of the tokens to the output, with the nodes of its wide values."""
    boundary_types = {"ReduceSum", "ReduceMean", "Gather", "GatherND", "Slice", "LayerNormalization", "MatMul"}
    producers = {output: node for node in graph.node for output in node.output}
    pending = [output.name for output in graph.output]
    seen: set[str] = set()
    while pending:
        node = producers.get(pending.pop())
        if node is not None and node.output[0] not in seen:
            seen.add(node.output[0])
            is_boundary = node.op_type in boundary_types
            pending.extend(name for name in node.input if name in wide or not is_boundary)
    return [node for node in graph.node if node.output[0] in seen]


def _detach_head(graph: onnx.GraphProto, head: list[onnx.NodeProto]) -> list[onnx.TensorProto]:
    """Remove the last nodes, ``head``, from a graph; return copies of the constants that they read.

    The values that ``head`` reads from other nodes become outputs; ``head`` now reads the copies of its constants.
    """
    head_outputs = {name for node in head for name in node.output}
    head_inputs = {name for node in head for name in node.input} - head_outputs
    body = [node for node in graph.node if head_outputs.isdisjoint(node.output)]
    types = {info.name: info for info in graph.value_info}
    border = [types[name] for name in sorted(head_inputs & {name for node in body for name in node.output})]
    constants = []
    for weight in [weight for weight in graph.initializer if weight.name in head_inputs]:
        constant = onnx.TensorProto()
        constant.CopyFrom(weight)
        constant.name = f"{weight.name}.single"
        constants.append(constant)
        for node in head:
            node.input[:] = [constant.name if name == weight.name else name for name in node.input]
    inner = [info for name, info in types.items() if name not in head_outputs]
    for field, remaining in ((graph.node, body), (graph.output, border), (graph.value_info, inner)):
        del field[:]
        field.extend(remaining)
    return constants


def four_bits(model: onnx.ModelProto) -> onnx.ModelProto:
    """Quantise an fp32 graph's matrices and embeddings, in place, to symmetric 4 bits, 32 weights a scale (Q4_0).

    ONNX Runtime's own quantiser gives the same result, but importing it switches on logging for the whole process and
    needs two more packages. The graph is of opset 21 or later with its weights loaded.
    """
    graph = model.graph
    weights = {initializer.name: initializer for initializer in graph.initializer}
    nodes = []
    for node in graph.node:
        nodes.append(node)
        if (weight := constant_matrix(node, weights)) is None:
            continue
        matrix = numpy_helper.to_array(weight)
        blocks = quantise_blocks(matrix.T if node.op_type == "MatMul" else matrix)
        nodes[-1], initializers = _by_blocks(node, weight, blocks)
        existing = {initializer.name for initializer in graph.initializer}
        graph.initializer.extend(initializer for initializer in initializers if initializer.name not in existing)
    del graph.node[:]
    graph.node.extend(nodes)
    if not any(entry.domain == CONTRIB for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    return model


@dataclass(frozen=True)
class Blocks:
    """Rows of 4-bit weights: weight = (code - 8) * scale."""

    codes: UInt8Array  # (rows, blocks, 32) uint8 in 0..15; a last block is padded with 8, the code of zero
    scales: FloatArray  # (rows, blocks) float32


def quantise_blocks(rows: FloatArray) -> Blocks:
    """Quantise each 32 weights of a row by the weight farthest from zero, which gets code 0 (ggml's Q4_0)."""
    count, width = rows.shape
    padded = np.pad(rows, ((0, 0), (0, -width % BLOCK))).reshape(count, -1, BLOCK)
    peaks = np.take_along_axis(padded, np.abs(padded).argmax(axis=2, keepdims=True), axis=2)
    scales = peaks / np.float32(-8)
    steps = np.divide(padded, scales, out=np.zeros_like(padded), where=scales != 0)
    codes = np.clip(np.rint(steps) + 8, 0, 15).astype(np.uint8)
    return Blocks(codes, scales[:, :, 0])


def _packed(codes: UInt8Array) -> UInt8Array:
    """Pack two codes into a byte along the last axis, the first in the low half."""
    return codes[..., ::2] | (codes[..., 1::2] << np.uint8(4))


def _by_blocks(
    node: onnx.NodeProto, weight: onnx.TensorProto, blocks: Blocks
) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    """The node that reads a weight's blocks, and its constants."""
    rows, width = weight.dims
    is_product = node.op_type == "MatMul"
    codes = f"{weight.name}.q4.{'product' if is_product else 'rows'}"
    scales = f"{codes}.scales"
    if is_product:
        kind, inputs = "MatMulNBits", [node.input[0], codes, scales]
        settings = {"K": rows, "N": width, "bits": 4, "accuracy_level": 4}
        packed = numpy_helper.from_array(_packed(blocks.codes), codes)
    else:
        kind, inputs = "GatherBlockQuantized", [codes, node.input[1], scales]
        settings = {"gather_axis": 0, "quantize_axis": 1}
        # code - 8 in two's complement of four bits
        signed = (blocks.codes ^ np.uint8(8)).reshape(rows, -1)[:, :width].reshape(-1)
        signed = np.pad(signed, (0, len(signed) % 2))
        packed = helper.make_tensor(codes, TensorProto.INT4, [rows, width], _packed(signed).tobytes(), raw=True)
    settings["block_size"] = BLOCK
    replacement = helper.make_node(kind, inputs, list(node.output), name=node.name, domain=CONTRIB, **settings)
    return replacement, [packed, numpy_helper.from_array(np.ascontiguousarray(blocks.scales), scales)]
