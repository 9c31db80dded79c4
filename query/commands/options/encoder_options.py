"""Options that choose encoders, methods, devices and languages."""

from collections.abc import Callable
from typing import Any, get_args

import click

from encoders.folder.model_config import Precision
from encoders.languages import language_list
from query.commands.options import completion
from query.commands.options.option_types import Decorator, DeviceName, choice_option, default_option

device_option = default_option("--device", DeviceName(), "auto", "auto, cpu, cuda or cuda:N, the GPU N.")
force_option = click.option("--force", is_flag=True, help="Publish below the parity bar; the report says so.")


def encoder_option(text: str | None = None, **options: Any) -> Decorator:
    """``--encoder`` with a help text and further ``options`` of click; the command gets None unless given."""
    shown: dict[str, Any] = {"metavar": "NAME|FOLDER", "help": text, "shell_complete": completion.encoders}
    return click.option("--encoder", **shown, **options)


def default_encoder_option(text: str | None = None) -> Decorator:
    """``--encoder`` with a help text; the command gets the default encoder's name unless given."""
    from onnx_export.models import DEFAULT  # noqa: PLC0415

    return encoder_option(text, default=DEFAULT, show_default=True)


def rerank_option(text: str) -> Decorator:
    """``--rerank`` with a help text; the command gets None unless given."""
    return click.option("--rerank", metavar="NAME|FOLDER", help=text)


def languages_option(text: str | None = None, default: str = "") -> Decorator:
    """``--languages`` with a help text; the command gets a list of tags, each once, never empty if it has a default."""
    return click.option(
        "--languages",
        callback=lambda _context, _option, value: list(dict.fromkeys(language_list(value))),
        default=default,
        show_default=bool(default),
        metavar="LANG,…",
        help=text,
        shell_complete=completion.languages,
    )


def method_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--method`` that makes a document's vector; the command gets None unless given."""
    from encoders.methods.method_registry import METHODS  # noqa: PLC0415

    return click.option("--method", type=click.Choice(METHODS), help="How a document's vector is made.")(command)


def precision_option(text: str = "") -> Decorator:
    """``--precision`` of exported graphs, with a help text."""
    return choice_option("--precision", get_args(Precision), text, default="int8")
