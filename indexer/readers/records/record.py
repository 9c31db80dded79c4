"""Make a document of a record's values, or a refusal with the reason; the rules are the same for every format."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalise
from indexer.readers.records.source import EMPTY_DOCUMENT, ReadOptions, Refusal, Remark

ID_LIMIT = 512
"""Maximum bytes of an id; the limit is Elasticsearch's."""

TEXT_LIMIT = 10_000_000
"""Maximum characters of title and text, about five thousand pages: encoding them takes more than five minutes on two
cores, and the mean of so much text says little of any part."""

FIELDS_LIMIT = 1_000_000
"""Maximum size of the other fields, in characters of JSON: all documents of a chunk are in memory at once."""
_VALUE = 10
"""Characters that a value counts in addition to a string's own; in memory it takes more."""

_MAX_DEPTH = 20
_REVISION_LIMIT = 2**63
_WHOLE_NUMBERS = range(-(2**63), 2**64)
"""Whole numbers that every store keeps."""
_DOCUMENT_FIELDS = ("id", "lang", "title", "text", "revision")
_ID_NAMES = ("id", "_id", "docid", "doc_id", "docno")
"""Names of fields that hold the id, the likeliest first."""
_NAME_LENGTH = 40
"""Maximum characters of a name that may be another spelling of a field's."""
_NAMES = 10
"""Names of fields that a refusal shows."""
_SEPARATORS = {"title": " ", "text": "\n\n"}
"""What stands between the joined strings of an array."""
_WHOLE_FLOATS = 2.0**53
"""Bound of the floats that are exact whole numbers."""
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff]")
_LINE_BREAKS = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_NEVER_TEXT = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_SEEN = re.compile("[^\\s\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufe0e\ufe0f]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""What ``clean`` changes."""
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass
class RecordNotes:
    """What has to be said about a file's records once they are read."""

    missing: int = 0  # number of values such as NaN
    made_ids: bool = False  # whether a record has no id
    id_name: str = ""  # the field that holds ids and is not named ``id``

    def take_id_name(self, known: Mapping[str, str]) -> None:
        """Note which of the ``known_names`` is an id's and no mere spelling of it."""
        self.id_name = next((name for name in known if known[name] == "id" and name.casefold() != "id"), self.id_name)

    def remarks(self, place: str, form: str) -> Iterator[Remark]:
        """Yield a remark for each; ``form`` is the form of the ids that records without an id get."""
        if self.missing:
            yield Remark(place, f"NaN, Infinity, None and the like are read as missing values: {self.missing:,}")
        if self.id_name:
            yield Remark(place, f"the field {self.id_name!r} holds the ids; if another does, say --field id=NAME")
        if self.made_ids:
            yield Remark(
                place,
                f"records without an id have {form} as their id, which changes if records are inserted before them; "
                "if a field holds the id, say --field id=NAME",
            )


class _RefusedError(Exception):
    """The reason why a record gives no document."""


def make_document(record: Mapping[str, Any], place: str, options: ReadOptions) -> Document | Refusal:
    """Make a document of a record's values, which have the source's field names."""
    doc_id = ""
    try:
        doc_id = _doc_id(record, options)
        title, text = _content(record, options)
        lang = _language(_string(record, "lang", options), options)
        fields, revision = _other_fields(record, options), _revision(record, options)
        return Document(doc_id, lang, text, title, fields, revision, place)
    except _RefusedError as refused:
        return Refusal(place, str(refused), doc_id)


def known_names(names: Sequence[str], options: ReadOptions) -> dict[str, str]:
    """The names of a source that mean a document's field in another spelling, each with the name that is read.

    Spellings differ in case and blanks; ``docid`` and its like are spellings of ``id``.
    """
    known: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for field in _DOCUMENT_FIELDS:
        name = options.fields.get(field, field)
        if name in names:
            continue
        spelt = spelt or {visible(other).casefold(): other for other in reversed(names) if len(other) <= _NAME_LENGTH}
        spellings = _ID_NAMES if name == "id" else (visible(name).casefold(),)
        spelling = next((spelt[spelling] for spelling in spellings if spelling in spelt), None)
        if spelling is not None and spelling not in options.fields.values():
            known[spelling] = name
    return known


def visible(name: str) -> str:
    """A name without what nobody sees: blanks around it, and characters without width."""
    return " ".join(_INVISIBLE.sub("", name).split())


def clean(text: str) -> str:
    r"""Turn all line breaks into ``\n``, remove control characters, and replace lone surrogates by U+FFFD."""
    if not _ODD.search(text):  # one search takes a third of three
        return text
    text = _NEVER_TEXT.sub("", _LINE_BREAKS.sub("\n", text))
    return _SURROGATES.sub("\ufffd", text)


def clean_line(text: str) -> str:
    """The cleaned text on one line, with single blanks between its words."""
    return " ".join(clean(text).split())


def _label(field: str, options: ReadOptions) -> str:
    source_name = options.fields.get(field, field)
    return field if field == source_name else f"{field} ({source_name!r})"


def _doc_id(record: Mapping[str, Any], options: ReadOptions) -> str:
    value = record.get(options.fields.get("id", "id"))
    if value is None:
        raise _RefusedError(f"it has no {_label('id', options)}; say which field holds it with --field id=NAME")
    value = _whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise _RefusedError(f"its {_label('id', options)} is {_kind(value)}; an id is a string or a whole number")
    value = value.strip()
    if not value:
        raise _RefusedError(f"its {_label('id', options)} is empty")
    if _CONTROLS.search(value):
        raise _RefusedError(f"its {_label('id', options)} holds control characters or half a character; take them out")
    if len(value.encode()) > ID_LIMIT:
        raise _RefusedError(f"its {_label('id', options)} has {len(value.encode())} bytes; {ID_LIMIT} are the most")
    return value


def _string(record: Mapping[str, Any], field: str, options: ReadOptions) -> str | None:
    value = record.get(options.fields.get(field, field))
    if isinstance(value, list) and (field in _SEPARATORS or len(value) == 1):
        parts = [part for part in value if part is not None]
        odd = next((part for part in parts if not isinstance(part, str)), None)
        value = _SEPARATORS.get(field, "").join(parts) if odd is None else odd
    if value is None:
        return None
    if not isinstance(value, str):
        raise _RefusedError(f"its {_label(field, options)} is {_kind(value)}, not a string")
    if "\0" in value:
        raise _RefusedError(
            f"its {_label(field, options)} holds NUL characters: it is binary, or its encoding is another"
        )
    return value


def _content(record: Mapping[str, Any], options: ReadOptions) -> tuple[str, str]:
    title = clean_line(_string(record, "title", options) or "")
    text = _string(record, "text", options)
    if text is None:
        names = [clean_line(str(name))[:_NAME_LENGTH] for name, value in record.items() if name != "id" and value]
        there = f" (there are {', '.join(names[:_NAMES])})" if names else ""
        raise _RefusedError(
            f"it has no {_label('text', options)}; say which field holds it with --field text=NAME{there}"
        )
    text = clean(text).strip()
    if not _SEEN.search(title + text):
        raise _RefusedError(EMPTY_DOCUMENT)
    if (characters := len(title) + len(text)) > TEXT_LIMIT:
        raise _RefusedError(
            f"it has {characters:,} characters and {TEXT_LIMIT:,} are the most; split it, say by chapters, into "
            "documents with ids of their own"
        )
    return title, text


def _language(code: str | None, options: ReadOptions) -> str:
    try:
        lang = normalise(code or "")
        return normalise(options.lang) if lang == UNDETERMINED else lang
    except BadInput as error:
        raise _RefusedError(str(error)) from error


def _revision(record: Mapping[str, Any], options: ReadOptions) -> int:
    value = record.get(options.fields.get("revision", "revision"))
    value = 0 if value is None else _whole(value)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:30])
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _REVISION_LIMIT:
        raise _RefusedError(f"its {_label('revision', options)} is {str(value)[:40]!r}; it is a whole number from 0")
    return value


def _other_fields(record: Mapping[str, Any], options: ReadOptions) -> dict[str, Any]:
    document_names = {options.fields.get(field, field) for field in _DOCUMENT_FIELDS}
    our_names = {source_name: field for field, source_name in options.fields.items() if field not in _DOCUMENT_FIELDS}
    fields = {
        our_names.get(name, name): value
        for name, value in record.items()
        if name not in document_names and value is not None
    }
    if not fields:
        return fields
    _check_size(fields)
    return {clean(name): _clean_value(value) for name, value in fields.items()}


def _check_size(fields: Mapping[str, Any]) -> None:
    size = 0
    values: list[Any] = [fields]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            size += sum(map(len, value))
            value = list(value.values())
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, list):
            size += _VALUE * len(value)
        if size > FIELDS_LIMIT:
            raise _RefusedError(
                f"its fields besides title and text have more than {FIELDS_LIMIT:,} characters; leave out what no "
                "filter and no reader needs"
            )
        if isinstance(value, list):
            values += value


def _clean_value(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise _RefusedError(f"a field of it is nested more than {_MAX_DEPTH} levels deep; make it flatter")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean_value(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean(key): _clean_value(item, depth + 1) for key, item in value.items()}
    if (isinstance(value, float) and not math.isfinite(value)) or (
        isinstance(value, int) and value not in _WHOLE_NUMBERS
    ):
        raise _RefusedError("a field of it is a number too large to keep; write it as a string")
    return value


def _whole(value: Any) -> Any:
    """A float without a fraction as the whole number that it was, since tables with gaps keep numbers as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_FLOATS else value


def _kind(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), "nothing" if value is None else "a string")
