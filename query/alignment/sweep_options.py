"""The options of a sweep of mate retrieval, the same for ``mates`` and ``reproduce mappings``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from query.alignment.mates import METHODS, Method


def numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Whole numbers above 0 with commas between."""
    try:
        found = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError:
        found = (0,)
    if any(one < 1 for one in found):
        raise click.BadParameter(f"{value!r} is no list of whole numbers with commas between")
    return found


def methods(_context: click.Context, _option: click.Parameter, value: str) -> tuple[Method, ...]:
    """Names of methods with commas between."""
    named = [part.strip() for part in value.split(",") if part.strip()]
    if unknown := [name for name in named if name not in METHODS]:
        raise click.BadParameter(f"there is no method {unknown[0]!r}; choose among {', '.join(METHODS)}")
    return tuple(method for method in METHODS if method in named)


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--methods``, ``--dimensions``, ``--pairs``, ``--splits``, ``--seed`` and ``--plot``."""
    options = (
        click.option(
            "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the figures: .png, .svg, .pdf."
        ),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the first split."),
        click.option(
            "--splits", type=click.IntRange(1), default=3, show_default=True, help="Of the concepts, at random."
        ),
        click.option(
            "--pairs", callback=numbers, default="", metavar="N,…", help="Numbers of training concepts to try."
        ),
        click.option("--dimensions", callback=numbers, default="", metavar="K,…", help="Dimensions to try."),
        click.option(
            "--methods",
            callback=methods,
            default="raw,centred,lca-published,lca,lca-stay,lcc",
            show_default=True,
            metavar="NAME,…",
            help="Ways to compare; nca, too, which needs the train extra.",
        ),
    )
    for option in options:
        command = option(command)
    return command
