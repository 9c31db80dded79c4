"""Make a document of a record's values, or a refusal with the reason; the rules are the same for every format."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalise
from indexer.readers.records.source import EMPTY_DOCUMENT, ReadOptions, Refusal

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
_LINE_BREAKS = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_NEVER_TEXT = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_SEEN = re.compile("[^\\s\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufe0e\ufe0f]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


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


def lacks_id(record: Mapping[str, Any], options: ReadOptions) -> bool:
    """Whether a record has no id and the user has named no field that holds it."""
    return "id" not in options.fields and record.get("id") is None


def id_remark(form: str) -> str:
    """The sentence for a remark on a file whose records lack ids; ``form`` is the form of the ids that they get."""
    return (
        f"records without an id have {form} as their id, which changes if records are inserted before them; if a "
        "field holds the id, say --field id=NAME"
    )


def clean(text: str) -> str:
    r"""Turn all line breaks into ``\n``, remove control characters, and replace lone surrogates by U+FFFD."""
    text = _NEVER_TEXT.sub("", _LINE_BREAKS.sub("\n", text))
    return _SURROGATES.sub("\ufffd", text)


def clean_line(text: str) -> str:
    """The cleaned text on one line, with single blanks between its words."""
    return " ".join(clean(text).split())


def _label(field: str, options: ReadOptions) -> str:
    """Our name of a field, and the source's name where it differs."""
    source_name = options.fields.get(field, field)
    return field if field == source_name else f"{field} ({source_name!r})"


def _doc_id(record: Mapping[str, Any], options: ReadOptions) -> str:
    value = record.get(options.fields.get("id", "id"))
    if value is None:
        raise _RefusedError(f"it has no {_label('id', options)}; say which field holds it with --field id=NAME")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise _RefusedError(f"its {_label('id', options)} is {_kind(value)}; an id is a string or a whole number")
    value = value.strip()
    if not value:
        raise _RefusedError(f"its {_label('id', options)} is empty")
    if _CONTROLS.search(value):
        raise _RefusedError(f"its {_label('id', options)} holds control characters or half a character")
    if len(value.encode()) > ID_LIMIT:
        raise _RefusedError(f"its {_label('id', options)} has {len(value.encode())} bytes; {ID_LIMIT} are the most")
    return value


def _string(record: Mapping[str, Any], field: str, options: ReadOptions) -> str | None:
    value = record.get(options.fields.get(field, field))
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
        raise _RefusedError(f"it has no {_label('text', options)}; say which field holds it with --field text=NAME")
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
    value = record.get(options.fields.get("revision", "revision"), 0)
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
    _check_size(fields)
    return {clean(name): _clean_value(value) for name, value in fields.items()}


def _check_size(fields: Mapping[str, Any]) -> None:
    """Refuse fields that are too large, before they are copied."""
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


def _kind(value: Any) -> str:
    """JSON's name of a value's type."""
    names = {bool: "true or false", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), "nothing" if value is None else "a string")
