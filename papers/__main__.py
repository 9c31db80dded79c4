"""The papers' tables: ``python -m papers cr5 …``, from a checkout of Dragoman; one file for each table."""

import click

from query import cli
from query.commands.options.help import LazyGroup

_LINES = {
    "cr5": "Document retrieval on Wikipedia, sentences of Europarl, words of Dinu et al.",
    "hmde-clef": "Retrieval between languages by plain cosine, title and description (table 2).",
    "hmde-mldoc": "Classification in languages without training data (table 1).",
    "hmde-variants": "Trainings compared by both tasks (tables 3 and 4, figure 2).",
    "lawdr": "Document alignment on WMT16 and WMT19, and the language probe.",
    "mappings": "Mate retrieval over all ordered pairs of languages of JRC-Acquis or Wikipedia.",
    "tlaser": "Topic classification from each language to each other, and similarity search.",
}


@click.group(cls=LazyGroup, package="papers", sections={"Commands": _LINES}, context_settings=cli.CONTEXT)
def root() -> None:
    """Compute a paper's table from the data it names, and print the paper's figures beside ours."""


def run(arguments: list[str]) -> int:
    """Compute a table with arguments and return the exit status."""
    return cli.run(arguments, root, "python -m papers")


if __name__ == "__main__":
    cli.main(run)
