"""Load an ONNX graph where it was placed, and run it: a card that fails or is full is an error of its own.

A graph can be loaded without its last step: vectors as pooling makes them, not scaled to unit length.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoders.document import FloatArray, IntArray
from encoders.errors import BadInput, MissingPart
from encoders.inference.unpadded import remove_padding
from encoders.machine.placement import Gpu, GpuUnavailable, NoCuda, Placement, check_runtime, cuda_version
from encoders.phrases import first_line, install_command

if TYPE_CHECKING:
    import onnxruntime
    from onnx import ModelProto, NodeProto

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_OUT_OF_MEMORY = ("failed to allocate memory", "out of memory", "bad_alloc", "bad allocation", "alloc_failed")
_WARNINGS, _ERRORS = 2, 3
"""Severities of ONNX Runtime's messages, from which on it prints them; by default it prints warnings."""
_SLOW_ON_GPUS, _SLOW_ON_CPUS = ["MatMulAddFusion"], ["SkipLayerNormFusion"]
"""Fusions of ONNX Runtime whose kernels are slower there than the nodes that they replace."""
Inputs = Mapping[str, IntArray | FloatArray]
"""A graph's inputs by name, each (rows, …)."""
_PASSED = ("Cast", "Identity")
_UNIT = "vectors.unit"


class GpuFailure(MissingPart):
    """A card stopped computing, or is full."""


class GpuFull(GpuFailure):
    """A card has too little free memory for what it shall compute."""


class Graph:
    """A graph that was loaded where it was placed; several threads may run it at once."""

    def __init__(self, graph: Path, placement: Placement, *, unnormalised: bool = False) -> None:
        """Load the graph. Raises MissingPart: ONNX Runtime is missing, or CUDA fails; BadInput: it can't be loaded."""
        self.session = load_graph(graph, placement, unnormalised=unnormalised)
        self._gpu = placement.gpu
        if self._gpu:
            self._sample = {value.name: _ones(value) for value in self.session.get_inputs()}
            self._output = self.session.get_outputs()[0].name
            try:
                self._sample_is_computed = self._computes_sample()
            except Exception as error:  # ONNX Runtime's error classes share no base but Exception
                raise GpuUnavailable(self._gpu.name, first_line(error)) from error

    def run(self, output: str, inputs: Inputs) -> FloatArray:
        """The graph's output of the inputs. Raises GpuFull: the card lacks free memory; GpuFailure: the card is broken.

        An error, or a value that is not finite, is the inputs' fault if the card still computes the first sample row.
        """
        try:
            values: FloatArray = self.session.run([output], inputs)[0]
        except Exception as error:
            if self._gpu is None:
                raise
            if is_out_of_memory(error):
                shapes = ", ".join(" × ".join(map(str, array.shape)) for array in inputs.values())
                raise GpuFull(
                    f"the {self._gpu.name} has no memory left for an input of {shapes}; nvidia-smi says what "
                    f"takes it: end that, or take --device cpu ({first_line(error)})"
                ) from error
            if self._still_computes():
                raise
            raise _lost(self._gpu, first_line(error)) from error
        if self._gpu and not np.isfinite(values).all() and not self._still_computes():
            raise _lost(self._gpu, "its numbers are not finite")
        return values

    def _computes_sample(self) -> bool:
        """Whether the numbers of the sample row are finite: those of a graph that overflows never are."""
        return bool(np.isfinite(self.session.run([self._output], self._sample)[0]).all())

    def _still_computes(self) -> bool:
        """Whether the card computes the sample row as it did when the graph was loaded."""
        try:
            return self._computes_sample() == self._sample_is_computed
        except Exception:  # noqa: BLE001 - any exception means no
            return False


def _lost(gpu: Gpu, reason: str) -> GpuFailure:
    return GpuFailure(f"the {gpu.name} computes nothing any more ({reason}); see nvidia-smi, and start again")


def _ones(value: onnxruntime.NodeArg) -> IntArray | FloatArray:
    """A row for an input: its dimensions without a number are 1."""
    shape = [size if isinstance(size, int) else 1 for size in value.shape]
    return np.ones(shape, dtype=np.float32) if "float" in value.type else np.ones(shape, dtype=np.int64)


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; ONNX Runtime passes on the message of the allocator that failed."""
    message = str(error).lower()
    return isinstance(error, MemoryError | GpuFull) or any(words in message for words in _OUT_OF_MEMORY)


def load_graph(
    graph: Path, placement: Placement, *, profile: Path | None = None, unnormalised: bool = False
) -> onnxruntime.InferenceSession:
    """Load a graph where it was placed; on a CPU each call runs on one core, on a card layers compute no padding.

    With ``profile``, the beginning of a file's path, the session notes what each node does until ``end_profiling``. The
    vectors of an ``unnormalised`` graph are not scaled to unit length. Raises MissingPart: ONNX Runtime is missing, or
    CUDA fails; BadInput: the graph can't be loaded.
    """
    check_runtime()
    import onnxruntime  # noqa: PLC0415 - --help need not load it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    source = _rewritten(graph, placement, unnormalised=unnormalised)
    if isinstance(source, bytes):
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(graph.parent))

    def session(providers: list[str | tuple[str, dict[str, str]]]) -> onnxruntime.InferenceSession:
        """A session that prints nothing and takes no other provider by itself."""
        return onnxruntime.InferenceSession(
            source,
            options,
            providers=providers,
            disabled_optimizers=_SLOW_ON_GPUS if placement.gpu else _SLOW_ON_CPUS,
            enable_fallback=0,
        )

    if placement.gpu:
        return _on_gpu(session, placement.gpu)
    try:
        return session([_CPU])
    except Exception as error:  # ONNX Runtime's error classes share no base but Exception
        raise BadInput(f"{graph} can't be loaded ({first_line(error)}); export the model again") from error


def _rewritten(file: Path, placement: Placement, *, unnormalised: bool) -> bytes | str:
    """The graph for a card, or unscaled, as bytes; the file's path if nothing changes. Raises BadInput: unreadable."""
    if not (unnormalised or placement.gpu):
        return str(file)
    import onnx  # noqa: PLC0415 - a search on the CPU need not load it

    try:
        model = onnx.load(str(file), load_external_data=False)
    except Exception as error:  # protobuf raises classes of its own
        raise BadInput(f"{file} can't be read ({error}); export the model again") from error
    is_packed = placement.gpu is not None and remove_padding(model)
    if unnormalised:
        unnormalise(model, file)
    elif not is_packed:
        return str(file)
    serialised: bytes = model.SerializeToString()
    return serialised


def _on_gpu(
    session: Callable[[list[str | tuple[str, dict[str, str]]]], onnxruntime.InferenceSession], gpu: Gpu
) -> onnxruntime.InferenceSession:
    """Make a session on a card. Raises NoCuda: CUDA or a library of it is missing; GpuUnavailable: the card fails."""
    import onnxruntime  # noqa: PLC0415 - as above

    if _CUDA not in onnxruntime.get_available_providers():
        raise NoCuda(f"ONNX Runtime for CUDA has no CUDA; install it again: {install_command('gpu')}")
    with redirect_stdout(io.StringIO()) as printed:  # it prints which libraries it does not find
        onnxruntime.preload_dlls()
    # texts differ in length: doubling the arena at each new shape would take more memory than the graph needs
    provider_options = {"device_id": str(gpu.number), "arena_extend_strategy": "kSameAsRequested"}
    onnxruntime.set_default_logger_severity(_ERRORS)  # it warns that the card's provider is no plugin
    try:
        made = session([(_CUDA, provider_options), _CPU])
    except Exception as error:  # as above
        raise GpuUnavailable(gpu.name, first_line(error)) from error
    finally:
        onnxruntime.set_default_logger_severity(_WARNINGS)
    if _CUDA not in made.get_providers():
        failed = next((line for line in printed.getvalue().splitlines() if line.startswith("Failed")), "")
        raise NoCuda(
            f"ONNX Runtime can't use the {gpu.name}: a library of CUDA {cuda_version()} or cuDNN 9 is missing"
            f"{failed and f' ({failed})'}; install them: {install_command('gpu')}"
        )
    return made


def unnormalise(model: ModelProto, file: Path) -> None:
    """Make a graph's ``vectors`` what the L2 norm would have divided; a sum that the norm divides becomes the mean.

    Raises BadInput: the graph, read from ``file``, does not end with a division by the L2 norm.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    last = _maker(makers, "vectors")
    numerator = last.input[0] if last is not None and _divides_by_norm(makers, last) else ""
    if not numerator:
        raise BadInput(f"{file} does not end with vectors divided by their length, so their lengths can't be had")
    for node in model.graph.node:
        node.output[:] = [_UNIT if name == "vectors" else name for name in node.output]
        node.input[:] = [_UNIT if name == "vectors" else name for name in node.input]
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - a search needs no onnx

    is_sum = makers[numerator].op_type == "ReduceSum"
    nodes = [helper.make_node("Cast", [numerator], ["vectors.whole" if is_sum else "vectors"], to=TensorProto.FLOAT)]
    if is_sum:
        model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "vectors.axis"))
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["vectors.mask"], to=TensorProto.FLOAT),
            helper.make_node("ReduceSum", ["vectors.mask", "vectors.axis"], ["vectors.tokens"], keepdims=1),
            helper.make_node("Div", ["vectors.whole", "vectors.tokens"], ["vectors"]),
        ]
    model.graph.node.extend(nodes)


def _maker(makers: dict[str, NodeProto], name: str) -> NodeProto | None:
    """The node that makes a value; casts and identities are passed over."""
    node = makers.get(name)
    while node is not None and node.op_type in _PASSED:
        node = makers.get(node.input[0])
    return node


def _divides_by_norm(makers: dict[str, NodeProto], node: NodeProto) -> bool:
    """Whether a node divides by the L2 norm of what it divides, perhaps bounded from below and expanded."""
    if node.op_type != "Div" or node.input[0] not in makers:
        return False
    norm = _maker(makers, node.input[1])
    while norm is not None and norm.op_type in ("Clip", "Max", "Expand"):
        norm = _maker(makers, norm.input[0])
    return norm is not None and norm.op_type == "ReduceL2"
