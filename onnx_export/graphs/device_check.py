"""Check a graph where it runs: the provider of each node, agreement with a reference, tokens a second, memory."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from encoders.devices import Placement, place
from encoders.document import FloatArray
from encoders.folder import ModelFolder, Precision
from encoders.graph import load_graph
from encoders.hmde.upper import GRAPH as UPPER
from encoders.hmde.upper import UpperSession, is_hmde
from encoders.hmde.upper import padded as upper_padded
from encoders.session import OnnxSession, padded
from encoders.text.tokens import Tokenizer
from onnx_export.graphs.parity import GateText, ParityReport, compare, encode, gate_rows, with_documents

_SHAPES = frozenset(
    {
        "Cast", "Concat", "Constant", "ConstantOfShape", "Equal", "Expand", "Gather", "Identity", "Range", "Reshape",
        "Shape", "Size", "Slice", "Squeeze", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""Operations on shapes, which ONNX Runtime leaves on the CPU on purpose."""
_SECONDS = 3.0
"""Least time that tokens a second are measured over."""


@dataclass(frozen=True)
class DeviceCheck:
    """What a folder's graphs do on a device.

    Attributes:
        device: the card's name, or ``cpu``.
        nodes: number of nodes of each operation, by provider, over all graphs.
        parity: against the reference; none without a reference.
        tokens: tokens of the gate's texts a second, through the graph of texts; tokenising is not timed.
        memory: bytes of the card that were taken meanwhile, by any process; 0 on the CPU.
    """

    device: str
    precision: Precision
    nodes: dict[str, Counter[str]]
    parity: ParityReport | None
    tokens: float
    memory: int

    @property
    def strays(self) -> list[str]:
        """Operations that compute on the CPU though the graph is on a card; each waits for the host."""
        return sorted(self.nodes.get("CPUExecutionProvider", Counter()).keys() - _SHAPES) if self.on_card else []

    @property
    def on_card(self) -> bool:
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

    On a card the reference is by default the same graph on the CPU, which computes an fp16 graph in float32: so half
    arithmetic is compared with exact arithmetic. In an HMDE folder the lower graph makes queries' vectors, and both
    graphs together documents' vectors.

    Raises:
        BadInput: the graph can't be loaded, or its vectors are not finite numbers.
        MissingPart: CUDA fails.
    """
    session, tokenizer = OnnxSession(folder, device=placement.device), Tokenizer(folder)
    rows = gate_rows(folder, tokenizer, texts)
    vectors = session.run(rows, tokenizer.pad)  # also what is slow the first time
    tokens, started = 0, time.perf_counter()
    while time.perf_counter() - started < _SECONDS:
        session.run(rows, tokenizer.pad)
        tokens += sum(map(len, rows))
    speed = tokens / (time.perf_counter() - started)
    left = place(placement.device).card
    if reference is None and placement.card:
        reference = encode(folder, texts)
    ids, mask = padded(rows[:4], tokenizer.pad)
    nodes = _nodes(folder.graph, placement, {"input_ids": ids, "attention_mask": mask})
    if is_hmde(folder):
        sentences, sentence_mask = upper_padded([vectors[:3], vectors[:2]])
        upper_nodes = _nodes(folder.path / UPPER, placement, {"sentences": sentences, "mask": sentence_mask})
        for provider, counts in upper_nodes.items():
            nodes.setdefault(provider, Counter()).update(counts)
        vectors = with_documents(UpperSession(folder, placement.device), texts, vectors)
        reference = None if reference is None else with_documents(UpperSession(folder, "cpu"), texts, reference)
    return DeviceCheck(
        placement.card.name if placement.card else "cpu",
        folder.config.precision,
        nodes,
        None if reference is None else compare(folder.config.precision, texts, vectors, reference),
        speed,
        placement.card.free - left.free if placement.card and left else 0,
    )


def _nodes(graph: Path, placement: Placement, batch: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Number of nodes of each operation, by the provider that ran them, of one batch of the graph's inputs."""
    with tempfile.TemporaryDirectory() as scratch:
        session = load_graph(graph, placement, profile=Path(scratch) / "nodes")
        session.run(["vectors"], batch)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    nodes: dict[str, Counter[str]] = {}
    for event in events:
        about = event.get("args", {})
        if event.get("cat") == "Node" and "provider" in about and event["name"].endswith("_kernel_time"):
            nodes.setdefault(about["provider"], Counter())[about["op_name"]] += 1
    return nodes
