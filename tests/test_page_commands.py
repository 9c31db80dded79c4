"""What the pages say can be typed: every command with its options exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from papers.__main__ import root as papers
from query.cli import root
from trials import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "docker" / "README.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    ROOT / "docs" / "papers.md",
]


def typed(page: Path) -> Iterator[list[str]]:
    """The words of each command line of a page's blocks after ``dragoman``, or after ``python -m``."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.match(r"(?:\$ )?(?:dragoman|docker compose run .*?(?:dragoman|publisher)) (.*)", line)
            if command and "--entrypoint" not in line:
                yield shlex.split(re.sub(r"\s#.*", "", command[1]).replace("…", "X"))
            elif line.startswith("python -m papers "):
                yield shlex.split(line.removeprefix("python -m ").replace("…", "X"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for words in typed(page):
        rest = list(words)
        command: click.Command = papers if rest[0] == "papers" else root
        rest = rest[1:] if command is papers else rest
        context = click.Context(command)
        while isinstance(command, click.Group) and rest:
            name = rest.pop(0)
            found = command.get_command(context, name)
            assert found, f"dragoman {' '.join(words)}: there is no {name}"
            command = found
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        given = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert given <= known, f"dragoman {' '.join(words)}: there is no {', '.join(sorted(given - known))}"
