"""``dragoman train tlaser``: learn a sentence encoder from parallel text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from encoders.console import Console
from encoders.folder import Precision
from encoders.languages import language_list
from encoders.session import Device
from encoders.tlaser.settings import NAMES, Preset, TlaserPlan, Variant, preset
from query.commands.options import (
    device_option,
    force_option,
    languages_option,
    output_options,
    precision_option,
    seed_option,
    training_options,
)
from query.commands.output.notes import show_notes

if TYPE_CHECKING:
    from indexer.training.tlaser import TlaserReport
_COUNT = click.IntRange(1)


@click.command("tlaser", short_help="Learn a sentence encoder from parallel text.")
@training_options
@click.option(
    "--variant",
    type=click.Choice(get_args(Variant)),
    default="ct",
    show_default=True,
    help="ct: cT-LASER, with the distance constraint. t: without. laser: BiLSTM and max-pooling.",
)
@click.option(
    "--preset",
    "size",
    type=click.Choice(get_args(Preset)),
    default="small",
    show_default=True,
    help="small: minutes on two cores. paper: its sizes, for a GPU.",
)
@click.option("--pivot", "pivots", multiple=True, metavar="LANG", help="Translated into; give two.  [default: en, es]")
@languages_option("Languages to learn.  [default: all]")
@click.option(
    "--validation", multiple=True, metavar="SOURCE", help="[default: a part of SOURCEs, 500 sentences at most]"
)
@click.option("--steps", type=_COUNT, help="Updates of the weights; more than before goes on.  [default: the preset's]")
@click.option("--batch-tokens", type=_COUNT, help="Tokens of a batch.  [default: the preset's]")
@click.option("--accumulate", type=_COUNT, help="Batches an update.  [default: the preset's]")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Of learning.  [default: the preset's]")
@click.option("--dropout", type=click.FloatRange(0, 1, max_open=True), help="[default: the preset's]")
@click.option("--interval", type=_COUNT, help="Steps between validations and checkpoints.  [default: the preset's]")
@click.option("--dim", type=click.IntRange(8), help="Width of the vectors.  [default: the preset's]")
@click.option("--layers", type=_COUNT, help="Of the encoder.  [default: the preset's]")
@click.option("--vocabulary", type=click.IntRange(50), help="Tokens of the joint BPE.  [default: the preset's]")
@click.option("--max-tokens", type=click.IntRange(8), help="Longest sentence.  [default: the preset's]")
@seed_option("Of weights, order, dropout and negatives.")
@precision_option()
@device_option
@force_option
@output_options
def command(
    sources: tuple[str, ...],
    output: Path,
    variant: Variant,
    size: Preset,
    pivots: tuple[str, ...],
    languages: list[str],
    validation: tuple[str, ...],
    steps: int | None,
    batch_tokens: int | None,
    accumulate: int | None,
    rate: float | None,
    dropout: float | None,
    interval: int | None,
    dim: int | None,
    layers: int | None,
    vocabulary: int | None,
    max_tokens: int | None,
    seed: int,
    precision: Precision,
    device: Device,
    force: bool,
    console: Console,
) -> None:
    """Learn a sentence encoder by translating SOURCEs into two pivot languages (T-LASER, cT-LASER, LASER).

    SOURCEs are parallel text: .tsv with languages in its header, .jsonl of texts by language, .tmx, two files that
    differ in their last ending (text.de, text.en), or a folder of LANG.tsv with common ids. A run that was stopped goes
    on when the same command is given again. FOLDER is an encoder as any other; FOLDER.training holds checkpoints.
    """
    from indexer.training.tlaser import train_tlaser  # noqa: PLC0415 - NumPy and tokenizers, which --help does not need

    plan = preset(size, variant)
    report = train_tlaser(
        sources,
        output,
        _plan_with_options(
            plan, dim, layers, vocabulary, max_tokens, steps, batch_tokens, accumulate, rate, dropout, interval, seed
        ),
        pivots=list(dict.fromkeys(tag for pivot in pivots for tag in language_list(pivot))),
        languages=languages,
        validation=validation,
        precision=precision,
        device=device,
        force=force,
        console=console,
    )
    _show_report(report, plan.variant, console)


def _plan_with_options(
    plan: TlaserPlan,
    dim: int | None,
    layers: int | None,
    vocabulary: int | None,
    max_tokens: int | None,
    steps: int | None,
    batch_tokens: int | None,
    accumulate: int | None,
    rate: float | None,
    dropout: float | None,
    interval: int | None,
    seed: int,
) -> TlaserPlan:
    """The preset's plan with the user's values in place of its own; the inner widths scale with ``dim``."""
    sizes, training = plan.sizes, plan.training
    if dim is not None:
        if dim % sizes.heads:
            raise click.UsageError(f"--dim is divided among {sizes.heads} heads; give a multiple of {sizes.heads}")
        sizes = replace(sizes, dim=dim, ffn=sizes.ffn * dim // sizes.dim, decoder=sizes.decoder * dim // sizes.dim)
    sizes = replace(
        sizes,
        layers=layers or sizes.layers,
        vocabulary=vocabulary or sizes.vocabulary,
        max_tokens=max_tokens or sizes.max_tokens,
    )
    training = replace(
        training,
        steps=steps or training.steps,
        batch_tokens=batch_tokens or training.batch_tokens,
        accumulate=accumulate or training.accumulate,
        rate=rate or training.rate,
        dropout=training.dropout if dropout is None else dropout,
        interval=interval or training.interval,
        seed=seed,
    )
    return TlaserPlan(plan.variant, sizes, training)


def _show_report(report: TlaserReport, variant: Variant, console: Console) -> None:
    folder, (step, error) = report.folder, report.best
    console.emit(
        {
            "folder": str(folder.path),
            "name": folder.config.name,
            "variant": variant,
            "dim": folder.config.dim,
            "sentences": report.sentences,
            "directions": report.directions,
            "pairs": report.pairs,
            "vocabulary": report.vocabulary,
            "tokens": report.tokens,
            "step": step,
            "error": round(error, 6),
            "tokens_per_second": round(report.rate, 1),
            "words_per_second": round(report.words, 1),
            "parity": report.parity.as_json(),
            "checkpoints": str(report.checkpoints),
            "remarks": report.remarks,
            "refused": [{"place": note.where, "text": note.reason} for note in report.refused],
        }
    )
    show_notes([(note.where, note.reason) for note in report.refused], console)
    for remark in report.remarks:
        console.warn(remark)
    speed = f" ({report.words:,.0f} words/s)" if report.rate else ""
    console.say(
        f"{NAMES[variant]} at step {step:,}: search error {100 * error:.1f} % on held-out sentences{speed}; "
        f"use it: dragoman index SOURCE… -c NAME --encoder {folder.path}"
    )
    console.result(str(folder.path))
