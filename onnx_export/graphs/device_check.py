"""Check a graph where it runs: the provider of each node, agreement with a reference, tokens a second, memory."""

import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from encoders.document import FloatArray
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import GRAPH as UPPER
from encoders.hmde.upper import UpperSession, is_hmde
from encoders.hmde.upper import padded as upper_padded
from encoders.inference.graph import load_graph
from encoders.inference.session import OnnxSession, padded
from encoders.machine.placement import Placement, place
from encoders.text.tokens import Tokenizer
from onnx_export.graphs.parity import GateText, ParityReport, compare, encode, gate_rows, with_documents

_CPU = "CPUExecutionProvider"
_SHAPE = 8
"""Most numbers that a node makes of shapes; ONNX Runtime leaves such nodes on the CPU on purpose."""
_BATCHES = 8
"""Full batches that tokens a second are measured over, at least."""
_SECONDS = 3.0
"""Least time that tokens a second are measured over."""


@dataclass(frozen=True)
class DeviceCheck:
    """What a folder's graphs do on a device."""

    device: str  # the card's name, or ``cpu``
    precision: Precision
    nodes: dict[str, Counter[str]]  # number of nodes of each operation, by provider, over all graphs
    strays: list[str]  # operations that a card leaves to the CPU, and copies between both; the card waits at each
    parity: ParityReport | None  # against the reference; none without a reference
    tokens: float  # tokens a second in full batches of the gate's texts; tokenising is not timed
    memory: int  # bytes of the card that were taken meanwhile, by any process; 0 on the CPU

    @property
    def on_gpu(self) -> bool:
        """Whether the graph runs on a card."""
        return self.device != "cpu"

    @property
    def passed(self) -> bool:
        """Whether the vectors agree with the reference, and a card computes everything."""
        return not self.strays and (self.parity is None or self.parity.passed)

    def as_json(self) -> dict[str, Any]:
        """The check for a program."""
        return {
            "device": self.device,
            "precision": self.precision,
            "nodes": {provider: dict(counts) for provider, counts in self.nodes.items()},
            "strays": self.strays,
            "parity": self.parity and self.parity.as_json(),
            "tokens_per_second": round(self.tokens, 1),
            "memory": self.memory,
            "passed": self.passed,
        }


def check_device(
    folder: ModelFolder, placement: Placement, texts: Sequence[GateText], reference: FloatArray | None = None
) -> DeviceCheck:
    """Run a folder's graphs where they were placed, and compare the vectors with (texts, dim) reference vectors.

    On a card the reference is by default the same graph on the CPU, which computes an fp16 graph in float32. In an HMDE
    folder the lower graph makes queries' vectors, and both graphs documents' vectors. Raises BadInput: the graph can't
    be loaded, or its vectors are not finite numbers; MissingPart: CUDA fails.
    """
    session, tokenizer = OnnxSession(folder, device=placement.device), Tokenizer(folder)
    rows = gate_rows(folder, tokenizer, texts)
    vectors = session.run(rows, tokenizer.pad)  # also what is slow the first time
    size = sum(map(len, rows))
    many, runs, started = rows * math.ceil(_BATCHES * session.budget / size), 0, time.perf_counter()
    while time.perf_counter() - started < _SECONDS:
        session.run(many, tokenizer.pad)
        runs += 1
    speed = runs * sum(map(len, many)) / (time.perf_counter() - started)
    left = place(placement.device).gpu
    if reference is None and placement.gpu:
        reference = encode(folder, texts)
    ids, mask = padded(rows[:4], tokenizer.pad)
    nodes, strays = _profile(folder.graph, placement, {"input_ids": ids, "attention_mask": mask})
    if is_hmde(folder):
        sentences, sentence_mask = upper_padded([vectors[:3], vectors[:2]])
        upper = _profile(folder.path / UPPER, placement, {"sentences": sentences, "mask": sentence_mask})
        for provider, counts in upper[0].items():
            nodes.setdefault(provider, Counter()).update(counts)
        strays |= upper[1]
        vectors = with_documents(UpperSession(folder, placement.device), texts, vectors)
        reference = None if reference is None else with_documents(UpperSession(folder, "cpu"), texts, reference)
    return DeviceCheck(
        placement.gpu.name if placement.gpu else "cpu",
        folder.config.precision,
        nodes,
        sorted(strays) if placement.gpu else [],
        None if reference is None else compare(folder.config.precision, texts, vectors, reference),
        speed,
        placement.gpu.free - left.free if placement.gpu and left else 0,
    )


def _profile(
    graph: Path, placement: Placement, batch: Mapping[str, npt.NDArray[Any]]
) -> tuple[dict[str, Counter[str]], set[str]]:
    """What ran which nodes for one batch of the graph's inputs, by ``read_profile``."""
    with tempfile.TemporaryDirectory() as scratch:
        session = load_graph(graph, placement, profile=Path(scratch) / "nodes")
        (vectors,) = session.run(["vectors"], dict(batch))
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return read_profile(events, vectors.shape)


def read_profile(
    events: Sequence[Mapping[str, Any]], vectors: Sequence[int]
) -> tuple[dict[str, Counter[str]], set[str]]:
    """Number of nodes of each operation, by provider, and the strays: operations at which a card waits for the CPU.

    A stray is a node on the CPU that makes floats, more than a shape has numbers, or a copy to the host other than that
    of the ``vectors``, whose shape is given. ``events`` are of ONNX Runtime's profile of one batch.
    """
    nodes: dict[str, Counter[str]] = {}
    strays = set()
    for event in events:
        about = event.get("args", {})
        if event.get("cat") == "Node" and "provider" in about and event["name"].endswith("_kernel_time"):
            operation = about["op_name"]
            nodes.setdefault(about["provider"], Counter())[operation] += 1
            made = [item for output in about["output_type_shape"] for item in output.items()]
            if operation == "MemcpyToHost":
                is_stray = any(list(shape) != list(vectors) for _, shape in made)
            else:
                is_stray = about["provider"] == _CPU and any(
                    "float" in kind and math.prod(shape) > _SHAPE for kind, shape in made
                )
            if is_stray:
                strays.add(operation)
    return nodes, strays
