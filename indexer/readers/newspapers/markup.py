"""SGML of newspaper collections: tags that may not close, bare ampersands, entities."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Each alternative stops where another would begin, so unclosed markup is scanned only once.
_TOKEN = re.compile(
    r"<!--(?:(?!<!--).)*?-->|<!\[CDATA\[(?P<cdata>(?:(?!<!\[CDATA\[).)*?)\]\]>|<[!?][^<>]*>"
    r"|<(?P<close>/?)(?P<name>[A-Za-z][\w.-]*)(?P<attributes>(?:[\s=/][^<>]*)?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_ATTRIBUTE_CHARACTERS = 1024
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TREC_ENTITIES = {"&hyph;": "-", "&blank;": " ", "&sect;": "§", "&cir;": "○", "&amp;": "&"}


@dataclass(frozen=True)
class Tag:
    """A start or end tag."""

    name: str  # in upper case
    closes: bool
    attributes: dict[str, str] = field(default_factory=dict)  # of a start tag, by name in lower case


def tokens(text: str) -> Iterator[Tag | str]:
    """Yield tags and the character data between them, entities resolved; comments and declarations are left out."""
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() > position:
            yield unescape(text[position : match.start()])
        position = match.end()
        if match["cdata"] is not None:
            yield match["cdata"]
        elif match["name"] is not None:
            pairs = _ATTRIBUTE.finditer(match["attributes"][:_ATTRIBUTE_CHARACTERS])
            attributes = {pair[1].lower(): unescape(pair[2].strip("\"'")) for pair in pairs}
            yield Tag(match["name"].upper(), bool(match["close"]), attributes)
    if position < len(text):
        yield unescape(text[position:])


def unescape(text: str) -> str:
    """Resolve entities that end in a semicolon; every other ampersand stays as it is."""
    return _ENTITY.sub(lambda entity: _TREC_ENTITIES.get(entity[0]) or html.unescape(entity[0]), text)
