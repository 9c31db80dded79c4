"""Formats of documents that are not read here, each with the command that converts a file to text."""

import lzma
import zipfile
import zlib
from pathlib import Path

_WITH_OFFICE = "convert it first: soffice --headless --convert-to pdf FILE, then pdftotext -layout FILE.pdf FILE.txt"

TAR, TAR_MAGIC = "a tar archive; unpack it first: tar -xf FILE", (b"ustar\0", b"ustar  ")  # from byte 257 on
UNREAD_MAGIC = {
    b"%!PS": "PostScript; convert it first: ps2ascii FILE.ps FILE.txt",
    b"WARC/": "an archive of web pages (WARC); write its pages as HTML files first",
    b"{\\rtf": "RTF; convert it first: pandoc FILE.rtf -t plain -o FILE.txt",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "a file of Word (.doc) or another Office program; convert it first: "
        "soffice --headless --convert-to txt:Text FILE.doc"
    ),
    b"\x1f\x9d": "compressed by compress(1); unpack it first with gzip -d",
    **dict.fromkeys((b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"PK\x05\x06"), "an archive; unpack it first"),
    **dict.fromkeys((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"), "packed twice; unpack it once"),
    b"PAR1\x15": "a Parquet table; index it from Python: dragoman.index(pandas.read_parquet('FILE'), 'NAME')",
    b"SQLite format 3\0": "a SQLite database; write its rows as CSV first: sqlite3 -csv -header FILE 'SELECT …'",
}
"""First bytes of a format → what the file is and what to do."""

_ZIPPED = {
    "ppt/presentation.xml": f"a PowerPoint presentation; {_WITH_OFFICE}",
    "xl/workbook.xml": "an Excel workbook; save its sheets as CSV first: soffice --headless --convert-to csv FILE.xlsx",
}
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError, RuntimeError)
"""What ``zipfile`` raises."""
READ = "read"
_READ_NAME, _READ_TYPES = "word/document.xml", (b"application/vnd.oasis.opendocument.text", b"application/epub+zip")
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."


def zip_kind(path: Path) -> str:
    """``READ`` for Word, OpenDocument and EPUB; else what it is and what to do; empty: any files. Raises OSError."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            mime_type = archive.open("mimetype").read(100).strip() if "mimetype" in names else b""
    except BROKEN_ARCHIVE as error:
        cause = error.__context__ or error  # an archive whose end can't be read is called bad
        if isinstance(cause, OSError) and cause.errno:
            raise cause from None
        return ""
    if _READ_NAME in names or mime_type in _READ_TYPES:
        return READ
    if mime_type.startswith(_OPEN_DOCUMENT):
        return f"an OpenDocument file; {_WITH_OFFICE}"
    return next((kind for name, kind in _ZIPPED.items() if name in names), "")
