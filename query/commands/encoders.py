"""``dragoman encoders``: list the encoders, show one of them, or check it on a device."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from encoders.console import Alert, Console, Part, values_of
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.machine.placement import Device, place
from encoders.methods.combined_encoder import SEPARATOR
from encoders.methods.method_registry import METHODS, open_encoder
from encoders.table_layout import Table
from onnx_export.models import (
    DEFAULT,
    default_folder,
    default_path,
    exported_model,
    exported_models,
    find_model,
    locate,
)
from query.commands.options import completion
from query.commands.options.common_options import output_options
from query.commands.options.encoder_options import device_option
from query.commands.options.help import Group
from query.commands.options.option_types import default_option

if TYPE_CHECKING:
    from onnx_export.graphs.device_check import DeviceCheck


@click.group("encoders", cls=Group, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List encoders, show one, or check it on a device."""
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@command.command("list")
@output_options
def list_command(console: Console) -> None:
    """List the encoders in the cache; folders elsewhere are encoders too."""
    folders = exported_models()
    records = []
    for folder in folders:
        is_default, config = folder.path == default_path(), folder.config
        console.show({**_description(folder), "default": is_default})
        marks = f"{' (default)' if is_default else ''}{' (reranker)' if config.is_reranker else ''}"
        named = {"encoder": f"{folder.path.name}{marks}", "precision": config.precision}
        records.append({**named, ">dim": str(config.dim), ">languages": str(len(config.languages) or "?")})
    is_made = any(folder.path == default_path() for folder in folders)
    default = f"default: {DEFAULT}{'' if is_made else ', made when it is first used'}"
    console.print([Table.of(records), default, f"methods: {', '.join(METHODS)}; more encoders: dragoman export MODEL"])


@command.command("show")
@click.argument("name", metavar="NAME|FOLDER[ + …]", shell_complete=completion.encoders)
@click.option("--words", default="", metavar="WORD,…", help="The words nearest to these instead (Cr5).")
@default_option("-k", click.IntRange(1, 100), 5, "Words a language.", "--limit", "k")
@output_options
def show_command(name: str, words: str, k: int, console: Console) -> None:
    """Show what an encoder is: its model card, its settings, the ids of its model and build; of combined ones each."""
    reranker = None if name == DEFAULT else exported_model(name)
    if reranker and reranker.config.is_reranker and not words:
        folders = [reranker]
    else:
        folders = [find_model(part_name, console) for part_name in name.split(SEPARATOR)]
    if words:
        query_words = [word.strip() for word in words.split(",") if word.strip()]
        if not query_words:
            raise click.UsageError("--words takes words with commas between, as in --words schrift,police")
        _show_words(folders, query_words, k, console)
        return
    for folder in folders:
        card, values = folder.path / "MODEL_CARD.md", _description(folder)
        if not folder.config.is_reranker:
            values |= values_of(open_encoder(folder, device="cpu").spec, "method", "model")
        texts = [card.read_text(encoding="utf-8")] if card.is_file() else []
        console.show(values, [*texts, json.dumps(values, indent=2, ensure_ascii=False)])


@command.command("check")
@click.argument("name", metavar="NAME|FOLDER[ + …]", shell_complete=completion.encoders)
@device_option
@output_options
def check_command(name: str, device: Device, console: Console) -> None:
    """Check an encoder on a device: what computes where, agreement with exact arithmetic, tokens a second, memory.

    The default encoder is compared with its float32 build, another on a GPU with its own graph on the CPU. Exit status
    1 if the vectors differ too much, or if a GPU waits for the CPU.
    """
    from onnx_export.graphs.device_check import check_device  # noqa: PLC0415 - onnx, which --help does not need
    from onnx_export.graphs.parity import encode, read_texts  # noqa: PLC0415 - as above

    placement, texts, failed = place(device), read_texts(), False
    if placement.remark:
        console.warn(placement.remark)
    for part in name.split(SEPARATOR):
        folder, of_part = locate(part, placement, device, console)
        if folder.config.pooling == "sum":
            raise BadInput(f"{part} sums words (Cr5) and has no graph that a device could run")
        folder.check_files(again=True)
        reference = encode(default_folder(console, "fp32"), texts) if part == DEFAULT else None
        check = check_device(folder, of_part, texts, reference)
        console.show({"encoder": part, **check.as_json()}, check_parts(part, check))
        failed |= not check.passed
    if failed:
        raise click.exceptions.Exit(1)


def _show_words(folders: Sequence[ModelFolder], words: Sequence[str], k: int, console: Console) -> None:
    from encoders.cr5.bags_of_words import is_cr5, load_model  # noqa: PLC0415 - most calls of this command do not need it
    from encoders.cr5.neighbours import neighbours  # noqa: PLC0415

    cr5_folder = next(filter(is_cr5, folders), None)
    if cr5_folder is None:
        names = SEPARATOR.join(folder.config.name for folder in folders)
        raise BadInput(f"{names} has no vectors of words; make some: dragoman train cr5 SOURCE… -o FOLDER")
    words_found = neighbours(load_model(cr5_folder), words, k)
    if unknown := sorted(set(words) - {word_found.asked for word_found in words_found}):
        console.warn(f"the model has no word {', '.join(map(repr, unknown))} in any of its languages")
    for word_found in words_found:
        near, rows = {}, []
        for lang, nearest in word_found.near.items():
            near[lang] = [{"word": word, "cosine": round(cosine, 6)} for word, cosine in nearest]
            rows.append([lang, ", ".join(f"{word} {cosine:.2f}" for word, cosine in nearest)])
        table = Table(["", "~nearest"], rows, f"{word_found.word} ({word_found.lang})")
        console.show({"word": word_found.word, "lang": word_found.lang, "near": near}, [table])


def check_parts(name: str, check: "DeviceCheck") -> Iterator[Part]:
    """What an encoder does on a device, for people."""
    for provider, counts in check.nodes.items():
        operations = ", ".join(f"{count} {operation}" for operation, count in counts.most_common())
        yield f"{provider.removesuffix('ExecutionProvider')}: {operations}"
    if check.parity:
        yield Table(["measure", ">value", ">bar", "verdict"], check.parity.rows())
    memory = f", {check.memory / 2**20:,.0f} MB on the card" if check.on_gpu else ""
    yield f"{name} in {check.precision} on {check.device}: {check.tokens:,.0f} tokens a second{memory}"
    if check.strays:
        advice = "" if check.precision == "fp16" else "; export the model with --precision fp16"
        yield Alert(f"the card waits for the CPU at {', '.join(check.strays)}{advice}")


def _description(folder: ModelFolder) -> dict[str, object]:
    return {"folder": str(folder.path), "build": folder.config.build_id, **asdict(folder.config)}
