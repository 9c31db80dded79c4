"""``dragoman train lawdr``: fit the density that weights sentences by rarity."""

from __future__ import annotations

from pathlib import Path

import click

from encoders.console import Console
from encoders.machine.placement import Device
from encoders.phrases import counted
from indexer.readers.records.source import ReadOptions
from indexer.readers.source_documents import Sources
from indexer.training.lawdr_training import SAMPLE, train_lawdr
from onnx_export.models import DEFAULT
from query.commands.options.common_options import output_options, seed_option
from query.commands.options.encoder_options import device_option, encoder_option
from query.commands.options.help import Command
from query.commands.options.source_options import reading_options, training_options
from query.commands.output.reports import show_training


@click.command("lawdr", cls=Command)
@training_options
@encoder_option(f"Encoder of the sentences.  [default: {DEFAULT}]")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=SAMPLE,
    show_default=True,
    help="Sentences to fit on, as many of each language.",
)
@seed_option("Another seed draws another sample.")
@device_option
@reading_options
@output_options
def command(
    sources: tuple[str, ...],
    output: Path,
    encoder: str | None,
    sample: int,
    seed: int,
    device: Device,
    options: ReadOptions,
    console: Console,
) -> None:
    """Fit the density of sentences in SOURCEs, so that a document is the sum of its sentences weighted by rarity.

    Needs no labels and no torch; takes a few minutes. SOURCEs are as for index: best the documents to be indexed, or
    some like them. FOLDER then makes documents' vectors by method lawdr.
    """
    read = Sources(sources, options)
    report = train_lawdr(read, output, encoder=encoder, sample=sample, seed=seed, device=device, console=console)
    density = report.density
    show_training(
        report.folder,
        {
            "density": density.id,
            "documents": report.documents,
            "sentences": report.languages,
            "bandwidth": density.bandwidth,
            "b": density.b,
        },
        [],
        f"{counted(sum(report.languages.values()), 'sentence')} in {counted(len(report.languages), 'language')} "
        f"of {counted(report.documents, 'document')}",
        console,
        refused=report.refused,
    )
