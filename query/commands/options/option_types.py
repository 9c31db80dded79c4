"""Types of the values of options."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from encoders.machine.placement import DEVICES, NO_DEVICE, Device
from indexer.stores.collection_names import check_collection_name
from query.commands.options import completion

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
PORT = click.IntRange(1, 65535)
_YEAR = 31_536_000.0  # seconds


class Number(click.FloatRange):
    """A range of numbers without ``nan``, which no bound refuses, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of a text."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def seconds(least: float) -> Number:
    """The type of a time in seconds, at most a year: no clock adds up longer times."""
    return Number(least, _YEAR)


class Address(click.ParamType[tuple[str, int]]):
    """``[ADDRESS:]PORT`` to listen at, the loopback address unless another is given; as (address, port)."""

    name = "[address:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The address and port of a text; an IPv6 address stands in brackets."""
        address, _, port = str(value).rpartition(":")
        number: int = PORT(port, param, ctx)
        return address.removeprefix("[").removesuffix("]") or "127.0.0.1", number


class CollectionName(click.ParamType[str]):
    """A collection's name, which is checked before the command opens or makes anything."""

    name = "text"

    def convert(self, value: str, _option: click.Parameter | None, _context: click.Context | None) -> str:
        """The name, if a collection can have it."""
        check_collection_name(value)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of the collections there are."""
        return completion.collections(ctx, param, incomplete)


class DeviceName(click.ParamType[Device]):
    """A device by its name."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Device:
        """The name."""
        if not DEVICES.fullmatch(value):
            self.fail(NO_DEVICE.format(value), param, ctx)
        return str(value)


def default_option(
    name: str, of_type: click.ParamType[Any], default: Any, text: str, *names: str, **options: Any
) -> Decorator:
    """An option whose help shows its default; ``names`` are further names, ``options`` those of click."""
    return click.option(name, *names, type=of_type, default=default, show_default=True, help=text, **options)


def choice_option(name: str, choices: Sequence[str], text: str, *names: str, default: str = "") -> Decorator:
    """An option that takes one of the choices, the first of them unless there is another default."""
    return default_option(name, click.Choice(choices), default or choices[0], text, *names)


COLLECTION = CollectionName()
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
