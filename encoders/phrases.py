"""Phrases that many messages share: numbers with their nouns, errors, and how a missing extra is installed."""

import difflib
from collections.abc import Iterable


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, as in ``0 queries``; ``plural`` is for all numbers but 1, by default with an *s*."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def install_command(extra: str) -> str:
    """The command that installs an extra of Dragoman in a checkout, at whose top it is given."""
    return f"make install EXTRAS={extra}"


def first_line(error: Exception) -> str:
    """The first line of an error's message, at most 300 characters; the error's class if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def did_you_mean(typed: str, names: Iterable[str]) -> str:
    """The end of a clause about an unknown name: asks for the known name that is most like it; empty if none is."""
    similar = difflib.get_close_matches(typed, list(names), 1)
    return f", did you mean {similar[0]!r}?" if similar else ""
