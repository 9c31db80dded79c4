"""Write a trained HMDE as a model folder: the lower graph and the upper graph, both compared with torch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from encoders.console import Console
from encoders.document import FloatArray
from encoders.folder.model_cache import file_hash
from encoders.folder.model_config import ModelConfig, Precision
from encoders.folder.model_folder import (
    TRAINING_KEPT,
    ModelFolder,
    graph_files,
    link_files,
    publishing,
    without_section,
)
from encoders.folder.training_texts import write_training_texts
from encoders.hmde.upper import ABOUT, CARD_HEADING, FORMAT, GRAPH, UpperSession, padded
from encoders.inference.graph import Inputs
from onnx_export.graphs.parity import (
    GateText,
    ParityReport,
    compare,
    encode,
    gate_documents,
    read_texts,
    with_documents,
)
from onnx_export.graphs.publishing import check_graph, require_parity, write_graph, write_json
from onnx_export.graphs.samples import sample_texts
from onnx_export.hmde.lower_base import Base, FrozenBase, TrainedBase
from onnx_export.hmde.lower_encoders.trained_lower import merge_adapters
from onnx_export.hmde.upper_model import Upper
from onnx_export.hmde.weights import digest, save
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.huggingface.hub_export import prefixed, write_files
from onnx_export.training.device import set_attention

_CARD = "MODEL_CARD.md"
_SEGMENTS: Mapping[str, str] = {
    "sentences": "sentences",
    "windows": "windows with the title before each",
    "plain-windows": "windows",
}


def publish(
    upper: Upper,
    base: Base | ModelFolder,
    target: Path,
    precision: Precision,
    about: Mapping[str, Any],
    extra: Mapping[str, bytes],
    console: Console,
    *,
    name: str = "",
    taught_by: Iterable[int] | None = None,
    check: Callable[[ModelFolder, FloatArray], None] | None = None,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Write the model folder; the upper graph and a trained lower encoder's graph must pass the parity gate.

    ``about`` has entries of ``hmde.json`` about the training, ``extra`` the contents of further files by name,
    ``taught_by`` the keys of the training texts, if known. ``name`` is by default the target's. The graph of a frozen
    lower encoder, or of a folder, keeps its precision. ``check`` may refuse the folder; it gets the lower encoder's
    reference vectors. Raises BadInput: parity is below the bar; MissingPart: the target can't be written.
    """
    upper = upper.cpu().eval()
    set_attention(upper, "eager")
    texts = read_texts()
    config = replace(base.config, name=name or target.name)
    if isinstance(base, TrainedBase):
        merge_adapters(base.source.module)
        set_attention(base.source.module.cpu().eval(), "eager")
        weights = huggingface.hash_weights(base.source.module, base.source.recipe)
        config = replace(config, precision=precision, weights=weights)
    with publishing(target, config, instead="with -o", kept=TRAINING_KEPT) as draft:
        folder = ModelFolder(draft, config)
        lower_reference = _write_lower(
            base, folder, texts, {ABOUT, GRAPH, f"{GRAPH}.data", *extra}, console, force=force
        )
        example = {"sentences": torch.randn(2, 4, upper.shape.dim), "mask": torch.ones((2, 4), dtype=torch.int64)}
        write_fp32 = partial(huggingface.export_module, upper, example, ("documents", "sentences"))
        samples = [GateText("", "document", text) for text in sample_texts()]
        write_graph(write_fp32, draft / GRAPH, precision, [_upper_inputs(upper, samples, encode(folder, samples))])
        save(draft, upper, base.source.module if isinstance(base, TrainedBase) else None)
        facts = {
            "format": FORMAT,
            "shape": asdict(upper.shape),
            "weights": digest(upper),
            "graph": file_hash(*graph_files(draft / GRAPH)),
            **about,
        }
        write_json(draft / ABOUT, facts)
        reference = _reference(upper, texts, lower_reference)
        vectors = with_documents(UpperSession(folder, "cpu"), texts, encode(folder, texts))
        report = compare(precision, texts, vectors, reference)
        report = require_parity(report, f"the upper encoder in {precision}", console, force=force)
        write_json(draft / ABOUT, {**facts, "parity": report.as_json()})
        for file, data in extra.items():
            (draft / file).write_bytes(data)
        write_training_texts(draft, taught_by)
        if check:
            check(folder, lower_reference)
        _write_card(draft / _CARD, config, _upper_section(facts, report))
    return ModelFolder.open(target), report


def _write_card(card: Path, config: ModelConfig, section: str) -> None:
    text = card.read_text(encoding="utf-8") if card.is_file() else _lower_card(config)
    card.unlink(missing_ok=True)  # the card may be a link to the base folder's card
    card.write_text(f"{without_section(text, CARD_HEADING).rstrip()}\n{section}", encoding="utf-8")


def _write_lower(
    base: Base | ModelFolder,
    folder: ModelFolder,
    texts: Sequence[GateText],
    own_files: set[str],
    console: Console,
    *,
    force: bool,
) -> FloatArray:
    """Write the lower graph, or link the base's files except ``own_files``; return the texts' reference vectors."""
    if not isinstance(base, TrainedBase):
        link_files(base.folder if isinstance(base, FrozenBase) else base, folder.path, left_out=own_files)
        return encode(folder, texts)
    console.say(f"writing the lower graph in {folder.config.precision}")
    write_files(base.source, folder.path, folder.config.precision)
    reference = huggingface.reference_vectors(base.source, [prefixed(text, folder.config) for text in texts])
    check_graph(folder, texts, reference, console, force=force)
    return reference


def _reference(upper: Upper, texts: Sequence[GateText], lower: FloatArray) -> FloatArray:
    """Torch's vectors of the gate's texts, of which ``lower`` are the sentence encoder's."""
    reference, inputs = lower.copy(), _upper_inputs(upper, texts, lower)
    with torch.no_grad():
        vectors = upper(*map(torch.from_numpy, inputs.values())).numpy()
    reference[list(gate_documents(texts, upper.shape.sentences))] = vectors
    return reference


def _upper_inputs(upper: Upper, texts: Sequence[GateText], lower: FloatArray) -> Inputs:
    """Inputs of the upper graph for documents of the texts, which have the (texts, dim) vectors ``lower``."""
    documents = gate_documents(texts, upper.shape.sentences)
    sentences, mask = padded([lower[rows] for rows in documents.values()])
    return {"sentences": sentences, "mask": mask}


def _lower_card(config: ModelConfig) -> str:
    return f"""\
# {config.name}, {config.precision}

A sentence encoder that learnt as the lower part of HMDE; made by `dragoman train hmde`. Licence of the source:
{config.licence or "not stated"}.
"""


def _upper_section(facts: Mapping[str, Any], report: ParityReport) -> str:
    shape, settings = facts["shape"], facts["settings"]
    validation = (
        f"MAP on held-out concepts {facts['score']:.4f}, before training {facts['untrained']:.4f}"
        if facts["validated"]
        else "no concept was held out to judge it by"
    )
    segments = _SEGMENTS[shape["segmentation"]]
    further = (
        "a longer document's vector is the mean over its parts, each weighted by its\n"
        "number of segments divided by the square of its position from 1"
        if shape["whole"]
        else "the further segments of a longer document are left out"
    )
    return f"""
## {CARD_HEADING}

`{GRAPH}`: `sentences` (documents, segments, {shape["dim"]}) float32, unit rows of `model.onnx` for {segments} of at
most {shape["tokens"]} tokens, and `mask` (documents, segments) int64 → `vectors` (documents, {shape["dim"]}) float32,
unit rows.
{shape["layers"]} layers, {shape["heads"]} heads, feed-forward {shape["feed_forward"]}, form `{shape["form"]}`; at most
{shape["sentences"]} segments at once: {further}.
A query is encoded by `model.onnx` alone. The upper encoder makes `hmde` the folder's default method.

Trained on {facts["documents"]:,} documents in {len(facts["languages"])} languages; lower encoder \
{"frozen" if settings["frozen"] else "trained"}; {facts["best"]:,} steps kept of {facts["steps"]:,};
{validation}. All settings: `hmde.json`; its course: `curve.png`.

Parity with torch, both graphs together; the bar is {report.verdict}: cosine {report.cosine_min:.5f} at least, \
{report.cosine_mean:.5f} in the mean, top 10 {report.top10_agreement:.3f}.
"""
