"""``dragoman train lawdr``: fit the density that weights sentences by rarity."""

from __future__ import annotations

from pathlib import Path

import click

from encoders.console import Console
from encoders.machine.placement import Device
from encoders.wording import counted
from indexer.readers.source import ReadOptions
from indexer.readers.source_documents import Sources
from indexer.training.lawdr_training import SAMPLE, LawdrReport, train_lawdr
from onnx_export.models import DEFAULT
from query.commands.help import Command
from query.commands.options import (
    device_option,
    encoder_option,
    output_options,
    reading_options,
    seed_option,
    training_options,
)
from query.commands.output.trainings import show_trained, show_training


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
    report = train_lawdr(
        Sources(sources, options), output, encoder=encoder, sample=sample, seed=seed, device=device, console=console
    )
    _show_report(report, console)


def _show_report(report: LawdrReport, console: Console) -> None:
    density, folder = report.density, report.folder
    show_training(
        folder,
        {
            "density": density.id,
            "documents": report.documents,
            "sentences": report.languages,
            "bandwidth": density.bandwidth,
            "b": density.b,
        },
        report.refused,
        console,
    )
    outcome = (
        f"{counted(sum(report.languages.values()), 'sentence')} in {counted(len(report.languages), 'language')} "
        f"of {counted(report.documents, 'document')}"
    )
    show_trained(folder, outcome, console)
