"""Formats of documents that are not read here, each with the command that converts a file to text."""

from __future__ import annotations

import zipfile
from pathlib import Path

_WITH_OFFICE = "convert it first: soffice --headless --convert-to pdf FILE, then pdftotext -layout FILE.pdf FILE.txt"


def _with_pandoc(suffix: str) -> str:
    return f"convert it first: pandoc FILE.{suffix} -t plain -o FILE.txt"


UNREAD_MAGIC = {
    b"%PDF-": "a PDF; convert it first: pdftotext -layout FILE.pdf FILE.txt",
    b"%!PS": "PostScript; convert it first: ps2ascii FILE.ps FILE.txt",
    b"{\\rtf": f"RTF; {_with_pandoc('rtf')}",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "a file of Word (.doc) or another Office program; convert it first: "
        "soffice --headless --convert-to txt:Text FILE.doc"
    ),
}
"""First bytes of a format → what the file is and what to do."""

_ZIPPED = {
    "word/document.xml": f"a Word document; {_with_pandoc('docx')}",
    "ppt/presentation.xml": f"a PowerPoint presentation; {_WITH_OFFICE}",
    "xl/workbook.xml": "an Excel workbook; save its sheets as CSV first: soffice --headless --convert-to csv FILE.xlsx",
}
_MIME_TYPES = {
    b"application/vnd.oasis.opendocument.text": f"an OpenDocument text; {_with_pandoc('odt')}",
    b"application/epub+zip": f"an EPUB book; {_with_pandoc('epub')}",
}
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."


def zip_kind(path: Path) -> str:
    """What a zip archive is, by the names in it, and what to do; empty for an archive of any files."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            mime_type = archive.open("mimetype").read(100).strip() if "mimetype" in names else b""
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError):
        return ""
    if mime_type in _MIME_TYPES:
        return _MIME_TYPES[mime_type]
    if mime_type.startswith(_OPEN_DOCUMENT):
        return f"an OpenDocument file; {_WITH_OFFICE}"
    return next((kind for name, kind in _ZIPPED.items() if name in names), "")
