"""``dragoman train tlaser``: learn a sentence encoder from parallel text."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from encoders.console import Alert, Console, values_of
from encoders.folder.model_config import Precision
from encoders.languages import language_list
from encoders.machine.placement import Device
from encoders.tlaser.tlaser_settings import NAMES, Preset, Sizes, TlaserPlan, TlaserTraining, Variant, preset
from query.commands.options.common_options import FieldOption, field_options, output_options, seed_option
from query.commands.options.encoder_options import device_option, force_option, languages_option, precision_option
from query.commands.options.help import Command
from query.commands.options.option_types import choice_option
from query.commands.options.source_options import training_options
from query.commands.output.reports import show_training

_SIZES = {
    "dim": FieldOption("Width of the vectors.  [default: the preset's]", least=8),
    "layers": FieldOption("Layers of the encoder.  [default: the preset's]"),
    "vocabulary": FieldOption("Tokens of the joint BPE.  [default: the preset's]", least=50),
    "max_tokens": FieldOption("Longest sentence.  [default: the preset's]", least=8),
}
_TRAINING = {
    "steps": FieldOption("Updates of the weights; more than before goes on.  [default: the preset's]"),
    "batch_tokens": FieldOption("Tokens of a batch.  [default: the preset's]"),
    "accumulate": FieldOption("Batches an update.  [default: the preset's]"),
    "rate": FieldOption("Learning rate at its peak.  [default: the preset's]", least=None),
    "dropout": FieldOption("[default: the preset's]", least=0, most=1),
    "interval": FieldOption("Steps between validations.  [default: the preset's]"),
}


@click.command("tlaser", cls=Command)
@training_options
@choice_option(
    "--variant",
    get_args(Variant),
    "ct: cT-LASER, with the distance constraint. t: without. laser: BiLSTM and max-pooling. claser: with both.",
    default="ct",
)
@choice_option(
    "--preset", get_args(Preset), "small: minutes on two cores. paper: its sizes and settings, for a GPU.", "size"
)
@click.option("--pivot", "pivots", multiple=True, metavar="LANG", help="Translated into; give two.  [default: en, es]")
@languages_option("Languages to learn.  [default: all]")
@click.option(
    "--validation", multiple=True, metavar="SOURCE", help="[default: a part of SOURCEs, 500 sentences at most]"
)
@field_options(TlaserTraining, _TRAINING)
@field_options(Sizes, _SIZES)
@seed_option("Seed of weights, order, dropout and negatives.")
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
    precision: Precision,
    device: Device,
    force: bool,
    console: Console,
    **stated: Any,
) -> None:
    """Learn a sentence encoder by translating SOURCEs into two pivot languages (T-LASER, cT-LASER, LASER).

    SOURCEs are parallel text: .tsv with languages in its header, .jsonl of texts by language, .tmx, two files that
    differ in their last ending (text.de, text.en), or a folder of LANG.tsv with common ids. A run that was stopped goes
    on when the same command is given again. FOLDER is an encoder as any other; FOLDER.training holds checkpoints.
    """
    from indexer.training.tlaser_training import train_tlaser  # noqa: PLC0415 - NumPy and tokenizers, which --help does not need

    report = train_tlaser(
        sources,
        output,
        _plan(preset(size, variant), {name: value for name, value in stated.items() if value is not None}),
        pivots=list(dict.fromkeys(tag for pivot in pivots for tag in language_list(pivot))),
        languages=languages,
        validation=validation,
        precision=precision,
        device=device,
        force=force,
        console=console,
    )
    step, error = report.best
    speed = f" ({report.words:,.0f} words/s)" if report.rate else ""
    show_training(
        report.folder,
        {
            "variant": variant,
            "dim": report.folder.config.dim,
            **values_of(report, "sentences", "directions", "pairs", "vocabulary", "parameters", "tokens"),
            "step": step,
            "error": round(error, 6),
            "tokens_per_second": round(report.rate, 1),
            "words_per_second": round(report.words, 1),
            **values_of(report, "parity", "checkpoints", "remarks"),
        },
        map(Alert, report.remarks),
        f"{NAMES[variant]} of {report.parameters:,} parameters at step {step:,}: "
        f"search error {100 * error:.1f} % on held-out sentences{speed}",
        console,
        refused=report.refused,
    )


def _plan(plan: TlaserPlan, stated: Mapping[str, Any]) -> TlaserPlan:
    """The preset's plan with the stated settings in place of its own; the inner widths scale with ``dim``."""
    sizes = plan.sizes
    if dim := stated.get("dim"):
        if dim % sizes.heads:
            raise click.UsageError(f"--dim is divided among {sizes.heads} heads; give a multiple of {sizes.heads}")
        scaled = {name: getattr(sizes, name) * dim // sizes.dim for name in ("token_width", "ffn", "decoder")}
        if not sizes.shared and scaled["decoder"] <= sizes.language:
            raise click.UsageError(
                f"--dim must be above {sizes.language}, the width of a language, with --preset paper"
            )
        sizes = replace(sizes, **scaled)
    return replace(
        plan,
        sizes=replace(sizes, **{name: value for name, value in stated.items() if name in _SIZES}),
        training=replace(plan.training, **{name: value for name, value in stated.items() if name not in _SIZES}),
    )
