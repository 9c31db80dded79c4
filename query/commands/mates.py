"""``dragoman mates``: does a document find its translation first? Map by map, dimension by dimension, pair by pair."""

from __future__ import annotations

from pathlib import Path

import click

from encoders.console import Console
from indexer.training.mapping_sources import AlignedSources
from query.alignment.mate_retrieval import mates_by_method
from query.alignment.mate_retrieval_sweep import Sweep, mates_figure, run_sweep
from query.commands.help import Command
from query.commands.options import PATH, aligned_options, output_options, place_options, reading_options, sweep_options
from query.commands.output.mates import show_mates, show_sweep
from query.evaluation.drawing import save_figure


@click.command("mates", cls=Command)
@reading_options
@place_options
@aligned_options
@sweep_options()
@click.option(
    "--map",
    "mapping",
    type=PATH,
    metavar="FOLDER",
    help="Learn nothing: measure a mapping of dragoman train mapping, on all documents.",
)
@output_options
def command(sweep: Sweep, plot: Path | None, mapping: Path | None, aligned: AlignedSources, console: Console) -> None:
    """Find each document's translation among the documents of the other language, for all ordered pairs of languages.

    Documents of SOURCEs need the field `concept`, the same for translations of one another; only concepts with
    documents in all languages are used. Three fifths of them are for training, one fifth chooses the ridge, and one
    fifth is for the test.
    """
    if mapping and (sweep.swept or plot):
        raise click.UsageError("--map learns nothing; leave --dimensions, --pairs and --plot out")
    documents, spec = aligned.load(console)
    parallel = documents.parallel()
    if mapping:
        measured, unknown_langs = mates_by_method(mapping, parallel, spec.model)
        if unknown_langs:
            console.warn(f"the maps know nothing of {', '.join(unknown_langs)}, so they say little here")
        show_mates(measured, spec.name, parallel, console)
        return
    points = run_sweep(parallel, sweep, console)
    show_sweep(points, sweep, spec.name, parallel, console)
    if plot:
        save_figure(mates_figure(points, sweep), plot)
        console.say(f"drawn: {plot}")
