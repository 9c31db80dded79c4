"""``dragoman mates``: does a document find its translation first? Map by map, dimension by dimension, pair by pair."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from encoders.console import Console
from encoders.phrases import counted
from encoders.table_layout import Table
from indexer.training.mapping_sources import AlignedSources
from query.alignment.mate_retrieval import METHODS, mates_by_method
from query.alignment.mate_retrieval_sweep import Learner, Point, Sweep, mates_figure, run_sweep
from query.commands.options.common_options import gathered, output_options, place_options, plot_option, seed_option
from query.commands.options.help import Command
from query.commands.options.option_types import PATH, Decorator, default_option
from query.commands.options.source_options import aligned_options, reading_options
from query.evaluation.drawing import save_figure


def _numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Numbers of an option: whole, above 0, with commas between, each once."""
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError:
        numbers = ()
    if any(number < 1 for number in numbers) or (value and not numbers):
        raise click.BadParameter(f"{value!r} is no list of whole numbers with commas between")
    return numbers


def _map_methods(
    methods: Sequence[str], _context: click.Context, _option: click.Parameter, value: str
) -> tuple[str, ...]:
    """Methods of an option, names with commas between, in the order of ``methods``."""
    names = [part.strip() for part in value.split(",") if part.strip()]
    if unknown := [name for name in names if name not in methods]:
        raise click.BadParameter(f"there is no method {unknown[0]!r}; choose among {', '.join(methods)}")
    if not names:
        raise click.BadParameter(f"{value!r} names no method; choose among {', '.join(methods)}")
    return tuple(method for method in methods if method in names)


def sweep_options(learners: Mapping[str, Learner] | None = None) -> Decorator:
    """Add ``--methods``, ``--dimensions``, ``--pairs``, ``--splits``, ``--seed`` as ``sweep``, and ``--plot``.

    ``learners`` are methods that only the caller has, by name.
    """
    known = (*METHODS, *(learners or {}))

    def sweep(methods: Sequence[str], dimensions: Sequence[int], pairs: Sequence[int], splits: int, seed: int) -> Sweep:
        if dimensions and pairs:
            raise click.UsageError("--dimensions and --pairs are two sweeps; try one at a time")
        return Sweep(methods, dimensions, pairs, splits, seed, learners or {})

    with_sweep = gathered(
        "sweep",
        sweep,
        click.option(
            "--methods",
            callback=functools.partial(_map_methods, known),
            default=",".join(known),
            show_default=True,
            metavar="NAME,…",
            help="Ways to compare.",
        ),
        click.option("--dimensions", callback=_numbers, default="", metavar="K,…", help="Dimensions to try."),
        click.option(
            "--pairs", callback=_numbers, default="", metavar="N,…", help="Numbers of training concepts to try."
        ),
        default_option("--splits", click.IntRange(1), 3, "Random splits of the concepts."),
        seed_option("Seed of the first split."),
    )
    return lambda command: with_sweep(plot_option("Draw the figures")(command))


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
    points: list[Point] = []
    if mapping:
        measured, unknown_langs = mates_by_method(mapping, parallel, spec.model)
        if unknown_langs:
            console.warn(f"the maps know nothing of {', '.join(unknown_langs)}, so they say little here")
        headings = ["method", ">rate", ">MRR"]
        rows = [[method, f"{mates.rate:.3f}", f"{mates.mrr:.3f}"] for method, mates in measured.items()]
        about = f"{len(parallel.rows)} languages, all of {counted(len(parallel.concepts), 'concept')}"
        values: list[Any] = [{"method": method, **asdict(mates)} for method, mates in measured.items()]
    else:
        values = points = run_sweep(parallel, sweep, console)
        langs = len(parallel.rows)
        rows = [
            [
                point.method,
                point.value_text,
                f"{point.mean.rate:.3f} ± {point.spread.rate:.3f}",
                f"{point.mean.mrr:.3f} ± {point.spread.mrr:.3f}",
            ]
            for point in points
        ]
        headings = ["method", sweep.swept, ">rate", ">MRR"]
        about = (
            f"{langs * (langs - 1)} ordered pairs of {langs} languages, "
            f"{counted(len(parallel.concepts), 'concept')}, {counted(sweep.splits, 'split')}"
        )
    table = Table(headings, rows, f"Mate retrieval of {spec.name}: {about}")
    languages, concepts = list(parallel.rows), len(parallel.concepts)
    console.show({"encoder": spec.name, "languages": languages, "concepts": concepts, "points": values}, [table])
    if plot:
        save_figure(mates_figure(points, sweep), plot)
        console.say(f"drawn: {plot}")
