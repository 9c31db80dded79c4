"""Run an ONNX graph: choose provider and threads, and batch texts by a budget of tokens."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from encoders.checkpoint import current_checkpoint
from encoders.devices import CPU, Card, Device, NoCuda, Placement, check_runtime, place
from encoders.document import FloatArray, Int32Array, IntArray, short_hash
from encoders.errors import BadInput
from encoders.folder import ModelFolder
from encoders.unnormalised import unnormalised_graph
from encoders.wording import install_command

if TYPE_CHECKING:
    import onnxruntime

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
INT8_ADVICE = "export the model for cards (dragoman export MODEL --precision fp16), or take --device cpu"
CPU_TOKEN_BUDGET = 512
"""Padded tokens a batch: larger batches exceed the cache and are slower (docs/methods/encoder.md)."""
CUDA_TOKEN_BUDGET = 32_768
"""Padded tokens a batch on a card with enough memory (``card_budget``)."""
_IN_FLIGHT = 2
"""Batches on a card at once: while it computes one, the next is padded and copied."""
_BYTES_A_TOKEN = 160
"""Estimated bytes of memory that a token of a batch takes on a card, for each dimension of the vectors: the values of a
layer in half precision, attention over 512 tokens with 32 dimensions a head among them."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""CPU limit of a container or systemd unit: microseconds of CPU time (or ``max``), and the period's length."""
_OUT_OF_MEMORY = ("failed to allocate memory", "out of memory", "bad_alloc", "bad allocation", "alloc_failed")


class OnnxSession:
    """One loaded graph; several threads may call it at once.

    Each call runs on one core; parallel callers share the weights. This was measured to be faster than several threads
    in one call.

    Attributes:
        device: ``cpu`` or ``cuda``, where the graph really runs.
    """

    def __init__(
        self, folder: ModelFolder, *, device: Device = "auto", threads: int | None = None, unnormalised: bool = False
    ) -> None:
        """Load the graph; ``auto`` takes a card that can run it, ``threads`` are by default all cores of this process.

        With ``unnormalised`` the vectors are not scaled to unit length.

        Raises:
            MissingPart: ONNX Runtime, or CUDA where ``device`` asks for it, is missing.
            BadInput: the graph can't be loaded, the width of its vectors is not the configured one, or ``device`` asks
                for CUDA and the graph is in int8.
        """
        self.dim, self._build, self._output = folder.config.dim, folder.config.build_id, folder.config.output
        placement = place(device)
        if placement.card and folder.config.precision == "int8":  # CUDA has no kernels for it: each layer would go back
            if device != "auto":
                raise BadInput(f"{folder.path} is in int8, which runs on CPUs alone; {INT8_ADVICE}")
            placement = CPU
        self._session = load_graph(folder.graph, placement, unnormalised=unnormalised)
        self.device: Literal["cpu", "cuda"] = "cuda" if placement.card else "cpu"
        shapes = {output.name: output.shape for output in self._session.get_outputs()}
        width = shapes[self._output][-1] if shapes.get(self._output) else None
        if isinstance(width, int) and width != self.dim:  # the axis may have a name in place of a number
            raise BadInput(
                f"{folder.graph} makes vectors with {width} dimensions and config.json beside it says {self.dim}; "
                "make the folder again"
            )
        self.threads = _IN_FLIGHT if placement.card else threads or available_cores()
        self._budget = card_budget(placement.card.free, self.dim) if placement.card else CPU_TOKEN_BUDGET
        self._too_large = sys.maxsize
        """Padded tokens of the smallest batch that did not fit into memory."""
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")

    def run(self, rows: Sequence[Int32Array], pad: int, *, alone: bool = False) -> FloatArray:
        """Vectors of token rows in their order, (rows, dim) float32; ``pad`` is the id that fills up a batch.

        With ``alone`` each row is a batch, and its vector depends on no other row. Otherwise rows are sorted by length
        and cut into batches of a bounded number of padded tokens: the batches depend on these rows alone, so that the
        same rows give the same bytes on one kind of device.
        """
        result = np.empty((len(rows), self.dim), dtype=np.float32)
        batches = list(token_batches([len(row) for row in rows], 0 if alone else self._budget))

        def compute(first: int) -> Iterator[FloatArray]:
            return self._pool.map(lambda batch: self._run_batch([rows[index] for index in batch], pad), batches[first:])

        checkpoint = current_checkpoint.get()
        if checkpoint is None:
            runs = compute(0)
        else:
            key = short_hash(self._build, self.device, str(pad), str(batches), *(row.tobytes() for row in rows))
            runs = checkpoint.batches(key, list(map(len, batches)), self.dim, compute)
        for batch, vectors in zip(batches, runs, strict=True):
            result[batch] = vectors
        return result

    def _run_batch(self, rows: Sequence[Int32Array], pad: int) -> FloatArray:
        """Run a batch, in halves if it does not fit into memory; later batches of that size are halved at once."""
        size = len(rows) * max(map(len, rows))
        if len(rows) == 1 or size < self._too_large:
            try:
                return self._run_at_once(rows, pad)
            except Exception as error:
                if len(rows) == 1 or not _is_out_of_memory(error):
                    raise
                self._too_large = min(self._too_large, size)
        middle = len(rows) // 2
        return np.concatenate([self._run_batch(half, pad) for half in (rows[:middle], rows[middle:])])

    def _run_at_once(self, rows: Sequence[Int32Array], pad: int) -> FloatArray:
        ids, mask = padded(rows, pad)
        vectors: FloatArray = self._session.run([self._output], {"input_ids": ids, "attention_mask": mask})[0]
        if self.device == "cuda" and len(rows) > 1 and not np.isfinite(vectors).all(axis=1).any():
            raise RuntimeError("the card computes nothing any more: no vector of a batch is a finite number")
        return vectors


def card_budget(free: int, dim: int) -> int:
    """Padded tokens a batch on a card with so many bytes of free memory: batches in flight may take half of it."""
    fitting = free // 2 // _IN_FLIGHT // (_BYTES_A_TOKEN * dim)
    return min(CUDA_TOKEN_BUDGET, max(CPU_TOKEN_BUDGET, fitting))


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; ONNX Runtime passes on the message of the allocator that failed."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(words in message for words in _OUT_OF_MEMORY)


def available_cores() -> int:
    """Number of cores that this process may use, by its CPU affinity and its container's CPU limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if _QUOTA.is_file():
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    return cores


def on_all_cores(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """The results of work on each item, in order; as much is done at once as there are cores.

    Threads gain where the work is products of matrices, or waits for a server. BLAS begins no threads of its own.
    """
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - a single search need not pay for it

    with threadpool_limits(1), ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(work, items))


def token_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of rows in batches, sorted by length; a batch's padded size (rows × longest) is within the budget.

    A row longer than the budget is a batch by itself.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda row: (lengths[row], row)):
        if batches and (len(batches[-1]) + 1) * lengths[index] <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def padded(rows: Sequence[Int32Array], pad: int) -> tuple[IntArray, IntArray]:
    """Rows of token ids filled up with ``pad`` to the length of the longest, and their mask, both (rows, tokens)."""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return ids, mask


def _has_exact_int8_products() -> bool:
    """Whether the processor's products of int8 are exact: other x86 processors cut 16-bit sums off.

    Unknown where Linux does not list the processor's instructions.
    """
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return "avx512_vnni" in flags


def load_graph(
    graph: Path, placement: Placement, *, profile: Path | None = None, unnormalised: bool = False
) -> onnxruntime.InferenceSession:
    """Load a graph where it was placed; on a CPU each call runs on one core.

    With ``profile``, the beginning of a file's path, the session notes what each node does until ``end_profiling``.
    With ``unnormalised`` its vectors are not scaled to unit length.

    Raises:
        MissingPart: ONNX Runtime is missing, or CUDA fails.
        BadInput: the graph can't be loaded.
    """
    check_runtime()
    import onnxruntime  # noqa: PLC0415 - --help need not load it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not _has_exact_int8_products():
        options.add_session_config_entry("session.x64quantprecision", "1")  # products that are exact, and slower
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    source: str | bytes = str(graph)
    if unnormalised:
        source = unnormalised_graph(graph)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(graph.parent))

    def session(providers: list[str | tuple[str, dict[str, str]]]) -> onnxruntime.InferenceSession:
        """A session that prints nothing and takes no other provider by itself."""
        return onnxruntime.InferenceSession(
            source,
            options,
            providers=providers,
            disabled_optimizers=["SkipLayerNormFusion"],
            enable_fallback=0,
        )

    if placement.card:
        return _on_card(session, placement.card)
    try:
        return session([_CPU])
    except Exception as error:  # ONNX Runtime's error classes share no base but Exception
        raise BadInput(f"{graph} can't be loaded ({str(error).splitlines()[0]}); export the model again") from error


def _on_card(
    session: Callable[[list[str | tuple[str, dict[str, str]]]], onnxruntime.InferenceSession], card: Card
) -> onnxruntime.InferenceSession:
    """Make a session on a card.

    Raises:
        NoCuda: the card, or a library that ONNX Runtime needs, fails.
    """
    import onnxruntime  # noqa: PLC0415 - as above

    if _CUDA not in onnxruntime.get_available_providers():
        raise NoCuda(f"ONNX Runtime for CUDA has no CUDA; install it again: {install_command('gpu')}")
    onnxruntime.preload_dlls()
    # texts differ in length: doubling the arena at each new shape would take more memory than the graph needs
    provider_options = {"device_id": str(card.number), "arena_extend_strategy": "kSameAsRequested"}
    try:
        made = session([(_CUDA, provider_options), _CPU])
    except Exception as error:  # as above
        raise NoCuda(f"the {card.name} can't run the graph ({str(error).splitlines()[0]}); see nvidia-smi") from error
    if _CUDA not in made.get_providers():
        raise NoCuda(
            f"ONNX Runtime can't use the {card.name}: a library of CUDA 13 or cuDNN 9 is missing; install them: "
            f"{install_command('gpu')}"
        )
    return made
