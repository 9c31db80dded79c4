"""Word, OpenDocument, EPUB and PDF: each file is a document, of the text that it has."""

import io
import logging
import unicodedata
import zipfile
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError, fromstring

from indexer.readers.records.encodings import wide_encoding
from indexer.readers.records.files import RECORD_LIMIT, SourceFile
from indexer.readers.records.html_page import read_page
from indexer.readers.records.record import clean_line, make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal
from indexer.readers.records.unread_formats import BROKEN_ARCHIVE

_BLOCKS = frozenset(("p", "h", "note-body"))
_SIGNS = {"tab": " ", "br": " ", "cr": " ", "s": " ", "line-break": " ", "noBreakHyphen": "-"}
_LEFT_OUT = frozenset(("annotation", "delText", "Fallback", "instrText", "note-citation", "tracked-changes"))
"""Comments, what was deleted, fields' codes, and what stands twice."""
_OF_WORD = {"word/document.xml": "body", "word/footnotes.xml": "footnote", "word/endnotes.xml": "endnote"}
_MOST_XML = RECORD_LIMIT >> 2
"""Bytes of XML that are parsed at once: its tree takes up to ten times as much."""
_MOST_UNKNOWN = 1000
"""Characters to each that Unicode lacks, in a PDF that is read; of a font's own numbers one in fifty is lacking."""
_BROKEN = (*BROKEN_ARCHIVE, KeyError, ParseError, StopIteration, ValueError)
_NO_PYPDF = (
    "it is a PDF; install what reads it: make install EXTRAS=documents, or convert it: pdftotext -layout FILE.pdf"
)


class _UnreadableError(Exception):
    """The reason why a file gives no document."""


def read_office(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the file as one document; the path is the id. Raises UnreadableFileError."""
    data = file.whole()
    try:
        title, text = _pdf(data) if data.startswith(b"%PDF-") else _zipped(data)
    except _UnreadableError as error:
        yield Refusal(file.shown, str(error), file.name)
    except _BROKEN as error:
        yield Refusal(file.shown, f"it can't be read ({error}); open it in its program, and save it again", file.name)
    else:
        record = {"id": file.name, "title": clean_line(title), "text": text}
        yield make_document(record, file.shown, ReadOptions(lang=options.lang))


class _Archive:
    """The files of a zip archive, of which ``RECORD_LIMIT`` bytes are read at most."""

    def __init__(self, data: bytes) -> None:
        self._archive, self._left = zipfile.ZipFile(io.BytesIO(data)), RECORD_LIMIT
        self.names = frozenset(self._archive.namelist())

    def text(self, name: str, most: int = RECORD_LIMIT) -> str:
        most = min(most, self._left)
        with self._archive.open(name) as stream:
            data = stream.read(most + 1)
        self._left -= len(data)
        if len(data) > most:
            raise _UnreadableError(f"it unpacks to more than {most >> 20} MB; split it")
        encoding, mark = wide_encoding(data)
        return data[mark:].decode(encoding or "utf-8", "replace")

    def xml(self, name: str) -> Element:
        text = self.text(name, _MOST_XML)
        if "<!ENTITY" in text:
            raise _UnreadableError("it declares entities, as no program writes them; save it anew")
        return fromstring(text)  # noqa: S314 - without entities there is nothing to expand


def _zipped(data: bytes) -> tuple[str, str]:
    archive = _Archive(data)
    if "word/document.xml" in archive.names:
        parts = (_paragraphs(archive.xml(name), holder) for name, holder in _OF_WORD.items() if name in archive.names)
        return _title(archive, "docProps/core.xml"), "\n".join(parts)
    if "content.xml" in archive.names:
        return _title(archive, "meta.xml"), _paragraphs(archive.xml("content.xml"), "text")
    return _book(archive)


def _title(archive: _Archive, name: str) -> str:
    return _text_of(archive.xml(name), "title") if name in archive.names else ""


def _text_of(root: Element, name: str) -> str:
    return next(("".join(element.itertext()) for element in root.iterfind(f".//{{*}}{name}")), "")


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _paragraphs(root: Element, holder: str) -> str:
    """The paragraphs, headings and notes in elements of the name ``holder``, each on a line."""
    text = "".join(_shown(element) for element in root.iterfind(f".//{{*}}{holder}"))
    return "\n".join(filter(None, map(clean_line, text.split("\n"))))


def _shown(element: Element) -> str:
    name = _local(element)
    if name in _LEFT_OUT:
        return ""
    inner = _SIGNS.get(name, element.text or "") + "".join(_shown(child) + (child.tail or "") for child in element)
    return f"\n{inner}\n" if name in _BLOCKS else inner


def _book(archive: _Archive) -> tuple[str, str]:
    """Title and text of an EPUB, its chapters in the order of its spine."""
    root = next(archive.xml("META-INF/container.xml").iterfind(".//{*}rootfile")).get("full-path", "")
    package = archive.xml(root)
    items = {item.get("id"): item.get("href", "") for item in package.iterfind(".//{*}item")}
    pages = [items.get(item.get("idref"), "") for item in package.iterfind(".//{*}itemref")]
    names = [normpath(join(dirname(root), unquote(page.partition("#")[0]))) for page in pages if page]
    return _text_of(package, "title"), "\n".join(read_page(archive.text(name))[1] for name in names)


def _pdf(data: bytes) -> tuple[str, str]:
    """Title and text of a PDF. Raises _UnreadableError: it has a password, no text, or can't be read."""
    try:
        from pypdf import PasswordType, PdfReader  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise _UnreadableError(_NO_PYPDF) from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED
        text = "" if locked else "\n".join(page.extract_text() for page in reader.pages)
        title = "" if locked or not reader.metadata else reader.metadata.title or ""
    except Exception as error:  # pypdf raises any on a broken file
        raise _UnreadableError(f"it is a PDF that can't be read ({error}); print it to a new PDF") from error
    if locked:
        raise _UnreadableError("it is a PDF with a password; save it without")
    unknown = sum(text.count(character) for character in set(text) if unicodedata.category(character) == "Cn")
    if not text.strip() or unknown * _MOST_UNKNOWN > len(text):
        reason = "whose fonts don't say their characters" if text.strip() else "without text, perhaps a scan"
        raise _UnreadableError(f"it is a PDF {reason}; recognise its text first: ocrmypdf --force-ocr FILE.pdf NEW.pdf")
    return title, text
