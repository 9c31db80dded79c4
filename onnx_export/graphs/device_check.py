"""Check a graph where it runs: the provider of each node, agreement with a reference, tokens a second, memory."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoders.devices import Device, place
from encoders.document import FloatArray
from encoders.folder import ModelFolder, Precision
from encoders.session import OnnxSession, load_graph, padded
from encoders.text.tokens import Tokenizer
from onnx_export.graphs.parity import GateText, ParityReport, compare, encode

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
    """What a graph does on a device.

    Attributes:
        device: the card's name, or ``cpu``.
        nodes: number of nodes of each operation, by provider.
        parity: against the reference; none without a reference.
        tokens: tokens a second, tokenisation and padding not counted.
        memory: bytes that the card lacked after loading and encoding; 0 on the CPU.
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
    folder: ModelFolder, device: Device, texts: Sequence[GateText], reference: FloatArray | None = None
) -> DeviceCheck:
    """Run a folder's graph on a device, and compare its vectors with (texts, dim) reference vectors.

    On a card the reference is by default the same graph on the CPU, which computes an fp16 graph in float32: so half
    arithmetic is compared with exact arithmetic.

    Raises:
        BadInput: the graph can't be loaded, or its vectors are not finite numbers.
        MissingPart: there is no such device.
    """
    placement = place(device)
    free = placement.card.free if placement.card else 0
    session = OnnxSession(folder, device=placement.device)
    vectors = encode(folder, texts, placement.device)
    if reference is None and placement.card:
        reference = encode(folder, texts, "cpu")
    rows = [
        text.ids[: folder.config.max_tokens - 2] for text in Tokenizer(folder).tokenize([one.text for one in texts])
    ]
    rows = [row for row in rows if len(row)]
    tokens, started = 0, time.perf_counter()
    while time.perf_counter() - started < _SECONDS:
        session.run(rows, 1)
        tokens += sum(map(len, rows))
    speed = tokens / (time.perf_counter() - started)
    left = place(device).card
    return DeviceCheck(
        placement.card.name if placement.card else "cpu",
        folder.config.precision,
        _nodes(folder, device, rows[:4]),
        None if reference is None else compare(folder.config.precision, texts, vectors, reference),
        speed,
        free - left.free if left else 0,
    )


def _nodes(
    folder: ModelFolder, device: Device, rows: Sequence[np.ndarray[Any, np.dtype[np.int32]]]
) -> dict[str, Counter[str]]:
    """Number of nodes of each operation, by the provider that ran them, of one batch."""
    with tempfile.TemporaryDirectory() as scratch:
        session = load_graph(folder.graph, place(device), profile=Path(scratch) / "nodes")
        ids, mask = padded(rows, 1)
        session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    nodes: dict[str, Counter[str]] = {}
    for event in events:
        about = event.get("args", {})
        if event.get("cat") == "Node" and "provider" in about and event["name"].endswith("_kernel_time"):
            nodes.setdefault(about["provider"], Counter())[about["op_name"]] += 1
    return nodes
