"""``dragoman train``: one file for each encoder."""

from __future__ import annotations

import click

from query.commands.lazy_group import LazyGroup

_LINES = {
    "cr5": "Learn a space of words from documents about the same concepts.",
    "hmde": "Train a document encoder: a small transformer over sentence vectors.",
    "lawdr": "Weigh sentences by how rare what they say is.",
    "mapping": "Learn maps between the languages of an encoder.",
    "tlaser": "Learn a sentence encoder from parallel text.",
}


@click.group("train", cls=LazyGroup, package=__name__, lines=_LINES)
def command() -> None:
    """Fit an encoder on documents; what it makes is a folder that --encoder takes."""
