"""Parse one newspaper article in markup: find the tags that hold its id, title, lead and text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from indexer.readers.newspapers.markup import tokens
from indexer.readers.records.record import clean_line

TITLES = ("TITLE", "HEADLINE", "TI", "HD", "HEAD", "HL", "TTL", "DOCTITLE")
LEADS = ("LEAD", "LEAD1", "LD", "LE", "RETRO", "LP", "LEADPARA", "ABST", "SUMMARY")
TEXTS = ("TEXT", "TX", "TE")
IDS = ("DOCNO", "DOCID")
LANGUAGES = ("LANG", "LANGUAGE")
ASIDE = (
    *("AE", "AU", "AUTHOR", "BYLINE", "CATEGORY", "CO", "COUNTRY", "DATE", "DATELINE", "DATETIME", "DATE_TIME", "DD"),
    *("DESCRIPT", "DOCTYPE", "DT", "EDITION", "FILEID", "FIRST", "GEOGRAPHY", "IN", "JOURNAL", "KEYWORD", "KW"),
    *("LENGTH", "OS", "PAGE", "PUB", "PUBDATE", "RECORDNO", "SECOND", "SECTION", "SLUG", "SO", "SOURCE", "ST"),
    *("SUBJECT", "SUBJECTS", "TYPE", "URL", "WORDS"),
)
"""Tags with metadata of the article; their content goes into the document's fields."""

_NO_HEADLINE = "no headline present"
_MAX_TITLE = 200
_PARAGRAPH_TAGS = frozenset(("BR", "DIV", "H1", "H2", "H3", "H4", "LI", "P", "PARA", "TABLE", "TABLEROW", "TR", "UL"))
_DOC_ATTRIBUTES = {"id": "id", "docid": "id", "docno": "id", "lang": "lang", "xml:lang": "lang"}
_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_]\w+)*")


@dataclass(frozen=True)
class Article:
    """The content of a record."""

    doc_id: str | None  # None where the record has no id
    lang: str  # the language code in the record; empty where the record names no language
    title: str
    lines: list[str]  # lead and text, a paragraph per line
    fields: dict[str, str]  # metadata, by the tag's name in lower case or by the user's name
    other_tags: tuple[str, ...] = ()  # tags that the text was taken from because the record has no lead or text tag


def parse_article(markup: str, names: Mapping[str, str], *, first_line_is_title: bool = False) -> Article:
    """Find id, title and text in a record's markup; tags may be nested anywhere and need not close.

    ``names`` maps our field (``id lang title lead text`` or another name) to the tag in place of the usual tags;
    ``first_line_is_title`` is for texts without a title tag.
    """
    sections = [section for section in _sections(markup, _roles(names)) if section.text.strip()]
    title, lines = _title_and_lines(sections, first_line_is_title=first_line_is_title)
    has_text = any(section.role == "text" for section in sections)
    other_sections = [section for section in sections if section.role == "other" and not has_text]
    ids = [section for section in sections if section.role == "id"]
    codes = [section.text.strip() for section in sections if section.role == "lang"]
    return Article(
        doc_id=min(ids, key=_rank).text.strip() if ids else None,
        lang=next((code for code in codes if _LANGUAGE_CODE.fullmatch(code)), ""),
        title=title,
        lines=lines + [line for section in other_sections for line in section.lines],
        fields={
            section.role[1:]: clean_line(section.text) for section in reversed(sections) if section.role.startswith("=")
        },
        other_tags=tuple(dict.fromkeys(section.tag for section in other_sections)),
    )


@dataclass
class _Section:
    """Character data from one relevant tag to the next; form feeds separate its paragraphs."""

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
    """Map each tag to its role: ``id``, ``title`` …, or ``=name`` for a field."""
    tags = {"title": TITLES, "lead": LEADS, "text": TEXTS, "id": IDS, "lang": LANGUAGES}
    named = {(name if name in tags else f"={name}"): (tag.upper(),) for name, tag in names.items()}
    roles = {tag: f"={tag.lower()}" for tag in ASIDE}
    for role, role_tags in [*(pair for pair in tags.items() if pair[0] not in named), *named.items()]:
        roles |= dict.fromkeys(role_tags, role)
    return roles


def _sections(markup: str, roles: Mapping[str, str]) -> list[_Section]:
    sections = [_Section("DOC", "other")]
    text_tag = ""  # the open tag of a text, which goes on after tags in it
    for token in tokens(markup.replace("\f", "\n")):
        current = sections[-1]
        if isinstance(token, str):
            current.pieces.append(token)
        elif token.name == "DOC":
            stated = {name: value for name, value in token.attributes.items() if name in _DOC_ATTRIBUTES}
            sections += [_Section("", _DOC_ATTRIBUTES[name], [value]) for name, value in stated.items()]
            sections.append(_Section("DOC", "other"))
        elif token.closes and token.name in (current.tag, text_tag):
            text_tag = "" if token.name == text_tag else text_tag
            sections.append(_Section(text_tag, "text") if text_tag else _Section("DOC", "other"))
        elif token.name in roles and not token.closes:
            text_tag = token.name if roles[token.name] == "text" else text_tag
            sections.append(_Section(token.name, roles[token.name]))
        elif token.name in _PARAGRAPH_TAGS:
            current.pieces.append("\f")
            current.has_paragraphs |= token.name != "BR"
        elif current.role == "other" and not token.closes:
            sections.append(_Section(token.name, "other"))
        else:
            current.pieces.append(" ")
    return sections


def _rank(section: _Section) -> int:
    """Sort key of sections with the same role: the lower, the more reliable; -1 for a tag that the user named."""
    order = (*IDS, *TITLES, "")
    return order.index(section.tag) if section.tag in order else -1


def _title_and_lines(sections: list[_Section], *, first_line_is_title: bool) -> tuple[str, list[str]]:
    title_sections = sorted((section for section in sections if section.role == "title"), key=_rank)
    titles = [section for section in title_sections if clean_line(section.text).lower() != _NO_HEADLINE]
    body = [section for role in ("lead", "text") for section in sections if section.role == role]
    lines = [line for section in body for line in section.lines]
    if not titles:
        return _first_line(body) if first_line_is_title else ("", lines)
    if not lines and len(titles) == 1:
        return _first_line(titles)
    title = clean_line(titles[0].text)
    other_titles = [text for section in titles[1:] if (text := clean_line(section.text)) != title]
    return title, other_titles + lines


def _first_line(sections: list[_Section]) -> tuple[str, list[str]]:
    if not sections:
        return "", []
    first, *later_sections = sections
    title, _, remainder = first.text.replace("\f", "\n").strip().partition("\n")
    if len(title) > _MAX_TITLE and remainder:
        title, remainder = "", first.text
    remaining_section = _Section(first.tag, first.role, [remainder])
    return clean_line(title), [line for section in (remaining_section, *later_sections) for line in section.lines]


def _unwrapped(text: str, *, joined: bool) -> list[str]:
    """Join wrapped lines: all of a paragraph with tags (``joined``), else up to a blank or an indented line."""
    lines = text.replace("\r", "").split("\n")
    widths = [len(line.strip()) for line in lines if line.strip()]
    wrapped = joined or (len(widths) > 3 and max(widths) <= 100 and median(widths[:-1]) >= 40)
    paragraphs: list[str] = []
    at_start = True
    for line in lines:
        words = " ".join(line.split())
        indented = line[:2].isspace() and not joined
        if words and wrapped and not at_start and not indented:
            paragraphs[-1] += f" {words}"
        elif words:
            paragraphs.append(words)
        at_start = not words
    return paragraphs
