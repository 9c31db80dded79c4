"""Export a Hugging Face encoder as a model folder, compared with its source."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from encoders.console import Console
from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.folder import ModelConfig, ModelFolder, Precision, free_target, model_cache, publishing
from onnx_export.graphs.parity import GateText, ParityReport, check_parity, read_texts
from onnx_export.graphs.precision import convert
from onnx_export.huggingface import source as huggingface
from onnx_export.huggingface.hub import find_source, read_card
from onnx_export.huggingface.layout import Recipe, StatedLayout, choose_pooling, choose_prefixes, read_layout
from onnx_export.huggingface.model_card import model_card

_NONE = StatedLayout()


def export_model(
    model: str,
    output: Path | None,
    precision: Precision,
    wishes: StatedLayout,
    console: Console,
    *,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Export a model, compare its graph with torch and publish its folder.

    Args:
        model: a folder or a hub name.
        output: the folder to make; None: ``NAME-PRECISION`` in the model cache.
        precision: precision of the graph.
        wishes: the user's statements about the model.
        console: shows the choices and the parity table.
        force: publish even if parity is below the bar.

    Raises:
        BadInput: the model can't be exported, the target exists and is no exported model, or parity is below the bar.
        MissingPart: torch, transformers or ONNX Runtime is not installed, or the hub can't be reached.
    """
    huggingface.require_torch()
    folder = find_source(model, console.say)
    own_name = folder.resolve().name if Path(model).expanduser().is_dir() else model.rsplit("/", 1)[-1]
    name = wishes.name or own_name
    target = _target(output, name, precision)
    layout = read_layout(folder)
    recipe = choose_pooling(layout, wishes.pooling)
    console.say(f"loading {name}")
    source = huggingface.load(layout, recipe)
    prefixes = choose_prefixes(layout, own_name)
    config = describe(name, read_card(folder), prefixes, recipe, source, precision, wishes)
    _say_choices(config, recipe, prefixes[2], wishes, console)
    texts = read_texts()
    reference = huggingface.reference_vectors(source, [prefixed(text, config) for text in texts])
    with publishing(target, config, instead="with -o") as draft:
        console.say(f"writing the graph in {precision}")
        write_graph(source, draft, precision)
        report = check_graph(ModelFolder(draft, config), texts, reference, console, force=force)
        parity_json = json.dumps(report.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
        (draft / "parity.json").write_text(parity_json + "\n", encoding="utf-8")
        (draft / "MODEL_CARD.md").write_text(model_card(model, config, recipe, report), encoding="utf-8")
    return ModelFolder.open(target), report


def _target(output: Path | None, name: str, precision: Precision) -> Path:
    """The folder to make: ``output``, or the model's folder in the cache."""
    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise BadInput(f"{name!r} can't be a model's name; give one without slashes: --name NAME")
    return free_target(output or model_cache() / f"{name}-{precision}", "exported model")


def describe(
    name: str,
    card: tuple[str, tuple[str, ...]],
    prefixes: tuple[str, str, str],
    recipe: Recipe,
    source: huggingface.SourceModel,
    precision: Precision,
    wishes: StatedLayout = _NONE,
) -> ModelConfig:
    """Configuration of a loaded model's folder, without the hashes of its files."""
    licence, languages = card
    query, document, _ = prefixes
    return ModelConfig(
        name=name,
        dim=source.dim,
        max_tokens=source.max_tokens,
        pooling=recipe.pooling,
        query_prefix=query if wishes.query_prefix is None else wishes.query_prefix,
        document_prefix=document if wishes.document_prefix is None else wishes.document_prefix,
        languages=languages if wishes.languages is None else wishes.languages,
        precision=precision,
        weights=source.weights,
        tokenizer="",
        graph="",
        licence=licence,
    )


def _say_choices(config: ModelConfig, recipe: Recipe, origin: str, wishes: StatedLayout, console: Console) -> None:
    if recipe.remark:
        console.say(recipe.remark)
    if wishes.query_prefix is not None or wishes.document_prefix is not None:
        origin = "as asked"
    console.say(f"pooling {config.pooling}, {config.dim} dimensions, at most {config.max_tokens} tokens")
    console.say(f"queries begin with {config.query_prefix!r}, documents with {config.document_prefix!r} ({origin})")
    if not config.languages:
        console.say("nobody states the model's languages; --languages de,fr,zh does")


def write_graph(source: huggingface.SourceModel, draft: Path, precision: Precision) -> None:
    """Write ``model.onnx`` and ``tokenizer.json`` into a folder that is not yet published."""
    with tempfile.TemporaryDirectory(prefix="graph.", dir=draft) as scratch:
        graph = Path(scratch) / "fp32.onnx"
        huggingface.export_token_graph(source.module, graph)
        convert(graph, draft / "model.onnx", precision)
    huggingface.save_tokenizer(source, draft / "tokenizer.json")


def prefixed(text: GateText, config: ModelConfig) -> str:
    """Return a text of the gate with its role's prefix."""
    return (config.query_prefix if text.role == "query" else config.document_prefix) + text.text


def check_graph(
    folder: ModelFolder, texts: Sequence[GateText], reference: FloatArray, console: Console, *, force: bool
) -> ParityReport:
    """Compare a folder's graph with torch's vectors of the texts, show the report, and refuse a graph below the bar.

    Raises:
        BadInput: parity is below the bar and not forced.
    """
    report = check_parity(folder, texts, reference)
    return require_parity(report, f"{folder.config.name} in {report.precision}", console, force=force)


def require_parity(report: ParityReport, what: str, console: Console, *, force: bool) -> ParityReport:
    """Show a report, and refuse its graph, which ``what`` names, below the bar; return the report.

    Raises:
        BadInput: parity is below the bar and not forced.
    """
    console.say(f"compared with torch on {report.texts} texts in {len(report.languages)} languages")
    if not console.quiet:
        console.table(["measure", ">value", ">bar", "verdict"], report.rows(), title=f"{what} against torch")
    if report.passed:
        return report
    missed = ", ".join(report.shortfalls())
    if not force:
        raise BadInput(
            f"{what} differs too much from its source to be published ({missed}); take another --precision, or --force"
        )
    console.warn(f"published below the parity bar ({missed}), as forced")
    return replace(report, forced=True)
