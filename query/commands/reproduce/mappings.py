"""``dragoman reproduce mappings``: mate retrieval on JRC-Acquis and Wikipedia, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import click

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.languages import normalise
from encoders.methods.registry import METHODS, open_encoder
from encoders.session import Device
from indexer.training.aligned_documents import ByConcept, add_encoded
from onnx_export.models import DEFAULT, find_model
from query.alignment.mates import Method
from query.alignment.mates_table import Point, Sweep, mates_figure, run_sweep
from query.commands.options import device_option, output_options, sweep_options
from query.evaluation.plots import save_figure
from query.reproduce.mappings_data import read_jrc, read_wikicomp

PAPER: dict[str, dict[Method, tuple[float, float]]] = {
    "mBERT": {"raw": (0.115, 0.2), "lca-published": (0.963, 0.975), "lcc": (0.959, 0.973), "nca": (0.781, 0.84)},
    "mT5": {"raw": (0.37, 0.466), "lca-published": (0.922, 0.947), "lcc": (0.907, 0.936), "nca": (0.756, 0.814)},
    "XLM-RoBERTa": {
        "raw": (0.057, 0.114),
        "lca-published": (0.925, 0.948),
        "lcc": (0.928, 0.951),
        "nca": (0.499, 0.617),
    },
    "ErnieM": {"raw": (0.355, 0.443), "lca-published": (0.949, 0.965), "lcc": (0.946, 0.962), "nca": (0.67, 0.742)},
}
"""Mate retrieval rate and mean reciprocal rank on JRC-Acquis (table 1)."""

_PATH = click.Path(path_type=Path)


def _codes(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(normalise(code) for code in value.split(",") if code.strip()))


@click.command("mappings")
@click.option("--jrc", type=_PATH, metavar="DIR", help="JRC-Acquis, the archives of its languages unpacked.")
@click.option("--wikipedia", type=_PATH, multiple=True, metavar="FILE", help="A wikicomp file; may be repeated.")
@click.option(
    "--languages", callback=_codes, default="en,ro,nl,de,fr", show_default=True, metavar="LANG,…", help="Of JRC."
)
@click.option("--documents", type=click.IntRange(1), default=6538, show_default=True, help="Of a language, at most.")
@click.option("--encoder", metavar="NAME|FOLDER", default=DEFAULT, show_default=True)
@click.option("--method", type=click.Choice(METHODS), default="first", show_default=True, help="The paper's: first.")
@device_option
@sweep_options
@output_options
def command(
    jrc: Path | None,
    wikipedia: tuple[Path, ...],
    languages: tuple[str, ...],
    documents: int,
    encoder: str,
    method: str,
    device: str,
    methods: Sequence[Method],
    dimensions: Sequence[int],
    pairs: Sequence[int],
    splits: int,
    seed: int,
    plot: Path | None,
    console: Console,
) -> None:
    """Mate retrieval over all ordered pairs of languages: 60 % teach, 20 % validate, 20 % are tested.

    --jrc takes the folder where jrc-LL.tgz were unpacked, --wikipedia comparable articles of two languages as
    linguatools publishes them (wikicomp-2014_LLLL.xml, compressed or not).
    """
    if not jrc and not wikipedia:
        raise click.UsageError("name the data: --jrc DIR, --wikipedia FILE, or both")
    if dimensions and pairs:
        raise click.UsageError("--dimensions and --pairs are two sweeps; try one at a time")
    sweep = Sweep(methods, dimensions, pairs, splits, seed)
    loaded = open_encoder(find_model(encoder, console), method, device=cast("Device", device))
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
    name: str,
    documents: Iterable[Document],
    encoder: Encoder,
    sweep: Sweep,
    paper: dict[str, dict[Method, tuple[float, float]]],
    console: Console,
) -> list[Point]:
    parallel = add_encoded(ByConcept(), documents, encoder, console).only(()).parallel()
    points = run_sweep(parallel, sweep, console)
    rows, points_json = [], list[dict[str, Any]]()
    for point in points:
        paper_figures = {model: table.get(point.method) for model, table in paper.items()}
        cells = [f"{figures[0]:.3f} {figures[1]:.3f}" if figures else "" for figures in paper_figures.values()]
        rows.append([point.method, point.said, *cells, f"{point.rate:.3f} {point.mrr:.3f}"])
        points_json.append(
            {**point.as_json(), "paper": {model: figures for model, figures in paper_figures.items() if figures}}
        )
    columns = ["method", sweep.swept, *(f">paper: {model}" for model in paper), f">{encoder.spec.name}"]
    title = f"{name}: rate and MRR, {', '.join(parallel.rows)}, {len(parallel.concepts):,} documents each"
    console.table(columns, rows, title=title)
    console.emit(
        {"task": name, "languages": list(parallel.rows), "documents": len(parallel.concepts), "points": points_json}
    )
    return points
