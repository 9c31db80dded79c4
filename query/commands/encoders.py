"""``dragoman encoders``: which there are, and what one is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder import ModelFolder
from encoders.methods.combined import BETWEEN
from encoders.methods.registry import METHODS
from onnx_export.models import DEFAULT, default_path, exported, find_model
from query.commands.options import output_options


@click.group("encoders", invoke_without_command=True, short_help="List encoders, or show one.")
@click.pass_context
def command(context: click.Context) -> None:
    """List encoders, or show one."""
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@command.command("list")
@output_options
def list_command(console: Console) -> None:
    """List the encoders in the cache; folders elsewhere are encoders too."""
    folders = exported()
    for folder in folders:
        console.emit({**_described(folder), "default": folder.path == default_path()})
    rows = [
        (
            folder.path.name + (" (default)" if folder.path == default_path() else ""),
            folder.config.precision,
            str(folder.config.dim),
            str(len(folder.config.languages) or "?"),
        )
        for folder in folders
    ]
    if rows:
        console.table(("encoder", "precision", ">dim", ">languages"), rows)
    console.result(f"default: {DEFAULT}" + ("" if rows else ", made when it is first used"))
    console.result(f"methods: {', '.join(METHODS)}; more encoders: dragoman export MODEL")


@command.command("show")
@click.argument("name", metavar="NAME|FOLDER[ + …]")
@click.option("--words", default="", metavar="WORD,…", help="The words nearest to these instead (Cr5).")
@click.option("-k", type=click.IntRange(1, 100), default=5, show_default=True, help="Words a language.")
@output_options
def show_command(name: str, words: str, k: int, console: Console) -> None:
    """Show what an encoder is: its card, its settings and the id of its build; of combined ones each."""
    folders = [find_model(one, console) for one in name.split(BETWEEN)]
    if words:
        asked = [word.strip() for word in words.split(",") if word.strip()]
        if not asked:
            raise click.UsageError("--words takes words with commas between, as in --words schrift,police")
        _show_words(folders, asked, k, console)
        return
    for folder in folders:
        console.emit(_described(folder))
        card = folder.path / "MODEL_CARD.md"
        if card.is_file():
            console.result(card.read_text(encoding="utf-8"))
        console.result(json.dumps(_described(folder), indent=2, ensure_ascii=False))


def _show_words(folders: Sequence[ModelFolder], words: Sequence[str], k: int, console: Console) -> None:
    from encoders.cr5.encoder import is_cr5, load_model  # noqa: PLC0415 - most who look at an encoder need none of it
    from encoders.cr5.neighbours import neighbours  # noqa: PLC0415

    folder = next(filter(is_cr5, folders), None)
    if folder is None:
        names = BETWEEN.join(one.config.name for one in folders)
        raise BadInput(f"{names} has no vectors of words; make some: dragoman train cr5 SOURCE… -o FOLDER")
    found = neighbours(load_model(folder), words, k)
    if unknown := sorted(set(words) - {one.asked for one in found}):
        console.warn(f"the model has no word {', '.join(map(repr, unknown))} in any of its languages")
    for one in found:
        console.emit(
            {
                "word": one.word,
                "lang": one.lang,
                "near": {
                    lang: [{"word": word, "cosine": round(cosine, 6)} for word, cosine in near]
                    for lang, near in one.near.items()
                },
            }
        )
        rows = [[lang, ", ".join(f"{word} {cosine:.2f}" for word, cosine in near)] for lang, near in one.near.items()]
        console.table(["", "nearest"], rows, title=f"{one.word} ({one.lang})")


def _described(folder: ModelFolder) -> dict[str, object]:
    return {"folder": str(folder.path), "build": folder.config.build_id, **asdict(folder.config)}
