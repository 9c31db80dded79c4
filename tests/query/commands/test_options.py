"""The types of options, over all commands."""

from pathlib import Path
from typing import Any

import click
import pytest

from encoders.errors import BadInput
from query.cli import root, run
from query.commands.options.option_types import Address
from trials.command import said
from trials.command_attacks import NOT_FINITE, NUMBERS, not_finite, options

EMPTY_MEANS_A_DEFAULT = {
    "--collection", "--encoder", "--home", "--store", "--database", "--broker", "--output", "--tokens", "--topics",
    "--qrels", "--plot", "sources",
}  # fmt: skip
"""Options and arguments that name something; without a value most have a default."""


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


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["mates", "x", "--languages"], "names no language"),
        (["mates", "x", "--dimensions"], "no list of whole numbers"),
        (["mates", "x", "--methods"], "names no method"),
    ],
)
def test_a_list_of_commas_alone_is_refused(
    command: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, ","]) != 0
    assert sentence in capsys.readouterr().err


def refuses_emptiness(parameter: click.Parameter) -> bool:
    """Whether an option or argument that names something refuses the empty name."""
    try:
        parameter.type.convert("", parameter, None)
    except (click.BadParameter, BadInput):
        return True
    return False


@pytest.mark.parametrize("name", sorted(EMPTY_MEANS_A_DEFAULT))
def test_an_empty_name_is_refused_as_it_would_mean_a_default(name: str) -> None:
    parameters = [parameter for typed, parameter in options(root) if name in parameter.opts]
    assert parameters
    assert [parameter for parameter in parameters if not refuses_emptiness(parameter)] == []


def test_a_command_with_an_empty_name_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"id": "a", "lang": "en", "text": "a river"}')
    home = ["--home", str(tmp_path / "home")]
    for arguments in (
        ["index", "", "-c", "c", *home],
        ["status", "--home", ""],
        ["demo", "--store", ""],
    ):
        status, sentence = said(arguments)
        assert (status, "the value is empty; is a variable not set?" in sentence) == (2, True), sentence
    status, sentence = said(["worker", "-c", "", "--broker", "redis://127.0.0.1:1", *home])
    assert (status, "a collection can't be named ''" in sentence) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("text", ["", "0", "65536", "host", "host:", "host:x", "-1"])
def test_an_address_has_a_port(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Address().convert(text, None, None)
