"""``dragoman mates``: does a document find its translation first? Map by map, dimension by dimension, pair by pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from encoders.console import Console, output_options
from encoders.errors import BadInput
from encoders.maps.parallel import Parallel
from indexer.mapping_sources import AlignedSources, aligned_options
from indexer.reading_options import reading_options
from indexer.settings import place_options
from query.mates import METHODS, Method
from query.mates_table import Sweep, mates_figure, swept
from query.plots import save_figure


def numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Whole numbers above 0 with commas between."""
    try:
        found = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError:
        found = (0,)
    if any(one < 1 for one in found):
        raise click.BadParameter(f"{value!r} is no list of whole numbers with commas between")
    return found


def methods(_context: click.Context, _option: click.Parameter, value: str) -> tuple[Method, ...]:
    """Names of methods with commas between."""
    named = [part.strip() for part in value.split(",") if part.strip()]
    if unknown := [name for name in named if name not in METHODS]:
        raise click.BadParameter(f"there is no method {unknown[0]!r}; choose among {', '.join(METHODS)}")
    return tuple(method for method in METHODS if method in named)


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--methods``, ``--dimensions``, ``--pairs``, ``--splits``, ``--seed`` and ``--plot``."""
    options = (
        click.option(
            "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the figures: .png, .svg, .pdf."
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Of the first split."),
        click.option(
            "--splits", type=click.IntRange(1), default=3, show_default=True, help="Of the concepts, at random."
        ),
        click.option(
            "--pairs", callback=numbers, default="", metavar="N,…", help="Numbers of training concepts to try."
        ),
        click.option("--dimensions", callback=numbers, default="", metavar="K,…", help="Dimensions to try."),
        click.option(
            "--methods",
            callback=methods,
            default="raw,centred,lca-published,lca,lca-stay,lcc",
            show_default=True,
            metavar="NAME,…",
            help="Ways to compare; nca, too, which needs the train extra.",
        ),
    )
    for option in options:
        command = option(command)
    return command


@click.command("mates", short_help="Mate retrieval: does a document find its translation first, map by map?")
@reading_options
@place_options
@aligned_options
@sweep_options
@output_options
def command(
    methods: Sequence[Method],
    dimensions: Sequence[int],
    pairs: Sequence[int],
    splits: int,
    seed: int,
    plot: Path | None,
    aligned: AlignedSources,
    console: Console,
) -> None:
    """Find each document's translation among those of the other language, for all ordered pairs of languages.

    Documents of SOURCEs need the field `concept`, the same for translations of one another; concepts that all languages
    have count. Three fifths of them teach, a fifth chooses the ridge, a fifth is tested.
    """
    if dimensions and pairs:
        raise click.UsageError("--dimensions and --pairs are two sweeps; try one at a time")
    documents, spec = aligned.load(console)
    parallel = documents.parallel()
    run(parallel, spec.name, Sweep(methods, dimensions, pairs, splits, seed), plot, console)


def run(parallel: Parallel, name: str, sweep: Sweep, plot: Path | None, console: Console) -> None:
    """Measure, show and draw."""
    if plot and not plot.suffix:
        raise BadInput(f"{plot} has no ending of a picture that can be drawn; name it .png, .svg or .pdf")
    points = swept(parallel, sweep, console)
    rows = [
        [one.method, one.said, f"{one.rate:.3f} ± {one.rate_spread:.3f}", f"{one.mrr:.3f} ± {one.mrr_spread:.3f}"]
        for one in points
    ]
    title = (
        f"Mate retrieval of {name}: {len(parallel.rows) * (len(parallel.rows) - 1)} ordered pairs of "
        f"{len(parallel.rows)} languages, {len(parallel.concepts):,} concepts, {sweep.splits} splits"
    )
    console.table(["method", sweep.swept or "", ">rate", ">MRR"], rows, title=title)
    console.emit(
        {
            "encoder": name,
            "languages": list(parallel.rows),
            "concepts": len(parallel.concepts),
            "points": [one.as_json() for one in points],
        }
    )
    if plot:
        save_figure(mates_figure(points, sweep), plot)
        console.say(f"drawn: {plot}")
