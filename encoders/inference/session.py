"""Run the graph of a model's texts: choose device and threads, and batch texts by a budget of tokens."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Literal

import numpy as np

from encoders.document import FloatArray, Int32Array, IntArray, short_hash
from encoders.errors import BadInput, MissingPart, StoreError
from encoders.folder.model_folder import ModelFolder, graph_files
from encoders.inference.batch_checkpoint import current_checkpoint
from encoders.inference.graph import Graph, is_out_of_memory
from encoders.inference.openvino_graph import OpenVinoGraph, faster_graph
from encoders.machine.cores import available_cores
from encoders.machine.placement import CPU, Device, Gpu, GpuUnavailable, place
from encoders.phrases import counted, first_line

_logger = logging.getLogger("dragoman.encoders")

INT8_ADVICE = "export the model for cards (dragoman export MODEL --precision fp16), or take --device cpu"
CPU_TOKEN_BUDGET = 512
"""Padded tokens a batch: larger batches exceed the cache and are slower (docs/methods/encoder.md)."""
CUDA_TOKEN_BUDGET = 65_536
"""Padded tokens a batch on a card with enough memory (``gpu_budget``); about 64 pages."""
_FULL_BATCH = 4, 128  # texts and tokens of the batch that OpenVINO may compute: a document's windows have 128 tokens
_IN_FLIGHT = 2
"""Batches on a card at once: while it computes one, the next is padded and copied."""
_BYTES_A_TOKEN = 160
"""Estimated bytes of memory that a token of a batch takes on a card, for each dimension of its vector: the values of a
layer in half precision, attention over 512 tokens with 32 dimensions a head among them."""
_RERANKER_WIDTH = 1024
"""Assumed dimensions of a reranker's tokens: its folder says only that a pair has one score."""
_HALVED = 100
"""Batches that are halved before a batch of that size is tried again."""


class GraphFailure(MissingPart):
    """A graph can't be run over a text on this machine's CPU: memory is full, or the text or the graph is odd."""


class OnnxSession:
    """One graph, loaded on ``device`` (``cpu`` or ``cuda``); several threads may call it; ``budget`` is padded tokens.

    Each call runs on one core; parallel callers share the weights. This is faster than several threads in one call.
    """

    def __init__(
        self, folder: ModelFolder, *, device: Device = "auto", threads: int | None = None, unnormalised: bool = False
    ) -> None:
        """Load the graph; ``auto`` takes a card that can run it, ``threads`` are by default all cores of this process.

        Raises MissingPart: ONNX Runtime, or CUDA where ``device`` asks for it, is missing; BadInput: the graph can't be
        loaded, has not the configured width, or is in int8 and ``device`` asks for CUDA.
        """
        self._file, self._output = folder.graph, folder.config.output
        self.dim, self._build = folder.config.dim, folder.config.build_id
        placement = place(device)
        if placement.gpu and folder.config.precision == "int8":  # CUDA has no kernels for it: each layer would go back
            if device != "auto":
                raise BadInput(f"{folder.path} is in int8, which runs on CPUs alone; {INT8_ADVICE}")
            placement = CPU
        if placement.gpu:
            memory_bounds(placement.gpu, folder)  # before the driver fails
        self._graph = Graph(folder.graph, placement, unnormalised=unnormalised)
        self.device: Literal["cpu", "cuda"] = "cuda" if placement.gpu else "cpu"
        shapes = {output.name: output.shape for output in self._graph.session.get_outputs()}
        width = shapes[self._output][-1] if shapes.get(self._output) else None
        if isinstance(width, int) and width != self.dim:  # the axis may have a name in place of a number
            raise BadInput(
                f"{folder.graph} makes vectors with {width} dimensions and config.json beside it says {self.dim}; "
                "make the folder again"
            )
        self.threads = _IN_FLIGHT if placement.gpu else threads or available_cores()
        self.budget = gpu_budget(placement.gpu.free, folder) if placement.gpu else CPU_TOKEN_BUDGET
        self._too_large, self._halved = sys.maxsize, 0
        """Padded tokens of the smallest batch that did not fit into memory, and the batches halved since."""
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")
        self._process = 0  # the process whose threads compute, which the first call starts
        self._has_faster = not (unnormalised or folder.config.is_reranker) and folder.config.precision == "int8"
        self._faster: Graph | OpenVinoGraph | None = None  # of full batches; loaded for the first
        self._loading = Lock()

    def run(self, rows: Sequence[Int32Array], pad: int, *, alone: bool = False) -> FloatArray:
        """Vectors of token rows in their order, (rows, dim) float32; ``pad`` is the id that fills up a batch.

        With ``alone`` each row is a batch on a CPU, and its vector depends on no other row. Otherwise rows are sorted
        by length and cut into batches that depend on these rows and the bound alone: the same rows give the same bytes
        on one kind of device, if a card has enough memory. Raises GpuFailure: the card is full, or broken;
        StoreError: the threads that compute belong to another process.
        """
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            raise StoreError("this encoder has worked in another process, before a fork; in each process open another")
        result = np.empty((len(rows), self.dim), dtype=np.float32)
        alone = alone and self.device == "cpu"
        batches = list(token_batches([len(row) for row in rows], 0 if alone else self.budget))

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
        """Run a batch, in halves if it does not fit into memory; the next batches of that size are halved at once."""
        size = len(rows) * max(map(len, rows))
        if len(rows) == 1 or size < self._too_large:
            try:
                ids, mask = padded(rows, pad)
                return self._graph_of(mask).run(self._output, {"input_ids": ids, "attention_mask": mask})
            except Exception as error:
                if len(rows) == 1 or not is_out_of_memory(error):
                    if self.device == "cuda" or not type(error).__module__.startswith("onnxruntime"):
                        raise
                    raise GraphFailure(
                        f"{self._file} can't be run over {counted(len(rows), 'text')} of {size:,} tokens in all "
                        f"({first_line(error)}); close other programs if memory is full, or export the model again"
                    ) from error
                _logger.warning("a batch of %d tokens is halved: %s", size, error)
                self._too_large, self._halved = min(self._too_large, size), 0
        self._halved += 1
        if self._halved > _HALVED:
            self._too_large = sys.maxsize
        middle = len(rows) // 2
        return np.concatenate([self._run_batch(half, pad) for half in (rows[:middle], rows[middle:])])

    def _graph_of(self, mask: IntArray) -> Graph | OpenVinoGraph:
        """The graph that computes a batch: ``faster_graph`` for a full batch of windows, which has no padding."""
        if not self._has_faster or mask.shape != _FULL_BATCH or not mask.all():
            return self._graph
        with self._loading:
            if self._faster is None:
                self._faster = faster_graph(self._graph, self._file, self._output, _FULL_BATCH, self.threads)
            return self._faster


def gpu_budget(free: int, folder: ModelFolder) -> int:
    """Padded tokens a batch, where the batches in flight take half of a card's free bytes that the weights leave."""
    config = folder.config
    width = _RERANKER_WIDTH if config.is_reranker else config.dim
    bytes_a_token = _BYTES_A_TOKEN * width * (1 if config.precision == "fp16" else 2)
    return min(CUDA_TOKEN_BUDGET, max(CPU_TOKEN_BUDGET, (free - _weights(folder)) // 2 // _IN_FLIGHT // bytes_a_token))


def memory_bounds(gpu: Gpu, folder: ModelFolder) -> str:
    """What a graph may take of a card's memory, in words. Raises GpuUnavailable: its weights alone are more."""
    weights, free = (f"{size / 2**30:.1f} GB" for size in (_weights(folder), gpu.free))
    if _weights(folder) > gpu.free:
        raise GpuUnavailable(gpu.name, f"the weights are {weights}, and {free} of its memory are free for this process")
    return f"{free} free, weights {weights}, {_IN_FLIGHT} batches of at most {gpu_budget(gpu.free, folder):,} tokens"


def _weights(folder: ModelFolder) -> int:
    """Bytes of a graph's files."""
    return sum(path.stat().st_size for path in graph_files(folder.graph))


def token_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of rows in batches by length, each of at most ``budget`` padded tokens (rows × longest) or of one row."""
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda row: (lengths[row], row)):
        if batches and (len(batches[-1]) + 1) * lengths[index] <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def padded(rows: Sequence[Int32Array], pad: int) -> tuple[IntArray, IntArray]:
    """Rows of token ids filled up with ``pad`` to the length of the longest, and their mask, both (rows, tokens)."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    is_token = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(is_token.shape, pad, dtype=np.int64)
    ids[is_token] = np.concatenate(rows)
    return ids, is_token.astype(np.int64)
