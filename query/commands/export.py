"""``dragoman export``: turn a Hugging Face encoder into an ONNX folder."""

from __future__ import annotations

from pathlib import Path

import click

from encoders.console import Console, values_of
from encoders.folder import Pooling, Precision
from encoders.languages import language_list
from onnx_export.huggingface.layout import StatedLayout
from onnx_export.models import DEFAULT, default_path
from query.commands.help import Command
from query.commands.options import PATH, force_option, output_options, precision_option


def _languages(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(dict.fromkeys(language_list(value)))


@click.command("export", cls=Command)
@click.argument("model")
@click.option("-o", "--output", type=PATH, help="Folder to make.  [default: NAME-PRECISION in the model cache]")
@precision_option("int8 for CPUs, fp16 for GPUs, q4 for little memory, fp32 to compare with.")
@click.option(
    "--pooling", type=click.Choice(["mean", "cls", "cls-dense-tanh"]), help="Instead of what the model states."
)
@click.option("--query-prefix", help="Put before queries, instead of what the model states.")
@click.option("--document-prefix", help="Put before documents, instead of what the model states.")
@click.option("--languages", callback=_languages, help="Tags the model was trained for, with commas: de,fr,zh.")
@click.option("--name", help="What to call it.  [default: the last part of MODEL]")
@force_option
@output_options
def command(
    model: str,
    output: Path | None,
    precision: Precision,
    pooling: Pooling | None,
    query_prefix: str | None,
    document_prefix: str | None,
    languages: tuple[str, ...] | None,
    name: str | None,
    force: bool,
    console: Console,
) -> None:
    """Turn MODEL, a folder or a name on the Hugging Face hub, into an ONNX folder that --encoder takes.

    A model for sequence classification, a cross-encoder, becomes a reranker that --rerank takes: its one logit is the
    score, or of two the second less the first. With --pooling it becomes an encoder.

    The default encoder, multilingual-e5-small, needs no hub. The graph is compared with the model it was made from on
    texts in twelve languages. Below the bar nothing is written, unless forced.
    """
    from onnx_export.huggingface.export import export_model  # noqa: PLC0415 - onnx, which --help does not need

    layout = StatedLayout(name, pooling, query_prefix, document_prefix, languages)
    if model == DEFAULT and not Path(model).is_dir():
        from onnx_export.default_model.export import export_default  # noqa: PLC0415 - as above

        if layout != StatedLayout():
            raise click.UsageError(
                f"{DEFAULT} has its own name, pooling, prefixes and languages; leave the options out"
            )
        folder, report = export_default(output or default_path(precision), precision, console, force=force)
    else:
        folder, report = export_model(model, output, precision, layout, console, force=force)
    console.result(str(folder.path))
    console.emit(
        {
            "folder": str(folder.path),
            "name": folder.config.name,
            "precision": precision,
            **values_of(folder.config, "pooling", "dim", "weights"),
            "build": folder.config.build_id,
            "parity": report.as_json(),
        }
    )
