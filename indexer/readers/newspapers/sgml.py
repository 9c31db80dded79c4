"""TREC and CLEF markup: read files of ``<DOC>`` records, well-formed or not, one record at a time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from encoders.languages import COUNTRIES
from indexer.readers.newspapers.article import TEXTS, Article, parse_article
from indexer.readers.records.files import RECORD_LIMIT, SourceFile
from indexer.readers.records.html_page import read_page
from indexer.readers.records.record import make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark

_BOUNDARY = re.compile(rb"<(/?)DOC(?=[\s>])[^<>]*>", re.IGNORECASE)
_ID_TAGS = [re.compile(rb"<%s\s*>\s*([^<\s]+)" % tag, re.IGNORECASE) for tag in (b"DOCNO", b"DOCID")]
_ANY_TAG = re.compile(rb"<[^<>]*>")
_PAGE = re.compile(r"</DOCHDR\s*>|(?=<!DOCTYPE\s+html|<html[\s>])", re.IGNORECASE)
"""What stands before a web page in a record: the end of its transfer's header, or nothing."""
_CHUNK = 64 << 10
_LONGEST_TAG = 1024


@dataclass
class _FileSummary:
    """Properties of a file's records that a remark reports once per file."""

    records: int = 0
    other_tags: dict[str, None] = field(default_factory=dict)
    countries: dict[str, None] = field(default_factory=dict)  # codes of countries in place of languages
    unclosed: bool = False
    stray: bool = False

    def remarks(self) -> Iterator[str]:
        if self.other_tags:
            used = ", ".join(f"<{tag}>" for tag in self.other_tags)
            usual = ", ".join(f"<{tag}>" for tag in TEXTS)
            yield f"texts stand in none of {usual} and were taken from {used}; else say --field text=TAG"
        for code in self.countries:
            read = f"the language {code} is taken for a country's code, and read as {COUNTRIES[code.lower()]!r}"
            yield f"{read}; if that is wrong, say --field lang=none --lang LANGUAGE"
        if self.unclosed:
            yield "records have no </DOC>; they end where the next begins"
        if self.stray:
            yield "text stands outside any <DOC> and was left out"


def read_sgml(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each record, then remarks on the tags that were used."""
    summary = _FileSummary()
    for line, data in _records(file, summary):
        if data is None:
            limit = f"{RECORD_LIMIT >> 20} MB"
            yield Refusal(file.at(line), f"the record has more than {limit}; close it with </DOC>, or split it")
        else:
            summary.records += 1
            yield _read_record(data, file, line, options, summary)
    yield from (Remark(file.shown, text) for text in summary.remarks())
    if not summary.records:
        yield Refusal(file.shown, "it holds no <DOC> record; say --format if it is of another format")


def newspapers_language(file: SourceFile) -> str:
    """The language of CLEF's newspaper that a file is of, by the id of its first record; empty: it is of none."""
    paper = newspaper(_first_id(file.start), file.path)
    return paper.lang if paper else ""


def _first_id(data: bytes) -> str:
    match = next((match for tag in _ID_TAGS if (match := tag.search(data))), None)
    return match[1].decode("utf-8", "replace") if match else ""


def _read_record(data: bytes, file: SourceFile, line: int, options: ReadOptions, summary: _FileSummary) -> Reading:
    paper = newspaper(_first_id(data), file.path)
    lang = options.lang or (paper.lang if paper else "")
    markup = data.decode("utf-8", "replace")
    web = _PAGE.search(markup)
    markup, page = (markup[: web.start()], markup[web.end() :]) if web else (markup, "")
    article = parse_article(markup, options.fields, first_line_is_title=paper is not None and paper.first_line_is_title)
    if web:
        title, text, page_lang = read_page(page)
        lines = [] if web[0] or article.other_tags else article.lines
        article = Article(
            article.doc_id, article.lang or page_lang, title or article.title, [*lines, text], article.fields
        )
    summary.other_tags |= dict.fromkeys(article.other_tags)
    stated = article.lang
    if stated.lower() in COUNTRIES:
        summary.countries[stated], stated = None, COUNTRIES[stated.lower()]
    record = {**article.fields, "id": article.doc_id, "title": article.title, "text": "\n".join(article.lines)}
    return make_document({**record, "lang": stated or lang}, file.at(line), ReadOptions())


def _records(file: SourceFile, summary: _FileSummary) -> Iterator[tuple[int, bytes | None]]:
    """Yield each record's line and bytes, None if too long; text outside ``<DOC>`` needs an id."""
    too_long = False
    for line, data, begins, ends in _segments(file):
        too_long = too_long and not begins
        if ends is None or too_long:  # part of a record that is too long
            if not too_long:
                yield line, None
            too_long = ends is None
        elif begins or any(tag.search(data) for tag in _ID_TAGS):
            summary.unclosed |= not ends
            yield line, data
        else:
            summary.stray |= bool(_ANY_TAG.sub(b"", data).strip(b"\0\x1a \t\r\n\xef\xbb\xbf"))


def _segments(file: SourceFile) -> Iterator[tuple[int, bytes, bool, bool | None]]:
    """Segments: line, bytes, whether ``<DOC>`` begins it, whether ``</DOC>`` ends it (None: ``RECORD_LIMIT`` does)."""
    buffer = bytearray()
    line, scanned, inside = 1, 0, False
    with file.open() as stream:
        while True:
            file.line = line
            boundary = _BOUNDARY.search(buffer, scanned)
            if boundary is not None:
                ends = bool(boundary[1])
                cut = boundary.end() if ends else boundary.start()
                next_scanned = boundary.end() - cut
                del boundary  # a match locks the buffer, which then can't shrink
                yield line, bytes(buffer[:cut]), inside, ends
                inside = not ends
            elif len(buffer) > RECORD_LIMIT:
                cut, next_scanned = len(buffer) - _LONGEST_TAG, 0
                yield line, bytes(buffer[:cut]), inside, None
                inside = False
            else:
                scanned = max(scanned, len(buffer) - _LONGEST_TAG)
                chunk = stream.read1(_CHUNK)
                if not chunk:
                    break
                buffer += chunk
                continue
            line += buffer.count(b"\n", 0, cut)
            del buffer[:cut]
            scanned = next_scanned
    yield line, bytes(buffer), inside, False


@dataclass(frozen=True)
class Newspaper:
    """One newspaper's collection."""

    name: str  # readable name, with the year where needed
    lang: str
    folder: str  # pattern of the folder in the distribution
    ids: str = ""  # pattern of the documents' ids; empty where ids don't identify the newspaper
    first_line_is_title: bool = False  # whether the headline has no tag and is the first line of the text


NEWSPAPERS = (
    Newspaper("Los Angeles Times 1994", "en", r"LA(TIMES)?(19)?94", r"LA\d{6}-\d{4}"),
    Newspaper("Los Angeles Times 2002", "en", r"LA(TIMES)?(20)?02", r"LA\d{8}-\d+"),
    Newspaper("Glasgow Herald", "en", r"(GLASGOW|GH)(19)?95", r"GH\d{6}-\d{6}"),
    Newspaper("Frankfurter Rundschau", "de", r"(FRANKFURTER|FR)(19)?94", r"FR9[45]\d{4}-\d{6}"),
    Newspaper("Der Spiegel", "de", r"SPIEGEL(19)?9[45]", r"SPIEGEL[\d.-]\S*"),
    Newspaper("SDA", "de", r"SDA\.?(19)?9[45]", r"SDA\.\d{6}\.\d+"),
    Newspaper("Le Monde", "fr", r"LEMONDE(19)?9[45]", r"LEMONDE\d\d-\d{6}\S*"),
    Newspaper("ATS", "fr", r"ATS\.?(19)?9[45]", r"ATS\.\d{6}\.\d+"),
    Newspaper("La Stampa", "it", r"LASTAMPA(19)?94", r"LASTAMPA\d\d-\S+"),
    Newspaper("AGZ", "it", r"AGZ\.?(19)?9[45]", r"AGZ\.\d{6}\.\d+"),
    Newspaper("EFE", "es", r"EFE(19)?9[45]", r"EFE\d{8}-\d{5}"),
    Newspaper("NRC Handelsblad", "nl", r"NRC(19)?9[45]", r"NH\d{8}-\d{4}"),
    Newspaper("Algemeen Dagblad", "nl", r"(ALGEMEEN|AD)(19)?9[45]", r"AD\d{8}-\d{4}"),
    Newspaper("Aamulehti", "fi", r"AAMU(LEHTI)?(19)?9[45]", r"AAMU\d{6,8}-\d{6}"),
    Newspaper("Tidningarnas Telegrambyrå", "sv", r"TT(19)?9[45]", first_line_is_title=True),
    Newspaper("Izvestia", "ru", r"(IZVESTIA|IZ)(19)?95"),
    Newspaper("Público", "pt", r"PUBLICO(19)?9[45]", r"PUBLICO-\d{8}-\d{3}"),
    Newspaper("Folha de São Paulo", "pt", r"FOLHA(19)?9[45]", r"FSP\d{6}-\d{3}", first_line_is_title=True),
    Newspaper("Magyar Hírlap", "hu", r"MAGYAR(20)?02"),
    Newspaper("Sega", "bg", r"SEGA(20)?02"),
    Newspaper("Standart", "bg", r"STANDART(20)?02"),
    Newspaper("Hamshahri", "fa", r"HAMSHAHRI\S*"),
)
"""The newspapers of the CLEF ad-hoc collections, 2000-2008: ids and folders show the newspaper and so the language."""
_BY_ID = [(re.compile(paper.ids), paper) for paper in NEWSPAPERS if paper.ids]
_BY_FOLDER = [(re.compile(paper.folder, re.IGNORECASE), paper) for paper in NEWSPAPERS]


def newspaper(doc_id: str, path: Path) -> Newspaper | None:
    """The newspaper of a document, by its id, else by its file or folder; None where nothing matches.

    A pattern must match the whole id: TREC's Federal Register (``FR940104-0-00001``) is no Frankfurter Rundschau.
    """
    for pattern, paper in _BY_ID:
        if pattern.fullmatch(doc_id):
            return paper
    names = [part.split(".", 1)[0] if part == path.name else part for part in reversed(path.parts)]
    return next((paper for name in names for pattern, paper in _BY_FOLDER if pattern.fullmatch(name)), None)
