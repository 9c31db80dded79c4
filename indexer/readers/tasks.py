"""Data of shared tasks in their published layouts: WMT16's sites, WMT19's news commentary, JRC-Acquis.

**WMT16**: a ``.lett`` file is a site; a line is a page: language, MIME type, encoding, URL, HTML and text in Base64.

**News commentary**: the unpacked documents are ``LANG/NAME``, a file of the same NAME for each translation; or a file
``….LANG-LANG.tsv`` has a sentence and its translation a line, and an empty line between documents.

**JRC-Acquis 3.0**: ``jrcNAME-LANG.xml``, TEI with paragraphs ``<p n="…">`` in ``<body>``; in many French documents,
letters with diacritics are written like ``%eacute;``.

Translations but WMT16's share the field ``concept``, so that they can teach.
"""

import base64
import binascii
import html
import re
from collections.abc import Iterator
from html.entities import name2codepoint
from itertools import groupby
from pathlib import PurePosixPath
from typing import NamedTuple

from encoders.phrases import counted
from indexer.readers.newspapers.markup import tokens
from indexer.readers.records.files import SourceFile
from indexer.readers.records.record import make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark

LETT = re.compile(r"\.lett(\.\w+)?$")
COMMENTARY = re.compile(r"\.([a-z]{2,3})-([a-z]{2,3})\.tsv(\.\w+)?$")
JRC = re.compile(r"(jrc.+)-([a-z]{2})\.xml(\.\w+)?$")
LANGUAGE = re.compile(r"[a-z]{2,3}")
_COLUMNS = 6
_PERCENT = re.compile(r"%([A-Za-z]+);?")


class Page(NamedTuple):
    """A page of a ``.lett`` file."""

    lang: str
    url: str
    text: str


def parse_page(line: str) -> Page:
    """A line of a ``.lett`` file; raises ``ValueError`` with a sentence if it is no page."""
    columns = line.split("\t")
    if len(columns) != _COLUMNS:
        raise ValueError(f"has {counted(len(columns), 'column')}; a page of a .lett file has {_COLUMNS}")
    lang, _, _, url, _, encoded = columns
    try:
        return Page(lang, url, base64.b64decode(encoded, validate=True).decode("utf-8", "replace"))
    except binascii.Error as error:
        raise ValueError("has a text that is no Base64; get the file again") from error


def read_lett(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the pages of a site that have text; their ids are their URLs."""
    blank = 0
    for line in file.lines():
        place = file.at(file.line)
        try:
            page = parse_page(line.decode("utf-8", "replace"))
        except ValueError as error:
            yield Refusal(place, f"it {error}")
            continue
        if page.text.strip():
            record = {"id": page.url, "lang": page.lang, "text": page.text, "site": LETT.sub("", file.path.name)}
            yield make_document(record, place, ReadOptions(lang=options.lang))
        else:
            blank += 1
    if blank:
        yield Remark(file.shown, "pages without text were left out")


def read_commentary(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the document of a file ``LANG/NAME``, or the documents of both languages of a ``.LANG-LANG.tsv`` file."""
    if langs := COMMENTARY.search(file.path.name):
        yield from _aligned(file, (langs[1], langs[2]), options)
        return
    name = PurePosixPath(file.name).name
    lang = file.path.absolute().parent.name
    if not LANGUAGE.fullmatch(lang):
        yield Refusal(file.shown, "its folder is not named by a language (en, de …), as news commentary's are", name)
        return
    text = file.whole().decode("utf-8", "replace")
    record = {"id": f"{lang}:{name}", "lang": lang, "text": text, "concept": name}
    yield make_document(record, file.shown, ReadOptions(lang=options.lang))


def _aligned(file: SourceFile, langs: tuple[str, str], options: ReadOptions) -> Iterator[Reading]:
    number = 0
    numbered = ((file.line, line.decode("utf-8", "replace")) for line in file.lines())
    for has_text, lines in groupby(numbered, key=lambda line: bool(line[1].strip())):
        if not has_text:
            continue
        columns: tuple[list[str], list[str]] = ([], [])
        first = 0
        for at, line in lines:
            first = first or at
            sentences = line.split("\t")
            if len(sentences) < 2:
                yield Refusal(file.at(at), "it has one column; it should be a sentence, a tab and its translation")
                continue
            for column, sentence in zip(columns, sentences, strict=False):
                column.append(sentence)
        number += 1
        for lang, column in zip(langs, columns, strict=True):
            if text := "\n".join(column).strip():
                concept = file.record_id(number)
                record = {"id": f"{concept}:{lang}", "lang": lang, "text": text, "concept": concept}
                yield make_document(record, file.at(first), ReadOptions(lang=options.lang))


def read_jrc(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the document of a file of JRC-Acquis."""
    name = JRC.fullmatch(file.path.name)
    if not name:
        yield Refusal(file.shown, "it is not named as JRC-Acquis' files are: jrcNAME-LANG.xml", file.name)
        return
    text = jrc_text(file.whole().decode("utf-8", "replace"))
    record = {"id": f"{name[1]}-{name[2]}", "lang": name[2], "text": text, "concept": name[1]}
    yield make_document(record, file.shown, ReadOptions(lang=options.lang))


def jrc_text(markup: str) -> str:
    """The text of a document of JRC-Acquis, a paragraph a line."""
    inside, parts = False, list[str]()
    for token in tokens(markup):
        if isinstance(token, str):
            if inside:
                parts.append(_repaired(token))
        elif token.name == "BODY":
            inside = not token.closes
        elif token.name in {"P", "HEAD", "DIV"}:
            parts.append("\n")
    return "\n".join(line for part in "".join(parts).split("\n") if (line := " ".join(part.split())))


def _repaired(text: str) -> str:
    """Replace the likes of ``%eacute;`` by é; a percent sign before any other word stays."""
    return _PERCENT.sub(lambda match: html.unescape(f"&{match[1]};") if match[1] in name2codepoint else match[0], text)
