"""Dumps of Wikipedia and other wikis by MediaWiki: ``…-pages-articles.xml``, with the Wikidata item as the concept.

``dewiki-20260101-page_props.sql.gz`` beside the articles has each page's item; since 2013 Wikipedia's language links
are items. Pages of one item share the concept, as in the HMDE paper (§3.1).
"""

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from encoders.errors import BadInput
from encoders.languages import normalise
from indexer.readers.records.files import RECORD_LIMIT, SourceFile, UnreadableFileError
from indexer.readers.records.record import make_document
from indexer.readers.records.source import Reading, ReadOptions, Remark
from indexer.readers.wikis.wikitext import plain_text

_CHUNK = 64 << 10
_CATEGORIES, _FILES = "14", "6"
"""Numbers of namespaces."""
_DATED = r".+?-(?:\d{8}|latest)"
_DUMP_NAME = re.compile(rf"({_DATED})-pages-")
_TABLE_NAME = re.compile(rf"{_DATED}-(?:\w+\.sql|[\w-]+-multistream-index\d*\.txt)(?:[.-]\w+)*")
_ITEM = re.compile(rb"\((\d{1,9}),'wikibase_item','Q(\d{1,9})',")
_NO_ITEMS = "no page_props.sql.gz of the same dump lies beside it, so that its articles have no concept"
_REDIRECT = re.compile(r"\s*#[^\s#:\[\]]{3,}\s*:?\s*\[\[")
"""How the text of a redirect begins; its word is of the wiki's language."""
_LEFT_OUT = "redirects and pages that are no articles were left out"
_PAGE_VALUES = {
    f"page/{name}" for name in ("title", "ns", "id", "redirect", "revision/id", "revision/model", "revision/text")
}
_DEEPEST = 100
"""Maximum depth of elements; a dump's is 5."""


@dataclass
class _Site:
    """What a dump says of its wiki before the first page."""

    lang: str = ""  # the language as the dump writes it
    name: str = "wiki"
    namespaces: dict[str, str] = field(default_factory=dict)  # local names of namespaces by number


class _Items:
    """The Wikidata items of a wiki's pages; 8 bytes a page."""

    def __init__(self, table: Path) -> None:
        """Read the table ``page_props``, packed or not. Raises UnreadableFileError: it can't be read to its end."""
        pages, items = array("I"), array("I")
        try:
            for line in SourceFile(table, table.name).lines():
                for match in _ITEM.finditer(line):
                    pages.append(int(match[1]))
                    items.append(int(match[2]))
        except UnreadableFileError as error:
            raise UnreadableFileError(f"its table {table.name} can't be read: {error}") from error
        order = np.argsort(np.asarray(pages), kind="stable")
        self._pages, self._items = np.asarray(pages)[order], np.asarray(items)[order]

    def concept(self, page: str) -> str | None:
        """The item of a page, such as ``Q64``; none if it has none."""
        if not page.isdigit():
            return None
        row = int(np.searchsorted(self._pages, int(page)))
        return f"Q{self._items[row]}" if row < len(self._pages) and self._pages[row] == int(page) else None


def is_table(path: Path) -> bool:
    """Whether a file is a table of a dump or the index of its archive, by its name."""
    return _TABLE_NAME.fullmatch(path.name) is not None


def items_table(path: Path) -> Path | None:
    """The table ``page_props`` of the dump that a file is of, if it lies beside the file."""
    match = _DUMP_NAME.match(path.name)
    names = [f"{match[1]}-page_props.sql{suffix}" for suffix in (".gz", "")] if match else []
    return next((table for name in names if (table := path.with_name(name)).is_file()), None)


def read_mediawiki(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Documents of a dump's articles with the fields ``category`` and, where the item is known, ``concept``.

    The id is the wiki's name and the page's number, the revision the page's. Memory holds a page and the items: 8 bytes
    a page of the wiki. A wiki whose language has no known code takes the options' language. Raises UnreadableFileError:
    the XML is broken or has a DTD, there is no page, a page exceeds ``RECORD_LIMIT``, the language is unknown, or the
    items can't be read.
    """
    table = items_table(file.path)
    items = _items(table, table.stat().st_mtime_ns) if table else None
    pages, left_out = _Pages(options.lang), False
    for page in pages.of(file):
        if record := _record(page, pages.site, items):
            yield make_document(record, f"{file.shown}: page {record['id']}", options)
        else:
            left_out = True
    if items is None:
        yield Remark(file.shown, _NO_ITEMS)
    if left_out:
        yield Remark(file.shown, _LEFT_OUT)


@lru_cache(maxsize=1)
def _items(table: Path, changed_ns: int) -> _Items:  # noqa: ARG001 - the time tells whether the table is still the same
    """A dump in many files has one table."""
    return _Items(table)


class _Pages:
    """The pages of a dump by a parser that builds no tree; memory holds the pages that end in a block of bytes."""

    def __init__(self, default_lang: str) -> None:
        self.site = _Site()  # known before the first page
        self._default_lang = default_lang
        self._names: list[str] = []
        self._key = ""
        self._text: list[str] = []
        self._page: dict[str, str] = {}
        self._complete: list[dict[str, str]] = []

    def of(self, file: SourceFile) -> Iterator[Mapping[str, str]]:
        """The values of each page by their paths in the XML; of several revisions the last."""
        parser = ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = self._text.append, _refuse_dtd
        read = start = 0
        with file.open() as stream:
            while True:
                data = stream.read1(_CHUNK)  # read() would lose what comes before the place where an archive breaks
                read += len(data)
                problem = ""
                try:
                    parser.Parse(data, not data)
                    file.line = parser.CurrentLineNumber
                except ExpatError as error:
                    problem, file.line = "its XML is broken here; get it again", error.lineno
                except (LookupError, ValueError):
                    problem = "its encoding can't be read; convert it to UTF-8"
                if self._complete:
                    start = read
                    yield from self._complete
                    self._complete.clear()
                if read - start > RECORD_LIMIT:
                    problem = f"a page has more than {RECORD_LIMIT >> 20} MB; cut it out, for the dump is not read on"
                if problem:
                    raise UnreadableFileError(problem)
                if not data:
                    break
        if not start:
            file.line = 0
            raise UnreadableFileError("it has no page; get a dump of articles (…-pages-articles.xml.bz2)")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._text.clear()
        if not self._names:
            self.site.lang = self._known(attributes.get("http://www.w3.org/XML/1998/namespace}lang", ""))
        self._names.append(name.rpartition("}")[2])  # the namespace is that of the dump's version
        if len(self._names) > _DEEPEST:
            raise UnreadableFileError("its XML is nested deeper than a dump's; get it again")
        self._key = attributes.get("key", "")

    def _end(self, _: str) -> None:
        path = "/".join(self._names[1:])
        if path in _PAGE_VALUES:
            self._page[path] = "".join(self._text)
        elif path == "page":
            self._complete.append(self._page)
            self._page = {}
        elif path == "siteinfo/dbname":
            self.site.name = "".join(self._text) or self.site.name
        elif path == "siteinfo/namespaces/namespace":
            self.site.namespaces[self._key] = "".join(self._text)
        self._names.pop()
        self._text.clear()

    def _known(self, lang: str) -> str:
        """The language of the wiki, or the default if its code is unknown."""
        try:
            return normalise(lang)
        except BadInput as error:
            if self._default_lang:
                return self._default_lang
            raise UnreadableFileError(
                f"its language {lang!r} is no known code; say the language with --lang"
            ) from error


def _refuse_dtd(*_: object) -> None:
    raise UnreadableFileError("its XML has a DTD, which dumps do not have")


def _record(page: Mapping[str, str], site: _Site, items: _Items | None) -> dict[str, Any] | None:
    """The values of an article; none if the page is a redirect, of another namespace, or no wikitext."""
    if page.get("page/ns", "0") != "0" or "page/redirect" in page:
        return None
    markup = page.get("page/revision/text", "")
    if page.get("page/revision/model", "wikitext") != "wikitext" or _REDIRECT.match(markup):
        return None
    number = page.get("page/id", "")
    names = [[site.namespaces[key]] if site.namespaces.get(key) else [] for key in (_CATEGORIES, _FILES)]
    text, categories = plain_text(markup, *names)
    return {
        "id": f"{site.name}:{number}",
        "lang": site.lang,
        "title": page.get("page/title", ""),
        "text": text,
        "revision": page.get("page/revision/id") or 0,
        "category": categories or None,
        "concept": items.concept(number) if items else None,
    }
