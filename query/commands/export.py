"""``dragoman export``: turn a Hugging Face encoder, or a trained folder's weights, into an ONNX folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from encoders.console import Console, values_of
from encoders.errors import BadInput
from encoders.folder.model_cache import model_cache
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder
from encoders.languages import language_list
from encoders.machine.placement import CPU, Device, Placement, place
from onnx_export.huggingface.hub_layout import POOLINGS, StatedLayout
from onnx_export.models import DEFAULT, default_path
from query.commands.encoders import check_parts
from query.commands.options.common_options import output_options
from query.commands.options.encoder_options import force_option, precision_option
from query.commands.options.help import Command
from query.commands.options.option_types import PATH, DeviceName, default_option

if TYPE_CHECKING:
    from encoders.document import FloatArray


@click.command("export", cls=Command)
@click.argument("model")
@click.option("-o", "--output", type=PATH, help="Folder to make.  [default: NAME-PRECISION in the model cache]")
@precision_option("int8 for CPUs, fp16 for GPUs, q4 for little memory, fp32 to compare with.")
@click.option("--pooling", type=click.Choice(POOLINGS), help="Instead of what the model states.")
@click.option("--dim", type=click.IntRange(1), help="Numbers of a vector to keep, the first (Matryoshka).")
@click.option("--query-prefix", help="Put before queries, instead of what the model states.")
@click.option("--document-prefix", help="Put before documents, instead of what the model states.")
@click.option("--languages", help="Tags the model was trained for, with commas: de,fr,zh.")
@click.option("--name", help="What to call it.  [default: the last part of MODEL]")
@default_option(
    "--device",
    DeviceName(),
    "cpu",
    "Also check the graph on this device, as encoders check does: auto, cpu, cuda or cuda:N.",
)
@force_option
@output_options
def command(
    model: str,
    output: Path | None,
    precision: Precision,
    languages: str | None,
    device: Device,
    force: bool,
    console: Console,
    **stated: Any,
) -> None:
    """Turn MODEL, a folder or a name on the Hugging Face hub, into an ONNX folder that --encoder takes.

    MODEL may be a folder of dragoman train hmde or lawdr; its builds have one model id, and GPUs find theirs in the
    cache.

    A model for sequence classification, a cross-encoder, becomes a reranker that --rerank takes: its one logit is the
    score, or of two the second less the first. With --pooling it becomes an encoder.

    The default encoder, multilingual-e5-small, needs no hub. The graph is compared with the model it was made from on
    texts in twelve languages, on the CPU, and with --device on a GPU too, which must not wait for the CPU. If it fails,
    nothing is written, unless forced.
    """
    from onnx_export.hmde.trained_export import export_trained, trained_folder  # noqa: PLC0415 - as above
    from onnx_export.huggingface.hub_export import export_model  # noqa: PLC0415 - onnx, which --help does not need

    placement = _placement(device, precision, console)
    checks: list[dict[str, Any]] = []

    def check(folder: ModelFolder, reference: "FloatArray") -> None:
        checks.append(_check_on_gpu(folder, placement, reference, console, force=force))

    check_on_gpu = check if placement.gpu else None
    trained_for = None if languages is None else tuple(dict.fromkeys(language_list(languages)))
    layout = StatedLayout(languages=trained_for, **stated)
    trained, is_default = trained_folder(model), model == DEFAULT and not Path(model).is_dir()
    if (trained or is_default) and layout != StatedLayout(dim=layout.dim if is_default else None):
        raise click.UsageError(f"{model} has its own name, pooling, prefixes, languages, size; leave the options out")
    if trained:
        folder, report = export_trained(trained, output, precision, console, check_on_gpu, force=force)
    elif is_default:
        from onnx_export.default_model.making import export_default  # noqa: PLC0415 - as above

        cut = f"{DEFAULT}-{layout.dim}"
        target = output or (model_cache() / f"{cut}-{precision}" if layout.dim else default_path(precision))
        folder, report = export_default(target, precision, console, check_on_gpu, dim=layout.dim, force=force)
    else:
        folder, report = export_model(model, output, precision, layout, console, check_on_gpu, force=force)
    values = {
        "folder": folder.path,
        "name": folder.config.name,
        "precision": precision,
        **values_of(folder.config, "pooling", "dim", "weights"),
        "build": folder.config.build_id,
        "parity": report,
        "device": checks[0] if checks else None,
    }
    console.show(values, str(folder.path))


def _placement(device: Device, precision: Precision, console: Console) -> Placement:
    """Where a graph is checked beside the CPU; the CPU, which alone runs int8, where none is named."""
    placement = place(device)
    if placement.remark:
        console.warn(placement.remark)
    if placement.gpu and precision == "int8":
        if device == "auto":
            return CPU
        raise BadInput("a graph in int8 runs on CPUs alone; take --precision fp16, or --device cpu")
    return placement


def _check_on_gpu(
    folder: ModelFolder, placement: Placement, reference: "FloatArray", console: Console, *, force: bool
) -> dict[str, Any]:
    """Check a folder that is not yet published on a card, show the result, write it to ``device.json``, and return it.

    Raises BadInput: the folder fails and is not forced.
    """
    from onnx_export.graphs.device_check import check_device  # noqa: PLC0415 - onnx, which --help does not need
    from onnx_export.graphs.parity import read_texts  # noqa: PLC0415 - as above
    from onnx_export.graphs.publishing import write_json  # noqa: PLC0415 - as above

    check = check_device(folder, placement, read_texts(), reference)
    console.print(check_parts(folder.config.name, check))
    write_json(folder.path / "device.json", check.as_json())
    if not (check.passed or force):
        what = f"{folder.config.name} in {check.precision}"
        raise BadInput(f"{what} fails on the {check.device}; take another --precision, or --force")
    return check.as_json()
