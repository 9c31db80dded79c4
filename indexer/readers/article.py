"""One newspaper article in markup: which of its tags hold id, title, lead and text, and what they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from indexer.readers.markup import Tag, tokens
from indexer.readers.record import one_line

TITLES = ("TITLE", "HEADLINE", "TI", "HD")
LEADS = ("LEAD", "LEAD1", "LD", "LE", "RETRO")
TEXTS = ("TEXT", "TX", "TE")
IDS = ("DOCNO", "DOCID")
LANGUAGES = ("LANG", "LANGUAGE")
ASIDE = (
    *("AUTHOR", "BYLINE", "CATEGORY", "CO", "COUNTRY", "DATE", "DATELINE", "DATETIME", "DT", "EDITION", "GEOGRAPHY"),
    *("IN", "KW", "LENGTH", "OS", "PAGE", "PUB", "RECORDNO", "SECTION", "SOURCE", "ST", "SUBJECT", "SUBJECTS", "TYPE"),
)
"""Tags whose content is about the article: it goes into the document's fields."""

_NO_HEADLINE = "no headline present"
_LONGEST_FIRST_LINE = 200
_PARAGRAPH = frozenset(("BR", "DIV", "H1", "H2", "H3", "H4", "LI", "P", "PARA", "TABLE", "TABLEROW", "TR", "UL"))
_IN_DOC_TAG = {"id": "id", "docid": "id", "docno": "id", "lang": "lang", "xml:lang": "lang"}
_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_]\w+)*")


@dataclass(frozen=True)
class Article:
    """What a record holds.

    Attributes:
        doc_id: its id; None where it has none.
        lang: the language code it names, empty where it names none.
        title: its headline on one line.
        lines: lead and text, a paragraph each.
        fields: what it says about itself, by the tag's name in lower case or the user's.
        other_tags: where the text was taken from, if it has none of the tags for text.
    """

    doc_id: str | None
    lang: str
    title: str
    lines: list[str]
    fields: dict[str, str]
    other_tags: tuple[str, ...] = ()


def parse_article(markup: str, names: Mapping[str, str], *, first_line_is_title: bool = False) -> Article:
    """Find id, title and text in a record's markup, wherever they are nested and whether or not their tags close.

    Args:
        markup: the record.
        names: our field (``id lang title lead text`` or any other name) → the tag that holds it, instead of the usual.
        first_line_is_title: a text without a title begins with it.
    """
    sections = [section for section in _sections(markup, _roles(names)) if section.text.strip()]
    title, lines = _title_and_lines(sections, first_line_is_title=first_line_is_title)
    others = [] if lines else [section for section in sections if section.role == "other"]
    ids = [section for section in sections if section.role == "id"]
    codes = [section.text.strip() for section in sections if section.role == "lang"]
    return Article(
        doc_id=min(ids, key=_rank).text.strip() if ids else None,
        lang=next(filter(_LANGUAGE_CODE.fullmatch, codes), ""),
        title=title,
        lines=lines + [line for section in others for line in section.lines],
        fields={item.role[1:]: one_line(item.text) for item in reversed(sections) if item.role.startswith("=")},
        other_tags=tuple(dict.fromkeys(section.tag for section in others)),
    )


@dataclass
class _Section:
    """Character data from one tag that matters to the next; paragraphs are parted by form feeds."""

    tag: str
    role: str
    pieces: list[str] = field(default_factory=list)
    has_paragraphs: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def lines(self) -> list[str]:
        paragraphs = self.text.split("\f")
        return [line for paragraph in paragraphs for line in _unwrapped(paragraph, joined=self.has_paragraphs)]


def _roles(names: Mapping[str, str]) -> dict[str, str]:
    """Tag → what it holds: ``id``, ``title`` …, or ``=name`` for a field."""
    tags = {"title": TITLES, "lead": LEADS, "text": TEXTS, "id": IDS, "lang": LANGUAGES}
    for name, tag in names.items():
        tags[name if name in tags else f"={name}"] = (tag.upper(),)
    aside = {tag: f"={tag.lower()}" for tag in ASIDE}
    return aside | {tag: role for role, of_role in tags.items() for tag in of_role}


def _sections(markup: str, roles: Mapping[str, str]) -> list[_Section]:
    sections = [_Section("DOC", "other")]
    for token in tokens(markup.replace("\f", "\n")):
        current = sections[-1]
        if isinstance(token, str):
            current.pieces.append(token)
        elif token.name == "DOC":
            sections += _in_doc_tag(token)
        elif token.closes and token.name == current.tag:
            sections.append(_Section("DOC", "other"))
        elif token.name in roles and not token.closes:
            sections.append(_Section(token.name, roles[token.name]))
        elif token.name in _PARAGRAPH:
            current.pieces.append("\f")
            current.has_paragraphs |= token.name != "BR"
        elif current.role == "other" and not token.closes:
            sections.append(_Section(token.name, "other"))
        else:
            current.pieces.append(" ")
    return sections


def _in_doc_tag(doc: Tag) -> list[_Section]:
    """Id and language that stand in the ``<DOC>`` tag itself; then room for what follows it."""
    found = [(_IN_DOC_TAG[name], value) for name, value in doc.attributes.items() if name in _IN_DOC_TAG]
    return [*(_Section("", role, [value]) for role, value in found), _Section("DOC", "other")]


def _rank(section: _Section) -> int:
    """The place of a tag among those that hold the same: the first is to be trusted."""
    order = (*IDS, *TITLES, "")
    return order.index(section.tag) if section.tag in order else -1


def _title_and_lines(sections: list[_Section], *, first_line_is_title: bool) -> tuple[str, list[str]]:
    of_title = sorted((section for section in sections if section.role == "title"), key=_rank)
    titles = [section for section in of_title if one_line(section.text).lower() != _NO_HEADLINE]
    body = [section for role in ("lead", "text") for section in sections if section.role == role]
    lines = [line for section in body for line in section.lines]
    if not titles:
        return _first_line(body) if first_line_is_title else ("", lines)
    if not lines and len(titles) == 1:
        return _first_line(titles)
    title = one_line(titles[0].text)
    further = [words for section in titles[1:] if (words := one_line(section.text)) != title]
    return title, further + lines


def _first_line(sections: list[_Section]) -> tuple[str, list[str]]:
    if not sections:
        return "", []
    first, *rest = sections
    title, _, remainder = first.text.replace("\f", "\n").strip().partition("\n")
    if len(title) > _LONGEST_FIRST_LINE and remainder:
        title, remainder = "", first.text
    following = _Section(first.tag, first.role, [remainder])
    return one_line(title), [line for section in (following, *rest) for line in section.lines]


def _unwrapped(text: str, *, joined: bool) -> list[str]:
    """Undo the wrapping of lines.

    Where paragraphs have tags (``joined``) all lines of one are joined; elsewhere where lines look wrapped, up to a
    blank or an indented one.
    """
    lines = text.replace("\r", "").split("\n")
    widths = [len(line.strip()) for line in lines if line.strip()]
    wrapped = joined or (len(widths) > 3 and max(widths) <= 100 and median(widths[:-1]) >= 40)
    result: list[str] = []
    begins = True
    for line in lines:
        words = " ".join(line.split())
        indented = line[:2].isspace() and not joined
        if words and wrapped and not begins and not indented:
            result[-1] += f" {words}"
        elif words:
            result.append(words)
        begins = not words
    return result
