"""The pages of documentation: links lead somewhere, no page is out of reach, and what they say can be typed."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from papers.__main__ import root as papers
from query.cli import root
from trials import ROOT

FOLDERS = ("docs", "docker")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
TYPED = [ROOT / "README.md", ROOT / "docker" / "README.md", *GUIDES, ROOT / "docs" / "papers.md"]


@cache
def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text(encoding="utf-8"))


def _links(page: Path) -> Iterator[str]:
    """Targets of a page's links and pictures within the repository."""
    for token in _tokens(page):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target and not re.match(r"[a-z]+:", str(target)):
                yield unquote(str(target))


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Anchors of a page's headings, as the code host makes them."""
    tokens, seen, anchors = _tokens(page), Counter[str](), set[str]()
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return frozenset(anchors)


def _target(page: Path, link: str) -> Path:
    """The file that a link leads to; the README of a folder."""
    name = link.partition("#")[0]
    path = (page.parent / name).resolve() if name else page
    return path / "README.md" if path.is_dir() else path


def _navigation(entries: list[dict[str, object]]) -> Iterator[Path]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, list):
                yield from _navigation(value)
            else:
                yield ROOT / str(value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_a_heading_and_text_and_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert {"heading_open", "paragraph_open"} <= {token.type for token in _tokens(page)}, f"{page.name} is empty"
    for link in _links(page):
        target = _target(page, link)
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        anchor = link.partition("#")[2]
        assert not anchor or anchor in _anchors(target), f"{page.name} links to {link}, a heading that is not there"


def test_the_navigation_names_pages_that_are_there_and_every_page_is_reached_from_it() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    reached, waiting = set[Path](), list(_navigation(navigation))
    assert not set(waiting) - set(PAGES)
    while waiting:
        page = waiting.pop()
        if page in PAGES and page not in reached:
            reached.add(page)
            waiting += [_target(page, link) for link in _links(page)]
    assert not set(PAGES) - reached, "list them under nav in mkdocs.yml, or link to them from a page that is listed"


def typed(page: Path) -> Iterator[list[str]]:
    """The words of each command line of a page's blocks after ``dragoman``, or after ``python -m``."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.match(r"(?:\$ )?(?:dragoman|docker compose run .*?(?:dragoman|publisher)) (.*)", line)
            if command and "--entrypoint" not in line:
                yield shlex.split(re.sub(r"\s#.*", "", command[1]).replace("…", "X"))
            elif line.startswith("python -m papers "):
                yield shlex.split(line.removeprefix("python -m ").replace("…", "X"))


@pytest.mark.parametrize("page", TYPED, ids=lambda page: str(page.relative_to(ROOT)))
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
