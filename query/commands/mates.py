"""``dragoman mates``: does a document find its translation first? Map by map, dimension by dimension, pair by pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from encoders.console import Console
from encoders.errors import BadInput
from encoders.maps.mates import Mates
from encoders.maps.parallel import Parallel
from encoders.wording import counted
from indexer.training.mapping_sources import AlignedSources
from query.alignment.mates import mates_by_method
from query.alignment.mates_table import Sweep, mates_figure, run_sweep
from query.commands.options import PATH, aligned_options, output_options, place_options, reading_options, sweep_options
from query.evaluation.plots import save_figure


@click.command("mates")
@reading_options
@place_options
@aligned_options
@sweep_options
@click.option(
    "--map",
    "mapping",
    type=PATH,
    metavar="FOLDER",
    help="Learn nothing: measure a mapping of dragoman train mapping, on all documents.",
)
@output_options
def command(sweep: Sweep, plot: Path | None, mapping: Path | None, aligned: AlignedSources, console: Console) -> None:
    """Find each document's translation among those of the other language, for all ordered pairs of languages.

    Documents of SOURCEs need the field `concept`, the same for translations of one another; concepts that all languages
    have count. Three fifths of them teach, a fifth chooses the ridge, a fifth is tested.
    """
    if mapping and (sweep.swept or plot):
        raise click.UsageError("--map learns nothing; leave --dimensions, --pairs and --plot out")
    documents, spec = aligned.load(console)
    parallel = documents.parallel()
    if mapping:
        measured, unknown_langs = mates_by_method(mapping, parallel, spec.model)
        if unknown_langs:
            console.warn(f"the maps know nothing of {', '.join(unknown_langs)}, so they say little here")
        _show_mapping(measured, spec.name, parallel, console)
        return
    _run(parallel, spec.name, sweep, plot, console)


def _show_mapping(measured: Mapping[str, Mates], name: str, parallel: Parallel, console: Console) -> None:
    console.table(
        ["method", ">rate", ">MRR"],
        [[method, f"{mates.rate:.3f}", f"{mates.mrr:.3f}"] for method, mates in measured.items()],
        title=f"Mate retrieval of {name}: {len(parallel.rows)} languages, all of "
        + counted(len(parallel.concepts), "concept"),
    )
    _emit([{"method": method, **asdict(mates)} for method, mates in measured.items()], name, parallel, console)


def _emit(points: Sequence[Mapping[str, Any]], name: str, parallel: Parallel, console: Console) -> None:
    languages, concepts = list(parallel.rows), len(parallel.concepts)
    console.emit({"encoder": name, "languages": languages, "concepts": concepts, "points": points})


def _run(parallel: Parallel, name: str, sweep: Sweep, plot: Path | None, console: Console) -> None:
    """Measure the methods of a sweep, print their table and, if asked, draw their figure."""
    if plot and not plot.suffix:
        raise BadInput(f"{plot} has no ending of a picture that can be drawn; name it .png, .svg or .pdf")
    points = run_sweep(parallel, sweep, console)
    rows = [
        [
            point.method,
            point.said,
            f"{point.mean.rate:.3f} ± {point.spread.rate:.3f}",
            f"{point.mean.mrr:.3f} ± {point.spread.mrr:.3f}",
        ]
        for point in points
    ]
    title = (
        f"Mate retrieval of {name}: {len(parallel.rows) * (len(parallel.rows) - 1)} ordered pairs of "
        f"{len(parallel.rows)} languages, {counted(len(parallel.concepts), 'concept')}, "
        + counted(sweep.splits, "split")
    )
    console.table(["method", sweep.swept or "", ">rate", ">MRR"], rows, title=title)
    _emit([point.as_json() for point in points], name, parallel, console)
    if plot:
        save_figure(mates_figure(points, sweep), plot)
        console.say(f"drawn: {plot}")
