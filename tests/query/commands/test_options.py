"""The types of options, over all commands."""

from __future__ import annotations

from typing import Any

import click
import pytest

from query.commands.options import Address
from trials.command_attacks import NOT_FINITE, NUMBERS, not_finite


def test_the_options_that_take_numbers_are_found() -> None:
    assert {"worker --lease", "attach --every", "search --balance", "train tlaser --dropout"} <= NUMBERS.keys()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", NOT_FINITE)
def test_no_option_takes_a_number_that_is_not_finite(name: str, value: str) -> None:
    assert not_finite(name, value) == ""


@pytest.mark.parametrize("name", [name for name in NUMBERS if name.split()[-1] in ("--lease", "--grace", "--every")])
def test_seconds_are_bounded_by_what_a_clock_can_add(name: str) -> None:
    with pytest.raises(click.BadParameter, match="31536000"):
        NUMBERS[name].convert("1e12", None, None)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9108", ("127.0.0.1", 9108)),
        (":9108", ("127.0.0.1", 9108)),
        ("0.0.0.0:9108", ("0.0.0.0", 9108)),  # noqa: S104 - a value, nothing listens
        ("[::1]:9108", ("::1", 9108)),
        ("host.example:1", ("host.example", 1)),
    ],
)
def test_an_address_is_of_this_machine_alone_unless_another_is_given(text: str, address: Any) -> None:
    assert Address().convert(text, None, None) == address


@pytest.mark.parametrize("text", ["", "0", "65536", "host", "host:", "host:x", "-1"])
def test_an_address_has_a_port(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Address().convert(text, None, None)
