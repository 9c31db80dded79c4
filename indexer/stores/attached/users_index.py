"""An index made by somebody else: its mapping, and its documents as ours. Nothing here writes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from indexer.elastic import connection, errors
from indexer.elastic.ours import is_ours
from indexer.elastic.paging import pages
from indexer.elastic.readable import refuse_partial
from indexer.elastic.values import joined, steps, values, without
from indexer.readers.record import make_document
from indexer.readers.source import ReadOptions, Refusal
from indexer.stores.attached.address import Attachment
from indexer.text.language_detection import Detector

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_TEXTS = frozenset(
    {"text", "match_only_text", "keyword", "wildcard", "constant_keyword", "search_as_you_type", "annotated_text"}
)
_ANALYSED = frozenset({"text", "match_only_text", "search_as_you_type", "annotated_text"})
_UNFILTERED = frozenset({"object", "nested", "dense_vector", "binary", "alias"})


class UsersIndex:
    """Somebody else's index, as it is now.

    Attributes:
        attachment: where it is and which of its fields are read.
        name: its own name, where the attachment names an alias.
        names: that and its aliases.
        uuid: its id: another one is another index, whatever its name.
        settings: of the index.
        mapping: of the index.
    """

    def __init__(self, client: Elasticsearch, attachment: Attachment, name: str, found: Mapping[str, Any]) -> None:
        """Use ``UsersIndex.open``."""
        self.attachment = attachment
        self.name = name
        self.names = frozenset({name, *found["aliases"]})
        self.settings: Mapping[str, Any] = found["settings"]["index"]
        self.mapping: Mapping[str, Any] = found["mappings"]
        self.uuid: str = self.settings["uuid"]
        self._client = client

    @classmethod
    def open(cls, client: Elasticsearch, attachment: Attachment) -> Self:
        """Ask the server what it is.

        Raises:
            BadInput: it is no index, or more than one, or its text field is not there or can't be read.
        """
        from elasticsearch import NotFoundError  # noqa: PLC0415

        try:
            with connection.guarded(attachment.server):
                answer = client.indices.get(index=attachment.index, features=["aliases", "mappings", "settings"]).body
        except NotFoundError as error:
            raise errors.NoIndex(
                f"{attachment.server} has no index {attachment.index}; name one as _cat/indices lists it"
            ) from error
        name, found = only_index(attachment.index, answer)
        opened = cls(client, attachment, name, found)
        _ = opened.paths
        return opened

    def by(self, client: Elasticsearch) -> Self:
        """The same index, asked by another client."""
        other = copy.copy(self)
        other._client = client  # noqa: SLF001 - a copy of this one
        return other

    @property
    def properties(self) -> Mapping[str, Any]:
        """Its fields."""
        properties: Mapping[str, Any] = self.mapping.get("properties", {})
        return properties

    @cached_property
    def paths(self) -> dict[str, str]:
        """Where title, text and language stand in a source: a field of a field is read where its parent is.

        Raises:
            BadInput: one of them is no field, holds no text, or lies in nested objects.
        """
        given = {
            "text": self.attachment.text,
            "title": self.attachment.title,
            "lang": self.attachment.lang_field,
        }
        return {ours: self._path(theirs) for ours, theirs in given.items() if theirs}

    def _path(self, field: str) -> str:
        found = _find(self.properties, field)
        if found is None:
            texts = ", ".join(sorted(_text_fields(self.properties))) or "none"
            raise BadInput(f"{self.name} has no field {field!r}; its fields of text are: {texts}")
        path, mapped = found
        if mapped.get("type") == "nested":
            raise BadInput(
                f"{field!r} of {self.name} lies in nested objects, which are documents of their own; "
                "copy the text into a field of the document and name that"
            )
        if mapped.get("type") not in _TEXTS:
            raise BadInput(
                f"{field!r} of {self.name} is {mapped.get('type', 'an object')}, not text; name another field"
            )
        return path

    def filter_field(self, name: str) -> str:
        """The field that a filter by one of theirs compares with: its keyword where it is text.

        Raises:
            BadInput: there is none.
        """
        found = _find(self.properties, name)
        if found is None:
            raise BadInput(f"{self.name} has no field {name!r} to filter by")
        path, mapped = found
        if mapped.get("type", "object") in _UNFILTERED:
            raise BadInput(f"{name!r} of {self.name} can't be filtered by; name a field of keywords, numbers or dates")
        if mapped["type"] not in _ANALYSED or path != name:
            return name
        keyword = next((sub for sub, one in mapped.get("fields", {}).items() if one["type"] == "keyword"), None)
        if keyword is None:
            raise BadInput(f"{name!r} of {self.name} is text without a keyword beside it, and can't be filtered by")
        return f"{name}.{keyword}"

    @cached_property
    def ours(self) -> list[str]:
        """Objects in it that hold what we put, by whatever name: no part of the documents."""
        return [name for name, mapped in self.properties.items() if is_ours(mapped)]

    def document(self, doc_id: str, source: Mapping[str, Any], *, assumed: str = "") -> Document | Refusal:
        """A document of theirs as ours, or why it is none.

        Args:
            doc_id: its id.
            source: of it, or what is read of it.
            assumed: its language where it states none; detected unless given.
        """
        read = {ours: values(source, path) for ours, path in self.paths.items()}
        record = {
            "id": "-",
            "title": joined(read.get("title", []), " "),
            "text": joined(read["text"], "\n\n") or "",
            "lang": next(iter(read.get("lang", [])), None),
        }
        if len(read.get("lang", [])) > 1:
            return Refusal(
                doc_id, f"its {self.paths['lang']!r} names {len(read['lang'])} languages; it takes one", doc_id
            )
        made = make_document(record, doc_id, ReadOptions(lang=self.attachment.lang))
        if isinstance(made, Refusal):
            return Refusal(doc_id, made.reason, doc_id)
        lang = made.lang
        if lang == UNDETERMINED:
            lang = assumed or self._detector.detect(made.content).lang
        return replace(made, doc_id=doc_id, lang=lang, fields=without(source, [*self.paths.values(), *self.ours]))

    @cached_property
    def _detector(self) -> Detector:
        return Detector(None)

    def shown(self, doc_id: str, source: Mapping[str, Any], lang: str) -> Document:
        """A document of theirs for a reader, though its text be gone since it was encoded."""
        made = self.document(doc_id, source, assumed=lang)
        if isinstance(made, Document):
            return made
        return Document(doc_id, lang, "", "", without(source, [*self.paths.values(), *self.ours]))

    def sources(self, doc_ids: Sequence[str], *, excludes: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Sources as they are now, refreshed or not; ids that are not there are left out."""
        return {
            one["_id"]: one.get("_source", {}) for one in self._mget(doc_ids, source_excludes=list(excludes) or None)
        }

    def missing(self, doc_ids: Iterable[str]) -> set[str]:
        """Those of some ids that it has no document of."""
        asked = list(doc_ids)
        return set(asked) - {one["_id"] for one in self._mget(asked, source=False)}

    def _mget(self, doc_ids: Sequence[str], **how: Any) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for page in pages(doc_ids):
            with connection.guarded(self.attachment.server):
                answer = self._client.mget(index=self.name, ids=page, **how)
            found += connection.found(self.attachment.server, self.name, answer["docs"])
        return found


def only_index(asked: str, answer: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The index that a name stands for, of what the server answers to it.

    Raises:
        BadInput: it stands for a data stream, for several indices, or for a part of one.
    """
    if stream := next((one["data_stream"] for one in answer.values() if "data_stream" in one), None):
        raise BadInput(
            f"{asked} belongs to the data stream {stream}, whose documents can't be changed in place; "
            f"index it into a collection of its own: dragoman index elastic:{stream} -c NAME"
        )
    if len(answer) != 1:
        raise BadInput(
            f"{asked} stands for {len(answer)} indices ({', '.join(sorted(answer)[:3])} …); "
            "attach each of them by its own name"
        )
    ((name, found),) = answer.items()
    refuse_partial(asked, found.get("aliases", {}))
    return name, found


def _find(properties: Mapping[str, Any], path: str) -> tuple[str, Mapping[str, Any]] | None:
    """A field by its path: where it stands in a source, and how it is mapped."""
    found = _walk(properties, path)
    if found and found[1].get("type") == "alias":
        return _walk(properties, found[1]["path"])
    return found


def _walk(properties: Mapping[str, Any], path: str) -> tuple[str, Mapping[str, Any]] | None:
    for name, rest in steps(properties, path):
        mapped = properties[name]
        if not rest or mapped.get("type") == "nested" or rest in mapped.get("fields", {}):
            return name, mapped
        below = _walk(mapped.get("properties", {}), rest)
        if below:
            return f"{name}.{below[0]}", below[1]
    return None


def _text_fields(properties: Mapping[str, Any], above: str = "") -> list[str]:
    names = []
    for name, mapped in properties.items():
        if mapped.get("type") in _ANALYSED:
            names.append(f"{above}{name}")
        elif mapped.get("type", "object") == "object" and not is_ours(mapped):
            names += _text_fields(mapped.get("properties", {}), f"{above}{name}.")
    return names
