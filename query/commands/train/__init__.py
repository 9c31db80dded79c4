"""``dragoman train``: one file for each kind of training."""

import click

from query.commands.options.help import LazyGroup

_LINES = {
    "cr5": "Learn a space of words from documents about the same concepts.",
    "hmde": "Train a document encoder: a small transformer over the vectors of segments.",
    "lawdr": "Learn to weight sentences by how rare their content is.",
    "mapping": "Learn maps between the languages of an encoder.",
    "tlaser": "Learn a sentence encoder from parallel text.",
}


@click.group("train", cls=LazyGroup, package=__name__, sections={"Commands": _LINES})
def command() -> None:
    """Train an encoder, or maps between the languages of an encoder; the result is a folder."""
