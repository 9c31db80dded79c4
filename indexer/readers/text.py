"""Plain text: each file is a document."""

from __future__ import annotations

from collections.abc import Iterator

from indexer.readers.encodings import UndecodableError, decode, encoding_remark
from indexer.readers.files import SourceFile
from indexer.readers.record import make_document
from indexer.readers.source import Reading, ReadOptions, Refusal, Remark

TITLE_LENGTH = 120
"""Most characters of a first line that counts as the title."""


def read_text(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the file as one document; the path is the id, and a short first line is the title."""
    data = file.whole()
    if b"\0" in data:
        yield Refusal(file.shown, "it is binary, not text", file.name)
        return
    try:
        text, encoding = decode(data.removeprefix(b"\xef\xbb\xbf"), options.lang, stated=options.encoding)
    except UndecodableError as error:
        yield Refusal(file.shown, str(error), file.name)
        return
    title, _, rest = text.strip().partition("\n")
    if not rest.strip() or len(title) > TITLE_LENGTH:
        title, rest = "", text
    if file.suffix in (".md", ".markdown"):
        title = title.lstrip("# ")
    yield make_document({"id": file.name, "title": title, "text": rest}, file.shown, ReadOptions(lang=options.lang))
    if encoding not in ("utf-8", options.encoding):
        yield Remark(file.shown, f"it is {encoding_remark(encoding)}")
