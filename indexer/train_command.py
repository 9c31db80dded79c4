"""``dragoman train``: fit an encoder on documents."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from encoders.console import Console, output_options
from encoders.session import Device
from indexer.lawdr_training import SAMPLE, LawdrReport, train_lawdr
from indexer.readers import ReadOptions
from indexer.reading_options import reading_options
from onnx_export.models import DEFAULT


@click.group("train", short_help="Fit an encoder on documents.")
def command() -> None:
    """Fit an encoder on documents; what it makes is a folder that --encoder takes."""


@command.command("lawdr", short_help="Weigh sentences by how rare what they say is.")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to make.")
@click.option("--encoder", metavar="NAME|FOLDER", help=f"Encoder of the sentences.  [default: {DEFAULT}]")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=SAMPLE,
    show_default=True,
    help="Sentences to fit on, as many of each language.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another one draws another sample.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@reading_options
@output_options
def lawdr_command(
    sources: tuple[str, ...],
    output: Path,
    encoder: str | None,
    sample: int,
    seed: int,
    device: str,
    options: ReadOptions,
    console: Console,
) -> None:
    """Fit the density of sentences in SOURCEs, so that a document is the sum of its sentences weighted by rarity.

    Needs no labels and no torch; takes a few minutes. SOURCEs are as for index: best the documents to be indexed, or
    some like them. FOLDER then makes documents' vectors by method lawdr.
    """
    report = train_lawdr(
        sources,
        output,
        options=options,
        encoder=encoder,
        sample=sample,
        seed=seed,
        device=cast("Device", device),
        console=console,
    )
    _tell(report, console)


def _tell(report: LawdrReport, console: Console) -> None:
    density, folder = report.density, report.folder
    console.emit(
        {
            "folder": str(folder.path),
            "name": folder.config.name,
            "density": density.id,
            "documents": report.documents,
            "sentences": report.languages,
            "bandwidth": density.bandwidth,
            "b": density.b,
            "refused": [{"place": note.where, "text": note.reason} for note in report.refused],
        }
    )
    for note in report.refused[:_SHOWN]:
        console.say(f"  {note.where}: {note.reason}")
    if len(report.refused) > _SHOWN:
        console.say(f"  … and {len(report.refused) - _SHOWN:,} more")
    console.say(
        f"{sum(report.languages.values()):,} sentences in {len(report.languages)} languages "
        f"of {report.documents:,} documents; use it: dragoman index SOURCE… -c NAME --encoder {folder.path}"
    )
    console.result(str(folder.path))


_SHOWN = 10
