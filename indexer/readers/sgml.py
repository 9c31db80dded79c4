"""TREC and CLEF markup: files of ``<DOC>`` records, however broken, read one record at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from indexer.readers.article import TEXTS, parse_article
from indexer.readers.clef import newspaper
from indexer.readers.encodings import UndecodableError, declared_encoding, decode, taken_for
from indexer.readers.files import RECORD_LIMIT, SourceFile
from indexer.readers.record import make_document
from indexer.readers.source import Reading, ReadOptions, Refusal, Remark

_BOUNDARY = re.compile(rb"<(/?)DOC(?=[\s>])[^<>]*>", re.IGNORECASE)
_ID_TAGS = [re.compile(rb"<%s\s*>\s*([^<\s]+)" % tag, re.IGNORECASE) for tag in (b"DOCNO", b"DOCID")]
_ANY_TAG = re.compile(rb"<[^<>]*>")
_CHUNK = 64 << 10
_LONGEST_TAG = 1024


@dataclass
class _Seen:
    """What a file's records had in common, to be said once; and the encoding it declares."""

    declared: str
    records: int = 0
    encodings: dict[str, None] = field(default_factory=dict)
    other_tags: dict[str, None] = field(default_factory=dict)
    unclosed: bool = False
    stray: bool = False

    def remarks(self, stated: str) -> Iterator[str]:
        for encoding in self.encodings:
            if encoding not in ("utf-8", stated):
                yield f"records are {taken_for(encoding)}"
        if self.other_tags:
            taken = ", ".join(f"<{tag}>" for tag in self.other_tags)
            usual = ", ".join(f"<{tag}>" for tag in TEXTS)
            yield f"texts stand in none of {usual} and were taken from {taken}; else say --field text=TAG"
        if self.unclosed:
            yield "records have no </DOC>; they end where the next begins"
        if self.stray:
            yield "text stands outside any <DOC> and was left out"


def read_sgml(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each record; then remarks on the encoding used and the tags taken."""
    seen = _Seen(declared_encoding(file.first_bytes()))
    for line, data in _records(file, seen):
        if data is None:
            limit = f"{RECORD_LIMIT >> 20} MB"
            yield Refusal(file.at(line), f"the record has more than {limit}; close it with </DOC>, or split it")
        else:
            seen.records += 1
            yield _read_record(data, file, line, options, seen)
    yield from (Remark(file.shown, text) for text in seen.remarks(options.encoding))
    if not seen.records:
        yield Refusal(file.shown, "it holds no <DOC> record; say --format if it is of another format")


def _read_record(data: bytes, file: SourceFile, line: int, options: ReadOptions, seen: _Seen) -> Reading:
    found = next((found for tag in _ID_TAGS if (found := tag.search(data))), None)
    paper = newspaper(found[1].decode("latin-1") if found else "", file.path)
    lang = options.lang or (paper.lang if paper else "")
    try:
        markup, encoding = decode(data, lang, stated=options.encoding, declared=seen.declared)
    except UndecodableError as error:
        return Refusal(file.at(line), str(error), found[1].decode("latin-1") if found else "")
    if not data.isascii():
        seen.encodings.setdefault(encoding)
    article = parse_article(markup, options.fields, first_line_is_title=paper is not None and paper.first_line_is_title)
    seen.other_tags |= dict.fromkeys(article.other_tags)
    record = {**article.fields, "id": article.doc_id, "title": article.title, "text": "\n".join(article.lines)}
    return make_document({**record, "lang": article.lang or lang}, file.at(line), ReadOptions())


def _records(file: SourceFile, seen: _Seen) -> Iterator[tuple[int, bytes | None]]:
    """Line and bytes of each record; None instead of the bytes where there are too many.

    A record goes from ``<DOC>`` to ``</DOC>`` or to the next ``<DOC>``; what stands outside is one if it has an id.
    """
    too_long = False
    for line, data, begins, ends in _stretches(file):
        too_long = too_long and not begins
        if ends is None or too_long:  # a stretch of a record that is too long
            if not too_long:
                yield line, None
            too_long = ends is None
        elif begins or any(tag.search(data) for tag in _ID_TAGS):
            seen.unclosed |= not ends
            yield line, data
        else:
            seen.stray |= bool(_ANY_TAG.sub(b"", data).strip(b"\0\x1a \t\r\n\xef\xbb\xbf"))


def _stretches(file: SourceFile) -> Iterator[tuple[int, bytes, bool, bool | None]]:
    """The file cut at each ``<DOC>`` and ``</DOC>``: line, bytes, whether ``<DOC>`` begins and ``</DOC>`` ends it.

    A stretch is cut at ``RECORD_LIMIT`` too; then nothing (None) ends it.
    """
    buffer = bytearray()
    line, searched, inside = 1, 0, False
    with file.open() as stream:
        while True:
            file.line = line
            boundary = _BOUNDARY.search(buffer, searched)
            if boundary is not None:
                ends = bool(boundary[1])
                cut = boundary.end() if ends else boundary.start()
                after = boundary.end() - cut
                del boundary  # a match holds the buffer, which could not shrink
                yield line, bytes(buffer[:cut]), inside, ends
                inside = not ends
            elif len(buffer) > RECORD_LIMIT:
                cut, after = len(buffer) - _LONGEST_TAG, 0
                yield line, bytes(buffer[:cut]), inside, None
                inside = False
            else:
                searched = max(searched, len(buffer) - _LONGEST_TAG)
                chunk = stream.read1(_CHUNK)
                if not chunk:
                    break
                buffer += chunk
                continue
            line += buffer.count(b"\n", 0, cut)
            del buffer[:cut]
            searched = after
    yield line, bytes(buffer), inside, False
