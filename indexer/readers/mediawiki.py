"""Dumps of Wikipedia and other wikis by MediaWiki: ``…-pages-articles.xml``, with the Wikidata item as the concept.

``dewiki-20260101-page_props.sql.gz`` beside the articles has the item of each page: Wikipedia's language links have
been Wikidata's items since 2013. Pages of one item in several languages get the same concept, as in the HMDE paper
(§3.1).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import numpy as np

from indexer.readers.files import RECORD_LIMIT, SourceFile, UnreadableFileError
from indexer.readers.record import make_document
from indexer.readers.source import Reading, ReadOptions, Remark
from indexer.readers.wikitext import plain_text

_CHUNK = 64 << 10
_CATEGORIES, _FILES = "14", "6"
"""Numbers of namespaces."""
_DUMP_NAME = re.compile(r"(.+?-\d{8})-pages-")
_TABLE_NAME = re.compile(r".+-\d{8}-\w+\.sql(\.\w+)?")
_ITEM = re.compile(rb"\((\d{1,9}),'wikibase_item','Q(\d{1,9})',")
_NO_ITEMS = "no page_props.sql.gz of the same dump lies beside it, so that its articles have no concept"
_LEFT_OUT = "redirects and pages that are no articles were left out"


@dataclass
class _Site:
    """What a dump says of its wiki before the first page.

    Attributes:
        namespaces: local names of namespaces by number.
    """

    lang: str = ""
    name: str = "wiki"
    namespaces: dict[str, str] = field(default_factory=dict)


class _Items:
    """The Wikidata items of a wiki's pages; 8 bytes a page."""

    def __init__(self, table: Path) -> None:
        """Read the table ``page_props``, packed or not.

        Raises:
            UnreadableFileError: the table can't be read to its end.
        """
        pages, items = array("I"), array("I")
        file = SourceFile(table, table.name)
        try:
            for line in file.lines():
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
    """Whether a file is a table of a dump, by its name."""
    return _TABLE_NAME.fullmatch(path.name) is not None


def items_table(path: Path) -> Path | None:
    """The table ``page_props`` of the dump that a file is of, if it lies beside the file."""
    match = _DUMP_NAME.match(path.name)
    names = [f"{match[1]}-page_props.sql{suffix}" for suffix in (".gz", "")] if match else []
    return next((table for name in names if (table := path.with_name(name)).is_file()), None)


def read_mediawiki(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Documents of a dump's articles with the fields ``category`` and, where the item is known, ``concept``.

    A document's id is the wiki's name and the page's number, its revision that of the page. Memory holds a page and
    the items: 8 bytes a page of the wiki.

    Raises:
        UnreadableFileError: the XML is broken, a page is longer than ``RECORD_LIMIT``, or the items can't be read.
    """
    table = items_table(file.path)
    items = _items(table, table.stat().st_mtime_ns) if table else None
    site, left_out = _Site(), False
    for page in _pages(file, site):
        record = _record(page, site, items)
        if record is None:
            left_out = True
            continue
        yield make_document(record, f"{file.shown}: page {record['id']}", options)
    if items is None:
        yield Remark(file.shown, _NO_ITEMS)
    if left_out:
        yield Remark(file.shown, _LEFT_OUT)


@lru_cache(maxsize=1)
def _items(table: Path, changed_ns: int) -> _Items:  # noqa: ARG001 - the time tells whether the table is still the same
    """A dump in many files has one table."""
    return _Items(table)


def _pages(file: SourceFile, site: _Site) -> Iterator[Element]:
    """The ``page`` elements, each removed when the next is asked for; fills ``site`` before the first."""
    root: Element | None = None
    start = 0
    for read, event, element in _elements(file):
        if root is None:
            root = element
            site.lang = element.get("{http://www.w3.org/XML/1998/namespace}lang", "")
        if read - start > RECORD_LIMIT:
            raise UnreadableFileError(f"a page of it has more than {RECORD_LIMIT >> 20} MB")
        name = _name(element) if event == "end" else ""
        if name == "dbname":
            site.name = element.text or site.name
        elif name == "namespace":
            site.namespaces[element.get("key", "")] = element.text or ""
        elif name == "page":
            start = read
            yield element
            root.clear()


def _elements(file: SourceFile) -> Iterator[tuple[int, str, Element]]:
    """Bytes read so far, ``start`` or ``end``, and the element; after each block of bytes at least the root again."""
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    read = 0
    root: Element | None = None
    with file.open() as stream:
        while True:
            data = stream.read(_CHUNK)
            read += len(data)
            try:
                if data:
                    parser.feed(data)
                else:
                    parser.close()
                for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                    root = root if root is not None else element
                    yield read, event, element
            except ParseError as error:
                file.line = error.position[0]
                raise UnreadableFileError("its XML is broken here; get it again") from error
            if not data:
                return
            if root is not None:
                yield read, "start", root


def _record(page: Element, site: _Site, items: _Items | None) -> dict[str, Any] | None:
    """The values of an article; none if the page is a redirect or of another namespace."""
    children = {_name(child): child for child in page}  # of several revisions the last
    if (children["ns"].text if "ns" in children else "0") != "0" or "redirect" in children:
        return None
    number = _text(children, "id")
    revision = {_name(child): child for child in children.get("revision", ())}
    names = [[site.namespaces[key]] if site.namespaces.get(key) else [] for key in (_CATEGORIES, _FILES)]
    text, categories = plain_text(_text(revision, "text"), *names)
    return {
        "id": f"{site.name}:{number}",
        "lang": site.lang,
        "title": _text(children, "title"),
        "text": text,
        "revision": _text(revision, "id") or 0,
        "category": categories or None,
        "concept": items.concept(number) if items else None,
    }


def _text(elements: dict[str, Element], name: str) -> str:
    return (elements[name].text or "") if name in elements else ""


def _name(element: Element) -> str:
    """An element's name without the namespace of the dump's version."""
    return element.tag.rpartition("}")[2]
