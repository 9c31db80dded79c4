"""``dragoman train cr5``: learn one vector space for the words of several languages."""

from pathlib import Path
from typing import Any, Literal, get_args

import click

from encoders.console import Alert, Console, values_of
from encoders.cr5.cr5_settings import Cr5Settings, Pairs
from encoders.languages import normalise
from encoders.phrases import counted
from encoders.table_layout import Table
from indexer.readers.records.source import ReadOptions
from query.commands.options.common_options import output_options, seed_option
from query.commands.options.encoder_options import languages_option
from query.commands.options.help import Command
from query.commands.options.option_types import choice_option, default_option
from query.commands.options.source_options import reading_options, training_options
from query.commands.output.reports import show_training

_MAX_RIDGE = 1e30
"""A ridge that shrinks every document to nothing, and is still finite in float32."""


def _ridge(_context: click.Context, _option: click.Parameter, value: str) -> float | None:
    if value == "auto":
        return None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.0 < number <= _MAX_RIDGE:
        raise click.BadParameter(f"{value!r} is neither auto nor a number above 0, at most {_MAX_RIDGE:g}")
    return number


@click.command("cr5", cls=Command)
@training_options
@default_option("--dimensions", click.IntRange(1), 300, "Width of the vectors.")
@click.option(
    "--ridge",
    callback=_ridge,
    default="auto",
    show_default=True,
    metavar="auto|VALUE",
    help="Weight of the penalty; auto: by cross-validation over concepts.",
)
@choice_option(
    "--pairs",
    get_args(Pairs),
    "joint: one model of all languages. pairwise: one of each two. transitive: languages meet at pivots alone; "
    "transitive-published: the paper's form, without concepts that two languages beside the pivots share.",
)
@click.option("--pivot", "pivots", multiple=True, metavar="LANG", help="For the transitive --pairs; may be repeated.")
@languages_option("Languages to learn.  [default: all]")
@click.option("--precision", type=click.Choice(["int8", "fp32"]), default="int8", show_default=True)
@seed_option("Seed of the concepts drawn to choose the ridge by.")
@reading_options
@output_options
def command(
    sources: tuple[str, ...],
    output: Path,
    pivots: tuple[str, ...],
    languages: list[str],
    precision: Literal["int8", "fp32"],
    options: ReadOptions,
    console: Console,
    **stated: Any,
) -> None:
    """Learn one space for the words of all languages in SOURCEs (Cr5), in seconds to minutes, without a network.

    Documents need the field concept, the same for translations of one another or for pages about the same thing; a few
    hundred concepts are enough to start with. FOLDER then is an encoder of hundreds of thousands of words a second.
    """
    from indexer.readers.source_documents import Sources  # noqa: PLC0415
    from indexer.training.cr5_training import train_cr5  # noqa: PLC0415 - scipy, which --help does not need

    training = Cr5Settings(pivots=tuple(normalise(code) for code in pivots), **stated)
    if bool(pivots) != training.has_pivots:
        raise click.UsageError("--pairs transitive and --pivot belong together; give both")
    read = Sources(sources, options, languages)
    for report in train_cr5(read, output, settings=training, precision=precision, console=console):
        rows = [[lang, f"{count:,}", f"{report.vocabulary[lang]:,}"] for lang, count in report.documents.items()]
        table = [] if console.quiet else [Table(["language", ">documents", ">words"], rows)]
        selection = (
            f" (mean reciprocal rank of held-out mates {max(report.tried.values()):.3f})" if report.tried else ""
        )
        dim = report.folder.config.dim
        show_training(
            report.folder,
            {
                "dimensions": dim,
                "ridge": report.ridge,
                "tried": {f"{ridge:g}": round(value, 6) for ridge, value in report.tried.items()},
                **values_of(report, "read", "concepts", "documents", "vocabulary", "remarks"),
            },
            [*map(Alert, report.remarks), *table],
            f"{counted(report.concepts, 'concept')}, {counted(dim, 'dimension')}, ridge {report.ridge:g}{selection}",
            console,
            refused=report.refused,
        )
