"""What a document looks like on the server: its own fields, and everything of ours in one object beside them.

::

    title, text, lang, fields    the document; ``fields`` are the user's own, compared as text (``flattened``)
    dragoman.id                  keyword: the server sorts by no ``_id``
    dragoman.lang                keyword
    dragoman.revision            long
    dragoman.text_hash           keyword
    dragoman.fields_hash         keyword
    dragoman.words.LANG          the terms that ``indexer.text.terms`` makes, one field a language, so that a word's
                                 rarity is a matter of its language and no analyser has to be installed
    dragoman.models.MODEL        vector (raw unit vector), passages and offsets (bytes), known (bytes)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pybase64

from encoders.document import Document, FloatArray, Passages
from indexer.elastic.ours import FIELDS, is_ours
from indexer.stores.contract import Filters, Stamp, StoredDocument
from indexer.text.terms import analyser

_FLATTENED = 7000
"""Longest value of a user's field that can be filtered by, in characters: the server refuses terms of 32,766 bytes."""


@dataclass(frozen=True)
class VectorField:
    """The field of a model's vectors.

    Attributes:
        dim: width of the vectors.
        kind: type of their index.
    """

    dim: int
    kind: str


@dataclass(frozen=True)
class Layout:
    """Names of the fields.

    Attributes:
        ours: the object field that holds everything of ours.
        also: clauses of the server's own language that every document must pass, too.
    """

    ours: str = "dragoman"
    also: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)

    def name(self, *path: str) -> str:
        """A field of ours."""
        return ".".join((self.ours, *path))

    def vector(self, model: str) -> str:
        """The field of a model's vectors."""
        return self.name("models", model, "vector")

    def passages(self, model: str) -> tuple[str, str]:
        """The fields of a model's passages: vectors and offsets."""
        return self.name("models", model, "passages"), self.name("models", model, "offsets")

    def known(self, model: str) -> str:
        """The field that says which parts of a model know the text; it is there where its vector was put."""
        return self.name("models", model, "known")

    def words(self, lang: str) -> str:
        """The field of the index terms of a language."""
        return self.name("words", lang)

    def mapping(self) -> dict[str, Any]:
        """The mapping of an index of our own, without a model yet."""
        text = {"type": "text", "index": False}  # found by their words below
        return {
            "dynamic": False,
            "properties": {
                "title": text,
                "text": text,
                "lang": {"type": "keyword"},
                "fields": {"type": "flattened", "ignore_above": _FLATTENED},
                **self.properties({}),
            },
        }

    def properties(self, inner: Mapping[str, Any]) -> dict[str, Any]:
        """Our object field, with ``models`` and ``words`` in it as given."""
        ours = {**FIELDS, **{name: {"properties": made} for name, made in inner.items()}}
        return {self.ours: {"dynamic": False, "properties": ours}}

    def model_properties(self, model: str, dim: int, vectors: str) -> dict[str, Any]:
        """What makes room for a model: the type of its index is stated, since servers' defaults differ."""
        fields = {
            "vector": {
                "type": "dense_vector",
                "dims": dim,
                "index": True,
                "similarity": "dot_product",
                "index_options": {"type": vectors},
            },
            "passages": {"type": "binary", "doc_values": True},
            "offsets": {"type": "binary", "doc_values": True},
            "known": {"type": "binary", "doc_values": True},
        }
        return self.properties({"models": {model: {"properties": fields}}})

    def words_properties(self, langs: Sequence[str]) -> dict[str, Any]:
        """What makes room for the words of some languages: terms that are made here, with blanks between."""
        field = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}
        return self.properties({"words": dict.fromkeys(langs, field)})

    def differs(self, mapping: Mapping[str, Any]) -> str:
        """Which field of a mapping is not as an index of our own has it; empty if all are."""
        there = mapping.get("properties", {})
        for name, made in self.mapping()["properties"].items():
            mapped = there.get(name, {})
            if name == self.ours and not is_ours(mapped):
                return f"another field {name!r}"
            if name != self.ours and mapped != made:
                return f"another field {name!r}"
        return "" if str(mapping.get("dynamic")).lower() == "false" else "another way with new fields"

    def models(self, properties: Mapping[str, Any]) -> dict[str, VectorField]:
        """The fields of vectors by model, as a mapping has them."""
        fields = {model: one["properties"]["vector"] for model, one in self._inner(properties, "models").items()}
        return {model: VectorField(int(one["dims"]), one["index_options"]["type"]) for model, one in fields.items()}

    def languages(self, properties: Mapping[str, Any]) -> set[str]:
        """Languages that a mapping has room for the words of."""
        return set(self._inner(properties, "words"))

    def _inner(self, properties: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        ours = properties.get(self.ours, {}).get("properties", {})
        inner: Mapping[str, Any] = ours.get(name, {}).get("properties", {})
        return inner

    def source(self, model: str, item: StoredDocument) -> dict[str, Any]:
        """A document as it is written."""
        document = item.document
        return {
            "title": document.title,
            "text": document.text,
            "lang": document.lang,
            "fields": dict(document.fields),
            self.ours: self.object(model, item),
        }

    def object(self, model: str, item: StoredDocument) -> dict[str, Any]:
        """Our object of a document."""
        document = item.document
        terms = analyser(document.lang).terms(document.content)
        return {
            "id": document.doc_id,
            "lang": document.lang,
            "revision": document.revision,
            "text_hash": document.text_hash,
            "fields_hash": document.fields_hash,
            "words": {document.lang: " ".join(terms)},
            "models": {
                model: {
                    "vector": packed_vector(item.vector),
                    "passages": _packed(item.passages.vectors.astype(np.int8)),
                    "offsets": _packed(item.passages.offsets.astype("<i4")),
                    "known": pybase64.b64encode_as_string(bytes(item.known)),
                }
            },
        }

    def stamp_fields(self, model: str) -> list[str]:
        """Fields of the source that a stamp is read from."""
        return [*(self.name(one) for one in ("lang", "text_hash", "fields_hash", "revision")), self.known(model)]

    def held(self, source: Mapping[str, Any]) -> Mapping[str, Any]:
        """Our object in a source; empty where there is none, or what stands there is not ours."""
        held = source.get(self.ours)
        return held if isinstance(held, Mapping) and held.get("text_hash") is not None else {}

    def stamp(self, source: Mapping[str, Any]) -> Stamp | None:
        """The stamp of a document; none where somebody else wrote it."""
        ours = self.held(source)
        return Stamp(ours["lang"], ours["text_hash"], ours["fields_hash"], ours["revision"]) if ours else None

    def models_of(self, source: Mapping[str, Any]) -> set[str]:
        """Models that made a vector of the document."""
        return set(self.held(source).get("models", {}))

    def document(self, doc_id: str, source: Mapping[str, Any]) -> Document:
        """The document of a source."""
        ours = source[self.ours]
        return Document(doc_id, ours["lang"], source["text"], source["title"], source["fields"], ours["revision"])

    def filters(self, lang: str, filters: Filters | None) -> list[dict[str, Any]]:
        """Clauses that let through the documents of a language that have the fields."""
        clauses: list[dict[str, Any]] = [{"term": {self.name("lang"): lang}}, *map(dict, self.also)]
        for name, wanted in (filters or {}).items():
            values = wanted if isinstance(wanted, (list, tuple)) else [wanted]
            clauses.append({"terms": {self.filter_field(name): [_shown(value) for value in values]}})
        return clauses

    def filter_field(self, name: str) -> str:
        """The field that a filter by one of the user's compares with."""
        return f"fields.{name}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def packed_vector(vector: FloatArray) -> str:
    """A vector as the server reads it fastest: big-endian floats in base64."""
    return _packed(vector.astype(">f4"))


def unpacked_vectors(values: Sequence[str], dim: int) -> FloatArray:
    """Vectors from doc values in the ``binary`` format, (values, dim) float32."""
    joined = b"".join(map(unpacked, values))
    return np.frombuffer(joined, dtype=">f4").reshape(-1, dim).astype(np.float32)


def unpacked_passages(vectors: str, offsets: str, dim: int) -> Passages:
    """Passages from doc values."""
    return Passages(
        np.frombuffer(unpacked(vectors), dtype=np.int8).reshape(-1, dim),
        np.frombuffer(unpacked(offsets), dtype="<i4").astype(np.int32).reshape(-1, 2),
    )


def unpacked_known(value: str) -> tuple[bool, ...]:
    """One flag a part of the encoder."""
    return tuple(map(bool, unpacked(value)))


def _packed(array: Any) -> str:
    return pybase64.b64encode_as_string(array.tobytes())


def unpacked(value: str) -> bytes:
    """What base64 of the server's or ours stands for."""
    return pybase64.b64decode(value, validate=True)
