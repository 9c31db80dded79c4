"""``dragoman reproduce mappings``: mate retrieval on JRC-Acquis and Wikipedia, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from encoders.console import Console
from encoders.devices import Device
from encoders.document import Document, Encoder
from encoders.methods.registry import METHODS
from onnx_export.models import open_named
from query.alignment.mates_table import Point, Sweep, mates_figure
from query.commands.help import Command
from query.commands.options import (
    PATH,
    default_encoder_option,
    device_option,
    languages_option,
    output_options,
    sweep_options,
)
from query.commands.output.paper_table import PaperTable
from query.evaluation.plots import save_figure
from query.reproduce.mappings import PAPER, Published, read_jrc, read_wikicomp, retrieve_mates


@click.command("mappings", cls=Command)
@click.option("--jrc", type=PATH, metavar="DIR", help="JRC-Acquis, the archives of its languages unpacked.")
@click.option("--wikipedia", type=PATH, multiple=True, metavar="FILE", help="A wikicomp file; may be repeated.")
@languages_option("Languages of JRC-Acquis.", default="en,ro,nl,de,fr")
@click.option(
    "--documents", type=click.IntRange(1), default=6538, show_default=True, help="Documents of a language, at most."
)
@default_encoder_option()
@click.option("--method", type=click.Choice(METHODS), default="first", show_default=True, help="The paper's: first.")
@device_option
@sweep_options
@output_options
def command(
    jrc: Path | None,
    wikipedia: tuple[Path, ...],
    languages: list[str],
    documents: int,
    encoder: str,
    method: str,
    device: Device,
    sweep: Sweep,
    plot: Path | None,
    console: Console,
) -> None:
    """Mate retrieval over all ordered pairs of languages: 60 % teach, 20 % validate, 20 % are tested.

    --jrc takes the folder where jrc-LL.tgz were unpacked, --wikipedia comparable articles of two languages as
    linguatools publishes them (wikicomp-2014_LLLL.xml, compressed or not).
    """
    if not jrc and not wikipedia:
        raise click.UsageError("name the data: --jrc DIR, --wikipedia FILE, or both")
    loaded = open_named(encoder, method, console, device=device)
    drawn_points: list[Point] = []
    if jrc:
        drawn_points = _show_table("JRC-Acquis", read_jrc(jrc, languages, documents), loaded, sweep, PAPER, console)
    for file in wikipedia:
        points = _show_table(file.name, read_wikicomp(file, documents), loaded, sweep, {}, console)
        drawn_points = drawn_points or points
    if plot:
        save_figure(mates_figure(drawn_points, sweep), plot)
        console.say(f"drawn: {plot}")


def _show_table(
    name: str, documents: Iterable[Document], encoder: Encoder, sweep: Sweep, paper: Published, console: Console
) -> list[Point]:
    mates = retrieve_mates(documents, encoder, sweep, console)
    title = f"{name}: rate and MRR, {', '.join(mates.languages)}, {mates.documents:,} documents each"
    heads = [f"paper: {model}" for model in paper]
    table = PaperTable(title, ["method", sweep.swept], heads, [encoder.spec.name], digits=3)
    points_json = []
    for point in mates.points:
        figures = {model: by_method.get(point.method) for model, by_method in paper.items()}
        table.add([point.method, point.value_text], list(figures.values()), [(point.mean.rate, point.mean.mrr)])
        points_json.append({**point.as_json(), "paper": {model: pair for model, pair in figures.items() if pair}})
    table.show(console)
    console.emit({"task": name, "languages": mates.languages, "documents": mates.documents, "points": points_json})
    return mates.points
