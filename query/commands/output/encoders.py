"""Encoders and the words nearest to words, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from encoders.console import Console
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import METHODS
from onnx_export.models import DEFAULT, default_path

if TYPE_CHECKING:
    from encoders.cr5.neighbours import Neighbours
    from onnx_export.graphs.device_check import DeviceCheck


def show_encoders(folders: Sequence[ModelFolder], console: Console) -> None:
    """List encoders, and name the default encoder and the methods."""
    for folder in folders:
        console.emit({**_description(folder), "default": folder.path == default_path()})
    console.records(
        [
            {
                "encoder": folder.path.name
                + (" (default)" if folder.path == default_path() else "")
                + (" (reranker)" if folder.config.is_reranker else ""),
                "precision": folder.config.precision,
                ">dim": str(folder.config.dim),
                ">languages": str(len(folder.config.languages) or "?"),
            }
            for folder in folders
        ]
    )
    is_made = any(folder.path == default_path() for folder in folders)
    console.result(f"default: {DEFAULT}" + ("" if is_made else ", made when it is first used"))
    console.result(f"methods: {', '.join(METHODS)}; more encoders: dragoman export MODEL")


def show_encoder(folder: ModelFolder, console: Console) -> None:
    """Show an encoder's card and settings."""
    console.emit(_description(folder))
    card = folder.path / "MODEL_CARD.md"
    if card.is_file():
        console.result(card.read_text(encoding="utf-8"))
    console.result(json.dumps(_description(folder), indent=2, ensure_ascii=False))


def show_check(name: str, check: DeviceCheck, console: Console) -> None:
    """Show people what an encoder does on a device."""
    for provider, counts in check.nodes.items():
        operations = ", ".join(f"{count} {operation}" for operation, count in counts.most_common())
        console.result(f"{provider.removesuffix('ExecutionProvider')}: {operations}")
    if check.parity:
        console.table(["measure", ">value", ">bar", "verdict"], check.parity.rows())
    memory = f", {check.memory / 2**20:,.0f} MB on the card" if check.on_gpu else ""
    console.result(f"{name} in {check.precision} on {check.device}: {check.tokens:,.0f} tokens a second{memory}")
    if check.strays:
        advice = "" if check.precision == "fp16" else "; export the model with --precision fp16"
        console.warn(f"the card waits for the CPU at {', '.join(check.strays)}{advice}")


def show_neighbours(words_found: Sequence[Neighbours], console: Console) -> None:
    """Show words with the words nearest to them in each language."""
    for word_found in words_found:
        console.emit(
            {
                "word": word_found.word,
                "lang": word_found.lang,
                "near": {
                    lang: [{"word": word, "cosine": round(cosine, 6)} for word, cosine in nearest]
                    for lang, nearest in word_found.near.items()
                },
            }
        )
        rows = [
            [lang, ", ".join(f"{word} {cosine:.2f}" for word, cosine in nearest)]
            for lang, nearest in word_found.near.items()
        ]
        console.table(["", "~nearest"], rows, title=f"{word_found.word} ({word_found.lang})")


def _description(folder: ModelFolder) -> dict[str, object]:
    return {"folder": str(folder.path), "build": folder.config.build_id, **asdict(folder.config)}
