"""SGML as newspapers were shipped in it: tags that may not close, bare ampersands, entities."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Each alternative stops where another would begin: what never closes costs one look and no more.
_TOKEN = re.compile(
    r"<!--(?:(?!<!--).)*?-->|<!\[CDATA\[(?P<cdata>(?:(?!<!\[CDATA\[).)*?)\]\]>|<[!?][^<>]*>"
    r"|<(?P<close>/?)(?P<name>[A-Za-z][\w.-]*)(?P<attributes>(?:[\s=/][^<>]*)?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_ATTRIBUTES = 1024
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TREC_ENTITIES = {"&hyph;": "-", "&blank;": " ", "&sect;": "§", "&cir;": "○", "&amp;": "&"}


@dataclass(frozen=True)
class Tag:
    """A start or end tag.

    Attributes:
        name: in upper case.
        closes: whether it is an end tag.
        attributes: of a start tag, their names in lower case.
        start: where it begins in the text.
    """

    name: str
    closes: bool
    attributes: dict[str, str] = field(default_factory=dict)
    start: int = 0


def tokens(text: str) -> Iterator[Tag | str]:
    """Tags and the character data between them, entities resolved; comments and declarations are left out."""
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() > position:
            yield unescape(text[position : match.start()])
        position = match.end()
        if match["cdata"] is not None:
            yield match["cdata"]
        elif match["name"] is not None:
            found = _ATTRIBUTE.finditer(match["attributes"][:_ATTRIBUTES])
            attributes = {item[1].lower(): unescape(item[2].strip("\"'")) for item in found}
            yield Tag(match["name"].upper(), bool(match["close"]), attributes, match.start())
    if position < len(text):
        yield unescape(text[position:])


def unescape(text: str) -> str:
    """Resolve entities that end in a semicolon; every other ampersand is a letter like others."""
    return _ENTITY.sub(lambda found: _TREC_ENTITIES.get(found[0]) or html.unescape(found[0]), text)
