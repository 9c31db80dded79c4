"""``dragoman train lawdr``: fit the density that weights sentences by rarity."""

from pathlib import Path
from typing import Any

import click

from encoders.console import Console, values_of
from encoders.phrases import counted
from indexer.readers.records.source import ReadOptions
from indexer.readers.source_documents import Sources
from indexer.training.lawdr_training import SAMPLE, train_lawdr
from onnx_export.models import DEFAULT
from query.commands.options.common_options import output_options, seed_option
from query.commands.options.encoder_options import device_option, encoder_option
from query.commands.options.help import Command
from query.commands.options.option_types import default_option
from query.commands.options.source_options import reading_options, training_options
from query.commands.output.reports import show_training


@click.command("lawdr", cls=Command)
@training_options
@encoder_option(f"Encoder of the sentences.  [default: {DEFAULT}]")
@default_option("--sample", click.IntRange(min=1), SAMPLE, "Sentences to fit on, as many of each language.")
@seed_option("Another seed draws another sample.")
@device_option
@reading_options
@output_options
def command(sources: tuple[str, ...], output: Path, options: ReadOptions, console: Console, **choices: Any) -> None:
    """Fit the density of sentences in SOURCEs, so that a document is the sum of its sentences weighted by rarity.

    Needs no labels and no torch; takes a few minutes. SOURCEs are as for index: best the documents to be indexed, or
    some like them. FOLDER then makes documents' vectors by method lawdr.
    """
    report = train_lawdr(Sources(sources, options), output, console=console, **choices)
    values = {"density": report.density.id, "documents": report.documents, "sentences": report.languages}
    show_training(
        report.folder,
        values | values_of(report.density, "bandwidth", "b"),
        [],
        f"{counted(sum(report.languages.values()), 'sentence')} in {counted(len(report.languages), 'language')} "
        f"of {counted(report.documents, 'document')}",
        console,
        refused=report.refused,
    )
