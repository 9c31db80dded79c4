"""Notes on records that were refused or remarked on, with their places."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.console import Console

_SHOWN = 10


def show_notes(notes: Sequence[tuple[str, str]], console: Console, all_by: str = "") -> None:
    """Print the first ten notes, and how many more there are.

    Args:
        notes: place and sentence of each note.
        console: prints the notes.
        all_by: the command that shows all notes; empty: no command is named.
    """
    for place, sentence in notes[:_SHOWN]:
        console.say(f"  {place}: {sentence}")
    if len(notes) > _SHOWN:
        console.say(f"  … and {len(notes) - _SHOWN:,} more{all_by and f': {all_by}'}")
