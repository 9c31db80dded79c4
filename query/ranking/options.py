"""The options that say how documents are ranked, the same for every command that ranks some."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from encoders.methods.vector_parts import parsed_weights
from query.calibration.margin import MARGINS, Margin


@dataclass(frozen=True)
class RankingOptions:
    """What a person said of the ranking; the rest is as the calibration has it.

    Attributes:
        calibration: beginning of an id; ``none``: plain cosine; empty: the active one.
        balance: 0: nothing is balanced, and with ``passages`` off too that is how the encoder ranks; 1: every language
            is equal; none: the calibration's.
        margin: its form; none: the calibration's.
        passages: compare the head of the ranking by passages too; without a calibration they are not.
        hybrid: let the words that a query shares with documents change their order within a language.
        weights: of the parts of combined vectors; empty: the calibration's.
    """

    calibration: str = ""
    balance: float | None = None
    margin: Margin | None = None
    passages: bool = True
    hybrid: bool = False
    weights: tuple[float, ...] = ()


def weights_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--weights`` with a help text; the command gets ``weights`` as typed, empty unless given."""
    return click.option("--weights", default="", metavar="W,W…", help=text)


def ranking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--balance``, ``--margin``, ``--weights``, ``--calibration``, ``--no-passages`` and ``--hybrid``.

    The command gets ``ranking``.
    """

    @functools.wraps(command)
    def with_options(
        *,
        calibration: str,
        balance: float | None,
        margin: Margin | None,
        no_passages: bool,
        hybrid: bool,
        weights: str,
        **others: Any,
    ) -> Any:
        given = parsed_weights(weights) if weights else ()
        return command(ranking=RankingOptions(calibration, balance, margin, not no_passages, hybrid, given), **others)

    options = (
        weights_option("Of the encoders that a collection combines, in their order.  [default: the calibration's]"),
        click.option(
            "--hybrid", is_flag=True, help="Let shared words, names and numbers change the order within a language."
        ),
        click.option("--no-passages", is_flag=True, help="Rank by documents' vectors alone."),
        click.option(
            "--calibration",
            default="",
            metavar="ID|none",
            help="Rank by this one, or by none: plain cosine.  [default: the active]",
        ),
        click.option("--margin", type=click.Choice(MARGINS), help="Form of the margin.  [default: the calibration's]"),
        click.option(
            "--balance",
            type=float,
            metavar="0…1",
            help="0: nothing is balanced … 1: every language equal.  [default: the calibration's]",
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, with_options)
