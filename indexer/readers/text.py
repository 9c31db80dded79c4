"""Plain text: a file is a document."""

from __future__ import annotations

from collections.abc import Iterator

from indexer.readers.encodings import UndecodableError, decode, taken_for
from indexer.readers.files import SourceFile
from indexer.readers.record import make_document
from indexer.readers.source import Reading, ReadOptions, Refusal, Remark

TITLE_LENGTH = 120
"""Characters of the longest first line that is a title."""


def read_text(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the file as one document: its path is the id, a short first line the title."""
    data = file.whole()
    if b"\0" in data:
        yield Refusal(file.shown, "it is binary, not text", file.name)
        return
    try:
        text, encoding = decode(data.removeprefix(b"\xef\xbb\xbf"), options.lang, stated=options.encoding)
    except UndecodableError as error:
        yield Refusal(file.shown, str(error), file.name)
        return
    first, _, rest = text.strip().partition("\n")
    if not rest.strip() or len(first) > TITLE_LENGTH:
        first, rest = "", text
    if file.suffix in (".md", ".markdown"):
        first = first.lstrip("# ")
    yield make_document({"id": file.name, "title": first, "text": rest}, file.shown, ReadOptions(lang=options.lang))
    if encoding not in ("utf-8", options.encoding):
        yield Remark(file.shown, f"it is {taken_for(encoding)}")
