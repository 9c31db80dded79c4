"""``dragoman encoders``: list the encoders, or show one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder import ModelFolder
from encoders.methods.combined import SEPARATOR
from encoders.methods.registry import METHODS
from onnx_export.models import DEFAULT, default_path, exported_models, find_model
from query.commands.options import output_options


@click.group("encoders", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List encoders, or show one."""
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@command.command("list")
@output_options
def list_command(console: Console) -> None:
    """List the encoders in the cache; folders elsewhere are encoders too."""
    folders = exported_models()
    for folder in folders:
        console.emit({**_description(folder), "default": folder.path == default_path()})
    console.records(
        [
            {
                "encoder": folder.path.name + (" (default)" if folder.path == default_path() else ""),
                "precision": folder.config.precision,
                ">dim": str(folder.config.dim),
                ">languages": str(len(folder.config.languages) or "?"),
            }
            for folder in folders
        ]
    )
    console.result(f"default: {DEFAULT}" + ("" if folders else ", made when it is first used"))
    console.result(f"methods: {', '.join(METHODS)}; more encoders: dragoman export MODEL")


@command.command("show")
@click.argument("name", metavar="NAME|FOLDER[ + …]")
@click.option("--words", default="", metavar="WORD,…", help="The words nearest to these instead (Cr5).")
@click.option("-k", type=click.IntRange(1, 100), default=5, show_default=True, help="Words a language.")
@output_options
def show_command(name: str, words: str, k: int, console: Console) -> None:
    """Show what an encoder is: its card, its settings and the id of its build; of combined ones each."""
    folders = [find_model(part_name, console) for part_name in name.split(SEPARATOR)]
    if words:
        query_words = [word.strip() for word in words.split(",") if word.strip()]
        if not query_words:
            raise click.UsageError("--words takes words with commas between, as in --words schrift,police")
        _show_words(folders, query_words, k, console)
        return
    for folder in folders:
        console.emit(_description(folder))
        card = folder.path / "MODEL_CARD.md"
        if card.is_file():
            console.result(card.read_text(encoding="utf-8"))
        console.result(json.dumps(_description(folder), indent=2, ensure_ascii=False))


def _show_words(folders: Sequence[ModelFolder], words: Sequence[str], k: int, console: Console) -> None:
    from encoders.cr5.encoder import is_cr5, load_model  # noqa: PLC0415 - most calls of this command do not need it
    from encoders.cr5.neighbours import neighbours  # noqa: PLC0415

    cr5_folder = next(filter(is_cr5, folders), None)
    if cr5_folder is None:
        names = SEPARATOR.join(folder.config.name for folder in folders)
        raise BadInput(f"{names} has no vectors of words; make some: dragoman train cr5 SOURCE… -o FOLDER")
    words_found = neighbours(load_model(cr5_folder), words, k)
    if unknown := sorted(set(words) - {word_found.asked for word_found in words_found}):
        console.warn(f"the model has no word {', '.join(map(repr, unknown))} in any of its languages")
    for word_found in words_found:
        console.emit(
            {
                "word": word_found.word,
                "lang": word_found.lang,
                "near": {
                    lang: [{"word": word, "cosine": round(cosine, 6)} for word, cosine in nearest]
                    for lang, nearest in word_found.near.items()
                },
            }
        )
        rows = [
            [lang, ", ".join(f"{word} {cosine:.2f}" for word, cosine in nearest)]
            for lang, nearest in word_found.near.items()
        ]
        console.table(["", "nearest"], rows, title=f"{word_found.word} ({word_found.lang})")


def _description(folder: ModelFolder) -> dict[str, object]:
    return {"folder": str(folder.path), "build": folder.config.build_id, **asdict(folder.config)}
