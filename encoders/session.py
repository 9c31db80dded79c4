"""Run an ONNX graph: choose provider and threads, and batch texts by a budget of tokens."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from encoders.checkpoint import current_checkpoint
from encoders.document import FloatArray, Int32Array, IntArray, short_hash
from encoders.errors import BadInput, MissingPart
from encoders.folder import ModelFolder

if TYPE_CHECKING:
    import onnxruntime

Device = Literal["auto", "cpu", "cuda"]

CPU_TOKEN_BUDGET = 512
"""Padded tokens a batch: larger batches exceed the cache and are slower (docs/evaluation.md)."""
CUDA_TOKEN_BUDGET = 32_768
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""CPU limit of a container or systemd unit: microseconds of CPU time (or ``max``), and the period's length."""
_OUT_OF_MEMORY = ("failed to allocate memory", "out of memory", "bad_alloc", "bad allocation", "alloc_failed")
_NO_CUDA = (
    "CUDA was asked for and this ONNX Runtime has none; install it: pip install 'dragoman[gpu]', or take --device cpu"
)


def check_runtime() -> None:
    """Check that exactly one of ``onnxruntime`` and ``onnxruntime-gpu`` is installed: both own the same module.

    Raises:
        MissingPart: neither or both are.
    """
    present = [name for name in ("onnxruntime", "onnxruntime-gpu") if _is_installed(name)]
    if not present:
        raise MissingPart(
            "ONNX Runtime is not installed; install it: pip install 'dragoman[cpu]' (or 'dragoman[gpu]' for CUDA)"
        )
    if len(present) == 2:
        raise MissingPart(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other; "
            "keep one: pip uninstall -y onnxruntime onnxruntime-gpu && pip install 'dragoman[cpu]' (or 'dragoman[gpu]')"
        )


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


class OnnxSession:
    """One loaded graph; several threads may call it at once.

    Each call runs on one core; parallel callers share the weights. This was measured to be faster than several threads
    in one call.

    Attributes:
        device: ``cpu`` or ``cuda``, where the graph really runs.
    """

    def __init__(self, folder: ModelFolder, *, device: Device = "auto", threads: int | None = None) -> None:
        """Load the graph; ``auto`` takes CUDA where it works, and ``threads`` is by default all cores of this process.

        Raises:
            MissingPart: ONNX Runtime, or CUDA where ``device`` asks for it, is missing.
            BadInput: the graph can't be loaded, or the width of its vectors is not the configured one.
        """
        self.dim, self._build = folder.config.dim, folder.config.build_id
        self._session = load_graph(folder.graph, device)
        shapes = {output.name: output.shape for output in self._session.get_outputs()}
        width = shapes["vectors"][-1] if shapes.get("vectors") else None
        if isinstance(width, int) and width != self.dim:  # the axis may have a name in place of a number
            raise BadInput(
                f"{folder.graph} makes vectors with {width} dimensions and config.json beside it says {self.dim}; "
                "make the folder again"
            )
        self.device: Literal["cpu", "cuda"] = (
            "cuda" if "CUDAExecutionProvider" in self._session.get_providers() else "cpu"
        )
        self.threads = (threads or available_cores()) if self.device == "cpu" else 1
        self._budget = CPU_TOKEN_BUDGET if self.device == "cpu" else CUDA_TOKEN_BUDGET
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
        vectors: FloatArray = self._session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


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


def resolved_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return where a graph would run, without loading one: ``auto`` takes CUDA where this ONNX Runtime has it.

    Raises:
        MissingPart: ONNX Runtime, or CUDA where ``device`` asks for it, is missing.
    """
    if device == "cpu":
        return "cpu"
    check_runtime()
    has_cuda = _is_installed("onnxruntime-gpu")
    if device == "cuda" and not has_cuda:
        raise MissingPart(_NO_CUDA)
    return "cuda" if has_cuda else "cpu"


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


def load_graph(graph: Path, device: Device) -> onnxruntime.InferenceSession:
    """Load a graph on a device; each call runs on one core.

    Raises:
        MissingPart: ONNX Runtime, or CUDA where ``device`` asks for it, is missing.
        BadInput: the graph can't be loaded.
    """
    check_runtime()
    import onnxruntime  # noqa: PLC0415 - --help need not load it

    available = onnxruntime.get_available_providers()
    if device == "cuda" and "CUDAExecutionProvider" not in available:
        raise MissingPart(_NO_CUDA)
    providers = ["CPUExecutionProvider"]
    if device != "cpu" and "CUDAExecutionProvider" in available:
        onnxruntime.preload_dlls()
        providers.insert(0, "CUDAExecutionProvider")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(graph), options, providers=providers, disabled_optimizers=["SkipLayerNormFusion"]
        )
    except Exception as error:  # ONNX Runtime's error classes share no base but Exception
        raise BadInput(f"{graph} can't be loaded ({str(error).splitlines()[0]}); export the model again") from error
    if device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise MissingPart(
            "CUDA was asked for and ONNX Runtime fell back to the CPU; "
            "install the driver and 'dragoman[gpu]', or take --device cpu"
        )
    return session
