"""Notes on records at the terminal: what was refused or remarked, and where."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.console import Console

_SHOWN = 10


def show_notes(notes: Sequence[tuple[str, str]], console: Console, all_by: str = "") -> None:
    """Say the first notes and how many more there are.

    Args:
        notes: place and sentence of each.
        console: where they go.
        all_by: the command that shows all of them; none if empty.
    """
    for place, sentence in notes[:_SHOWN]:
        console.say(f"  {place}: {sentence}")
    if len(notes) > _SHOWN:
        console.say(f"  … and {len(notes) - _SHOWN:,} more{all_by and f': {all_by}'}")
