"""A trained HMDE as a model folder: the lower graph, the upper graph, both proved against torch."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from encoders.console import Console
from encoders.document import FloatArray
from encoders.folder import TRAINING_KEPT, ModelConfig, ModelFolder, Precision, file_hash, link_files, publishing
from encoders.hmde.upper import ABOUT, FORMAT, GRAPH, UpperSession, padded
from onnx_export.graphs.parity import GateText, ParityReport, compare, encode, read_texts
from onnx_export.graphs.precision import convert
from onnx_export.hmde.base import Base
from onnx_export.hmde.lower_encoders.adapters import merge_adapters
from onnx_export.hmde.model import Upper
from onnx_export.hmde.weights import digest, save
from onnx_export.huggingface import source as huggingface
from onnx_export.huggingface.export import gate, judged, prefixed, write_graph

_CARD, _PARITY = "MODEL_CARD.md", "parity.json"
_HEADING = "\n## Documents (HMDE)\n"
_SECTION = re.compile(re.escape(_HEADING) + r".*?(?=\n## |\Z)", re.DOTALL)
"""What an HMDE folder's card says of its upper encoder, which another one is trained in place of."""


def publish(
    upper: Upper,
    base: Base,
    target: Path,
    precision: Precision,
    about: Mapping[str, Any],
    extra: Mapping[str, bytes],
    console: Console,
    *,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Make the folder; its upper graph, and its lower one where that was trained, pass the parity gate.

    Args:
        upper: trained.
        base: the lower encoder that it was trained with.
        target: the folder.
        precision: of the graphs; a frozen lower keeps its own.
        about: what ``hmde.json`` says of the training.
        extra: more files, by name.
        console: shown the parity tables.
        force: publish below the bar.

    Raises:
        BadInput: parity is below the bar.
        MissingPart: the target can't be written, or its disk is full.
    """
    upper = upper.cpu().eval()
    texts = read_texts()
    config = replace(base.config, name=target.name)
    if base.source and base.recipe:
        merge_adapters(base.source.module)
        base.source.module.cpu().eval()
        weights = huggingface.hash_weights(base.source.module, base.recipe)
        config = replace(config, precision=precision, weights=weights)
    with publishing(target, config, instead="with -o", kept=TRAINING_KEPT) as made:
        folder = ModelFolder(made, config)
        lower_reference = _write_lower(base, folder, texts, {ABOUT, GRAPH, *extra}, console, force=force)
        with tempfile.TemporaryDirectory(prefix="graph.", dir=made) as scratch:
            graph = Path(scratch) / "fp32.onnx"
            example = {"sentences": torch.randn(2, 4, upper.shape.dim), "mask": torch.ones((2, 4), dtype=torch.int64)}
            huggingface.export_module(upper, example, ("documents", "sentences"), graph)
            convert(graph, made / GRAPH, precision)
        save(made, upper, base.source.module if base.source else None)
        said = {
            "format": FORMAT,
            "shape": asdict(upper.shape),
            "weights": digest(upper),
            "graph": file_hash(made / GRAPH),
            **about,
        }
        _write_json(made / ABOUT, said)
        report = _prove(upper, folder, texts, lower_reference, precision)
        judged(report, f"the upper encoder in {precision}", console, force=force)
        _write_json(made / ABOUT, {**said, "parity": report.as_json()})
        for name, data in extra.items():
            (made / name).write_bytes(data)
        card = made / _CARD
        text = card.read_text(encoding="utf-8") if card.is_file() else _lower_card(config)
        card.unlink(missing_ok=True)  # it may be a link to the base's own
        card.write_text(_SECTION.sub("", text).rstrip() + "\n" + _described(said, report), encoding="utf-8")
    return ModelFolder.open(target), report


def _write_lower(
    base: Base, folder: ModelFolder, texts: Sequence[GateText], own: set[str], console: Console, *, force: bool
) -> FloatArray:
    """Put the lower graph into the folder, besides its own files; returns what its source makes of the gate's texts."""
    if not base.source:
        if base.folder:
            link_files(base.folder, folder.path, besides=own)
        return encode(folder, texts)
    console.say(f"writing the lower graph in {folder.config.precision}")
    write_graph(base.source, folder.path, folder.config.precision)
    reference = huggingface.reference_vectors(base.source, [prefixed(text, folder.config) for text in texts])
    report = gate(folder, texts, reference, console, force=force)
    _write_json(folder.path / _PARITY, report.as_json())
    return reference


def _prove(
    upper: Upper, folder: ModelFolder, texts: Sequence[GateText], lower: FloatArray, precision: Precision
) -> ParityReport:
    """The gate for both graphs together: documents are runs of up to 32 texts, queries go through the lower alone."""
    ours = encode(folder, texts)
    session = UpperSession(folder, "cpu")
    documents = [at for at, text in enumerate(texts) if text.role == "document"]
    runs = [
        [documents[(place + more) % len(documents)] for more in range(1 + place % upper.shape.sentences)]
        for place in range(len(documents))
    ]
    ours[documents] = session.documents([ours[run] for run in runs])
    reference = lower.copy()
    stack, mask = padded([lower[run] for run in runs])
    with torch.no_grad():
        reference[documents] = upper(torch.from_numpy(stack), torch.from_numpy(mask)).numpy()
    return compare(precision, texts, ours, reference)


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.unlink(missing_ok=True)  # it may be a link to the base's own
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _lower_card(config: ModelConfig) -> str:
    return f"""\
# {config.name}, {config.precision}

A sentence encoder that learnt as the lower part of HMDE; made by `dragoman train hmde`. Licence of the source:
{config.licence or "not stated"}.
"""


def _described(said: Mapping[str, Any], report: ParityReport) -> str:
    shape, settings = said["shape"], said["settings"]
    judged = (
        f"MAP on held-out concepts {said['score']:.4f}, before training {said['untrained']:.4f}"
        if said["validated"]
        else "no concept was held out to judge it by"
    )
    verdict = "reached" if report.passed else "**not reached**; published because it was forced"
    return f"""{_HEADING}
`{GRAPH}`: `sentences` (documents, sentences, {shape["dim"]}) float32, unit rows of `model.onnx` for sentences of at
most {shape["tokens"]} tokens, and `mask` (documents, sentences) int64 → `vectors` (documents, {shape["dim"]}) float32,
unit rows.
{shape["layers"]} layers, {shape["heads"]} heads, feed-forward {shape["feed_forward"]}, form `{shape["form"]}`; at most
{shape["sentences"]} sentences at once: a longer document is the mean over its windows, each counted by its
sentences over the square of its place.
A query is encoded by `model.onnx` alone. It makes `hmde` the folder's default method.

Trained on {said["documents"]:,} documents in {len(said["languages"])} languages; lower encoder \
{"frozen" if settings["frozen"] else "trained"}; {said["best"]:,} steps kept of {said["steps"]:,};
{judged}. All settings: `hmde.json`; its course: `curve.png`.

Parity with torch, both graphs together; the bar is {verdict}: cosine {report.cosine_min:.5f} at least, \
{report.cosine_mean:.5f} in the mean, top 10 {report.top10_agreement:.3f}.
"""
