"""Export the default encoder in a precision: its weights come with a package, so it needs neither hub nor torch."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from encoders.console import Console
from encoders.document import FloatArray
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder, free_target
from onnx_export.default_model.making import make
from onnx_export.graphs.parity import ParityReport, encode, read_texts
from onnx_export.graphs.publishing import check_graph


def export_default(
    target: Path,
    precision: Precision,
    console: Console,
    check_on_gpu: Callable[[ModelFolder, FloatArray], None] | None = None,
    *,
    dim: int | None = None,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Write the default encoder into a folder; its graph is compared with the float32 graph on the CPU.

    With ``dim`` vectors have their first numbers alone. ``check_on_gpu`` may refuse the folder before it is published;
    it gets the reference vectors of the gate's texts. Raises BadInput: the target exists and is no exported model,
    parity is below the bar and not forced, or ``dim`` is too large; MissingPart: the weights' package is not installed.
    """
    target, texts, reports = free_target(target, "exported model"), read_texts(), []
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch) / "fp32", Console(quiet=True), "fp32", dim=dim)
        reference = encode(ModelFolder.open(Path(scratch) / "fp32"), texts)

    def check_draft(draft: ModelFolder) -> None:
        reports.append(check_graph(draft, texts, reference, console, source="its float32 graph", force=force))
        if check_on_gpu:
            check_on_gpu(draft, reference)

    make(target, console, precision, check_draft, dim)
    return ModelFolder.open(target), reports[0]
