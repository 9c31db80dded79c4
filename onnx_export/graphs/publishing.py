"""Steps of every publication of a graph: convert the graph, compare it with its source, refuse it below the bar."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from encoders.console import Console
from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import Inputs
from encoders.table_layout import Table
from onnx_export.graphs.fused_attention import fuse_attention
from onnx_export.graphs.parity import GateText, ParityReport, check_parity
from onnx_export.graphs.precision import convert


def write_graph(
    write_fp32: Callable[[Path], None], target: Path, precision: Precision, batches: Iterable[Inputs]
) -> None:
    """Write a graph in a precision; ``write_fp32`` writes the fp32 graph to a temporary file beside ``target``.

    ``batches`` of inputs set the ranges of int8. In fp16 attention is one node where the batches show that to be exact.
    """
    with tempfile.TemporaryDirectory(prefix="graph.", dir=target.parent) as scratch:
        graph = Path(scratch) / "fp32.onnx"
        write_fp32(graph)
        if precision == "fp16":
            batches = list(batches)
            fuse_attention(graph, batches)
        convert(graph, target, precision, batches)


def check_graph(
    folder: ModelFolder,
    texts: Sequence[GateText],
    reference: FloatArray,
    console: Console,
    *,
    source: str = "torch",
    force: bool,
) -> ParityReport:
    """Compare a folder's graph with its source's vectors; publish the report. Raises BadInput: it is below the bar."""
    return publish_report(folder, check_parity(folder, texts, reference), console, source=source, force=force)


def publish_report(
    folder: ModelFolder, report: ParityReport, console: Console, *, source: str = "torch", force: bool
) -> ParityReport:
    """Show a report on a folder's graph and write ``parity.json``. Raises BadInput: it is below the bar, not forced."""
    report = require_parity(report, f"{folder.config.name} in {report.precision}", console, source=source, force=force)
    write_json(folder.path / "parity.json", report.as_json())
    return report


def require_parity(
    report: ParityReport, what: str, console: Console, *, source: str = "torch", force: bool
) -> ParityReport:
    """Show and return a report on the graph ``what``. Raises BadInput: parity is below the bar and not forced."""
    console.say(f"compared with {source} on {report.texts} texts in {len(report.languages)} languages")
    if not console.quiet:
        console.print([Table(["measure", ">value", ">bar", "verdict"], report.rows(), f"{what} against {source}")])
    if report.passed:
        return report
    missed = ", ".join(report.shortfalls())
    if not force:
        raise BadInput(
            f"{what} differs too much from its source to be published ({missed}); take another --precision, or --force"
        )
    console.warn(f"published below the parity bar ({missed}), as forced")
    return replace(report, forced=True)


def write_json(file: Path, value: Mapping[str, Any]) -> None:
    """Write JSON for people to read; the file may be a link to another folder's file, which stays unchanged."""
    file.unlink(missing_ok=True)
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
