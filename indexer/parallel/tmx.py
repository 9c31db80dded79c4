"""TMX, the exchange format of translation memories."""

import io
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from indexer.parallel.aligned_sentence import AlignedSentence, row
from indexer.parallel.aligned_tables import language
from indexer.readers.records.files import RECORD_LIMIT, SourceFile, UnreadableFileError
from indexer.readers.records.source import Refusal

_CODES = {"bpt", "ept", "ph", "it", "ut"}
"""Elements inside a segment whose content is another format's markup."""
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(file: SourceFile) -> Iterator[AlignedSentence | Refusal]:
    """Read the translation units, each with its first segment per language."""
    number = 0
    with file.open() as stream:
        units = _UnitStream(stream)
        body: ET.Element | None = None
        try:
            for event, element in ET.iterparse(units, ["start", "end"]):  # noqa: S314 - expat bounds what entities may grow to
                if event == "start":
                    body = element if _name(element) == "body" else body
                elif _name(element) == "tu":
                    number += 1
                    units.since_unit = 0
                    yield row(f"{file.shown}: unit {element.get('tuid') or number}", _texts(element))
                    (element if body is None else body).clear()
        except (ET.ParseError, RecursionError) as error:
            yield Refusal(file.shown, f"it is not valid XML ({error}); what came before is kept")


class _UnitStream:
    """A file's bytes, with a bound on those of one unit, which the parser holds in memory."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self.since_unit = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.since_unit += len(data)
        if self.since_unit > RECORD_LIMIT:
            raise UnreadableFileError(f"a unit has more than {RECORD_LIMIT >> 20} MB; split it")
        return data


def _texts(unit: ET.Element) -> dict[str, str]:
    texts: dict[str, str] = {}
    for variant in unit:
        lang = language(variant.get(_XML_LANG) or variant.get("lang") or "")
        segment = next((child for child in variant if _name(child) == "seg"), None)
        if lang and segment is not None:
            texts.setdefault(lang, _text(segment))
    return texts


def _text(element: ET.Element) -> str:
    inside = element.text or ""
    for child in element:
        inside += ("" if _name(child) in _CODES else _text(child)) + (child.tail or "")
    return inside


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
