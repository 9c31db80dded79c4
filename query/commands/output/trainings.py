"""Trained encoders for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from encoders.console import Console
from encoders.folder.model_folder import ModelFolder
from indexer.readers.source import Refusal, Remark
from query.commands.output.notes import show_notes


def show_training(
    folder: ModelFolder,
    values: Mapping[str, Any],
    refused: Sequence[Refusal],
    console: Console,
    remarks: Sequence[Remark] | None = None,
) -> None:
    """Emit a trained folder with further JSON values, and print the notes on the sources.

    Args:
        folder: the encoder.
        values: of the training.
        refused: records that could not be read.
        console: shows all this.
        remarks: on how the sources were read; None for a training that makes none.
    """
    refusals = [(refusal.place, refusal.text) for refusal in refused]
    notes = {"refused": refusals}
    if remarks is not None:
        notes["remarks"] = [(remark.place, remark.text) for remark in remarks]
    notes_json = {kind: [{"place": place, "text": text} for place, text in pairs] for kind, pairs in notes.items()}
    console.emit({"folder": str(folder.path), "name": folder.config.name, **values, **notes_json})
    show_notes([note for pairs in notes.values() for note in pairs], console)


def show_trained(folder: ModelFolder, outcome: str, console: Console) -> None:
    """Print the outcome of a training, how to use the encoder, and its folder."""
    console.say(f"{outcome}; use it: dragoman index SOURCE… -c NAME --encoder {folder.path}")
    console.result(str(folder.path))
