"""``dragoman train hmde``: train a document encoder over the vectors of a document's segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from encoders.console import Alert, Console, Note, Part, values_of
from encoders.folder.model_config import Precision
from encoders.hmde.upper import Segmentation
from encoders.machine.placement import Device
from encoders.phrases import counted, install_command
from encoders.table_layout import Table
from indexer.readers.records.source import ReadOptions
from onnx_export.hmde.hmde_settings import PRESETS, Preset, Settings, settings_of
from query.commands.options.common_options import FieldOption, field_options, output_options
from query.commands.options.encoder_options import (
    default_encoder_option,
    device_option,
    force_option,
    languages_option,
    precision_option,
)
from query.commands.options.help import Command
from query.commands.options.option_types import choice_option
from query.commands.options.source_options import reading_options, training_options
from query.commands.output.reports import show_training

if TYPE_CHECKING:
    from indexer.training.hmde_training import HmdeReport


_FIELDS = {
    "drawing": FieldOption("turns: pairs of languages come equally often. shuffled: each pair of pages once a pass."),
    "form": FieldOption("weighted: begins as the segments' mean."),
    "steps": FieldOption("Steps of the optimiser; the command says how many passes these are."),
    "batch": FieldOption("Triples that are each other's negatives.", least=2),
    "accumulate": FieldOption("Batches a step.", "N"),
    "budget": FieldOption(
        "Tokens of segments that a lower encoder that learns encodes at once; more for a GPU with much memory.",
        "TOKENS",
    ),
    "rate": FieldOption("Learning rate at its peak.", least=None),
    "warmup": FieldOption(
        "Steps until the learning rate peaks.", "STEPS", least=0, shown="the preset's, at most an eighth of the steps"
    ),
    "temperature": FieldOption("τ of the loss.", least=None),
    "titles": FieldOption("Weight of the loss with titles as queries.", "WEIGHT", least=0),
    "patience": FieldOption("Validations without improvement until training stops; 0: never.", "N", least=0),
    "held_out": FieldOption("Share of the concepts that judge; 0: none.", "SHARE", least=0, most=1),
    "evaluate": FieldOption("Steps between two validations.", "STEPS"),
}


@click.command("hmde", cls=Command, epilog=f"Training needs PyTorch: {install_command('train')}")
@training_options
@default_encoder_option("Lower encoder: an exported one, or with --train-lower a Hugging Face folder or name.")
@choice_option(
    "--preset",
    get_args(Preset),
    "small: lower encoder frozen, for a CPU. paper: as published, for a GPU, on 1.1 million triples.",
)
@click.option("--freeze/--train-lower", "frozen", default=None, help="Whether the lower encoder keeps its weights.")
@click.option(
    "--adapters",
    type=click.IntRange(0),
    metavar="RANK",
    help="Rank of low-rank matrices that learn instead of the lower encoder's weights; 0: none.",
)
@click.option(
    "--pooling",
    type=click.Choice(["mean", "cls"]),
    show_default="small: the model's; paper: cls",
    help="How a lower encoder that learns makes a vector, of queries too; cls: the state of [BOS].",
)
@click.option(
    "--segmentation",
    type=click.Choice(get_args(Segmentation)),
    help="Segments of a document; they are its passages, too. windows: 128 tokens, each read with the title.",
)
@click.option(
    "--whole/--first-part",
    default=None,
    help="Whether a document of more than 32 segments is read in parts of 32, or the first 32 alone.",
)
@field_options(Settings, _FIELDS)
@languages_option("Languages to learn from.  [default: all]")
@precision_option("Precision of the graphs.")
@click.option(
    "--seed", type=click.IntRange(0), help="Another seed draws other triples and other weights.  [default: 0]"
)
@device_option
@force_option
@reading_options
@output_options
def command(
    sources: tuple[str, ...],
    output: Path,
    encoder: str,
    preset: Preset,
    languages: list[str],
    precision: Precision,
    device: Device,
    force: bool,
    options: ReadOptions,
    console: Console,
    **stated: Any,
) -> None:
    """Train a document encoder (HMDE) on pages about the same concepts in several languages.

    Documents need the field concept, the same for pages about one thing, and category (or label), from which hard
    negatives are drawn. FOLDER then is an encoder: documents go through both of its graphs, queries through the lower
    one alone. If training was stopped or killed, the same command continues it.

    A tenth of the concepts (about 2,048 pages at most) is held out: it chooses the step that is kept. Preset paper
    holds nothing out and keeps the last step. dragoman evaluate says on your topics whether the training helped.

    Options left out are the preset's.
    """
    from indexer.readers.source_documents import Sources  # noqa: PLC0415
    from indexer.training.hmde_training import train_hmde  # noqa: PLC0415 - imports that --help does not need

    changes = {name: value for name, value in stated.items() if value is not None}
    settings = settings_of(preset, changes)
    for option in ("adapters", "budget", "pooling"):
        if settings.frozen and changes.get(option):
            raise click.UsageError(f"--{option} is for a lower encoder that learns; give --train-lower too")
    if "rate" not in changes and settings.rate != PRESETS[preset].rate:
        console.say(f"all of the lower encoder learns, at a rate of {settings.rate:g}; --rate sets another")
    if "warmup" not in changes and settings.warmup != PRESETS[preset].warmup:
        console.say(f"the rate rises for {counted(settings.warmup, 'step')}; --warmup sets another number")
    report = train_hmde(
        Sources(sources, options, languages), output,
        settings=settings, encoder=encoder, precision=precision, device=device, force=force, console=console,
    )  # fmt: skip
    _show_report(report, console, held_out=settings.held_out)


def _show_report(report: HmdeReport, console: Console, *, held_out: float) -> None:
    curve, triples = report.curve, report.triples
    values = {
        "documents": report.documents,
        "triples": {"-".join(pair): count for pair, count in report.drawn.items()},
        "possible": {"-".join(pair): count for pair, count in triples.possible.items()},
        "passes": round(report.passes, 4),
        **values_of(triples, "single", "lonely", "further"),
        **values_of(report, "cut", "resumed"),
        "held_out": len(report.held_out),
        "steps": curve.points[-1].step,
        **values_of(curve, "best", "stopped"),
        "untrained": round(curve.points[0].score, 6) if curve.validated else None,
        "score": round(curve.best_score, 6) if curve.validated else None,
        "parity": report.parity,
    }
    ended = f", ended early: {curve.stopped}" if curve.stopped else ""
    steps = counted(curve.best, "step")
    outcome = (
        f"MAP on {counted(len(report.held_out), 'held-out concept')} {curve.best_score:.4f} after {steps}, "
        f"{curve.points[0].score:.4f} before the first{ended}"
        if curve.validated
        else f"{steps}, loss {curve.points[-1].loss:.3f}, {curve.points[0].loss:.3f} before the first"
    )
    parts = list(_parts(report, held_out=held_out, quiet=console.quiet))
    show_training(report.folder, values, parts, outcome, console, refused=report.refused, remarks=report.remarks)


def _parts(report: HmdeReport, *, held_out: float, quiet: bool) -> Iterator[Part]:
    """What the documents taught, and what that means for the trained encoder."""
    curve, triples = report.curve, report.triples
    for number, noun, trait in (
        (triples.single, "concept", "pages in one language only and taught nothing"),
        (triples.lonely, "page", "no other page of the same language and category and began no triple"),
        (triples.further, "page", "the concept of an earlier page of the same language and had no mates"),
        (report.cut, "document", "more segments than the upper encoder reads at once; the rest taught nothing"),
    ):
        if number:
            yield Note(f"{counted(number, f'{noun} has', f'{noun}s have')} {trait}")
    if not curve.validated and held_out:
        yield Alert(
            "no concept was held out, so nothing says when to stop and the last step is kept; give more concepts"
        )
    elif curve.validated and not curve.best:
        yield Alert(
            f"no step did better than the model before the first, which is what {report.folder.path} holds; try "
            "another --rate, or give more concepts"
        )
    rows = [
        [lang, f"{count:,}", f"{sum(drawn for pair, drawn in report.drawn.items() if pair[0] == lang):,}"]
        for lang, count in report.documents.items()
    ]
    if not quiet:
        yield Table(["language", ">documents", ">triples begun"], rows)
    yield Note(f"drawn: {report.share}")
