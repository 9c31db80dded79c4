"""A document's layout on the server: its own fields, and beside them one object with everything of Dragoman's.

::

    title, text, lang, fields    the document; ``fields`` are the user's own, compared as text (``flattened``)
    dragoman.id                  keyword: the server can't sort by ``_id``
    dragoman.lang                keyword
    dragoman.revision            long
    dragoman.text_hash           keyword
    dragoman.fields_hash         keyword
    dragoman.words.LANG          the terms that ``indexer.text.terms`` makes, one field a language, so that a word's
                                 rarity is counted within its language and no analyser has to be installed
    dragoman.models.MODEL        passages and offsets (bytes), known (bytes)
    dragoman.models.MODEL.vectors.LANG
                                 raw unit vector, one field a language: its index has neighbours of one language alone
    dragoman.models.MODEL.vector the same for the languages without such a field (``has_own_field``), and for all
                                 languages in an index of an earlier version: a search filters by language
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pybase64

from encoders.document import Document, FloatArray, Passages
from indexer.cluster.cluster_client import Abilities
from indexer.cluster.field_mapping import FIELDS, is_ours
from indexer.stores.contract import Filters, Stamp, StoredDocument
from indexer.text.terms import analyser

_FLATTENED = 7000
"""Longest value of a user's field that can be filtered by, in characters: the server refuses terms of 32,766 bytes."""

_GRAPH = {"m": 32, "ef_construction": 200}
"""Neighbours of a vector in a graph, and vectors that are compared to find them: twice the server's default, which
finds 99.4 % of the exact ten best where these find 99.9 %."""

PARTS = ("passages", "offsets", "known")
"""What is stored of a model beside the vector, as base64."""

_logger = logging.getLogger("dragoman.stores")


@dataclass(frozen=True)
class VectorField:
    """A field of vectors: its full name, the type of its index, and whether its vectors are of several languages."""

    name: str
    kind: str
    shared: bool


@dataclass(frozen=True)
class VectorFields:
    """The fields of a model's vectors, and their width."""

    dim: int
    shared: VectorField
    of_languages: Mapping[str, VectorField]  # by language that has a field of its own

    def of(self, lang: str) -> VectorField:
        """The field of a language's vectors."""
        return self.of_languages.get(lang, self.shared)


@dataclass(frozen=True)
class Layout:
    """Names of the fields."""

    ours: str = "dragoman"  # name of Dragoman's object field
    also: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)  # further filters, in the server's language
    abilities: Abilities = field(default=Abilities(), compare=False)  # of the server that the documents are written to

    def name(self, *path: str) -> str:
        """The full name of a field in our object."""
        return ".".join((self.ours, *path))

    @property
    def by_id(self) -> dict[str, Any]:
        """The order of ids; of several indices some may have no object of ours."""
        return {self.name("id"): {"order": "asc", "unmapped_type": "keyword"}}

    def vectors(self, model: str) -> str:
        """The pattern of the fields of a model's vectors; a document has one of them."""
        return f"{_vector_field(self.ours, model)}*"

    def passages(self, model: str) -> tuple[str, str]:
        """The fields of a model's passages: vectors and offsets."""
        return self.name("models", model, "passages"), self.name("models", model, "offsets")

    def known(self, model: str) -> str:
        """The field that says which parts of a model know the text; every document with the model's vector has it."""
        return self.name("models", model, "known")

    def words(self, lang: str) -> str:
        """The field of the index terms of a language."""
        return self.name("words", lang)

    def mapping(self) -> dict[str, Any]:
        """The mapping of an index of our own, without a model yet."""
        text = {"type": "text", "index": False}  # lexical search uses the words in our object
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
        """The mapping of our object field, with these properties of ``models`` and ``words`` in it."""
        ours = {**FIELDS, **{name: {"properties": properties} for name, properties in inner.items()}}
        return {self.ours: {"dynamic": False, "properties": ours}}

    def model_properties(self, model: str, dim: int, kinds: Mapping[str, str]) -> dict[str, Any]:
        """Properties for a model; ``kinds`` are types of vector indices by language, of the shared field by ""."""
        fields: dict[str, Any] = {part: {"type": "binary", "doc_values": True} for part in PARTS}
        options = {"type": "dense_vector", "dims": dim, "index": True, "similarity": "dot_product"}
        graph = {kind: _GRAPH if kind.endswith("hnsw") else {} for kind in kinds.values()}
        vectors = {lang: {**options, "index_options": {"type": kind, **graph[kind]}} for lang, kind in kinds.items()}
        if "" in vectors:
            fields["vector"] = vectors.pop("")
        if vectors:
            fields["vectors"] = {"properties": vectors}
        return {"models": {model: {"properties": fields}}}

    def differs(self, mapping: Mapping[str, Any]) -> str:
        """How a mapping differs from that of our own index; empty if it does not."""
        properties = mapping.get("properties", {})
        for name, expected in self.mapping()["properties"].items():
            mapped = properties.get(name, {})
            matches = is_ours(mapped) if name == self.ours else mapped == expected
            if not matches:
                return f"another mapping of the field {name!r}"
        return "" if str(mapping.get("dynamic")).lower() == "false" else "another value of dynamic"

    def models(self, properties: Mapping[str, Any]) -> dict[str, VectorFields]:
        """The fields of vectors in a mapping, by model."""
        fields = {}
        for model, mapped in self._our_properties(properties, "models").items():
            place = self.name("models", model)
            shared = mapped["properties"]["vector"]
            of_languages = {
                lang: VectorField(f"{place}.vectors.{lang}", of_language["index_options"]["type"], shared=False)
                for lang, of_language in mapped["properties"].get("vectors", {}).get("properties", {}).items()
            }
            shared_field = VectorField(f"{place}.vector", shared["index_options"]["type"], shared=True)
            fields[model] = VectorFields(int(shared["dims"]), shared_field, of_languages)
        return fields

    def languages(self, properties: Mapping[str, Any]) -> set[str]:
        """Languages for whose words a mapping has a field."""
        return set(self._our_properties(properties, "words"))

    def _our_properties(self, properties: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        ours = properties.get(self.ours, {}).get("properties", {})
        inner: Mapping[str, Any] = ours.get(name, {}).get("properties", {})
        return inner

    def source(self, model: str, item: StoredDocument, fields: VectorFields) -> dict[str, Any]:
        """The source to write for a document; ``fields`` are the model's."""
        document = item.document
        return {
            "title": document.title,
            "text": document.text,
            "lang": document.lang,
            "fields": dict(document.fields),
            self.ours: self.object(model, item, fields),
        }

    def object(self, model: str, item: StoredDocument, fields: VectorFields) -> dict[str, Any]:
        """Our object of a document."""
        document = item.document
        return {
            "id": document.doc_id,
            "lang": document.lang,
            "revision": document.revision,
            "text_hash": document.text_hash,
            "fields_hash": document.fields_hash,
            "words": {document.lang: " ".join(analyser(document.lang).terms(document.content))},
            "models": {
                model: {
                    **placed(self.sent_vector(item.vector), document.lang, fields),
                    "passages": _packed(item.passages.vectors.astype(np.int8)),
                    "offsets": _packed(item.passages.offsets.astype("<i4")),
                    "known": pybase64.b64encode_as_string(bytes(item.known)),
                }
            },
        }

    def sent_vector(self, vector: FloatArray) -> str | list[float]:
        """A vector for the server: big-endian floats in base64, else numbers with only a float32's digits."""
        if self.abilities.packed_vectors:
            return _packed(vector.astype(">f4"))
        return [float(str(number)) for number in vector.astype(np.float32)]

    def stamp_fields(self, model: str) -> list[str]:
        """Fields of the source from which a stamp is read."""
        return [*(self.name(path) for path in ("lang", "text_hash", "fields_hash", "revision")), self.known(model)]

    def held(self, source: Mapping[str, Any]) -> Mapping[str, Any]:
        """Our object in a source; empty if there is none, or if the value is not ours."""
        ours = source.get(self.ours)
        return ours if isinstance(ours, Mapping) and ours.get("text_hash") is not None else {}

    def stamp(self, source: Mapping[str, Any]) -> Stamp | None:
        """The stamp of a document; None if somebody else wrote the document."""
        ours = self.held(source)
        return Stamp(ours["lang"], ours["text_hash"], ours["fields_hash"], ours["revision"]) if ours else None

    def models_of(self, source: Mapping[str, Any]) -> set[str]:
        """Models of which a document has a vector."""
        return set(self.held(source).get("models", {}))

    def document(self, doc_id: str, source: Mapping[str, Any]) -> Document:
        """The document of a source."""
        ours = source[self.ours]
        return Document(doc_id, ours["lang"], source["text"], source["title"], source["fields"], ours["revision"])

    def filters(self, lang: str, filters: Filters | None) -> list[dict[str, Any]]:
        """Clauses that only documents of a language, if there is one, with these fields pass."""
        clauses: list[dict[str, Any]] = [{"term": {self.name("lang"): lang}}] if lang else []
        clauses += map(dict, self.also)
        for name, wanted in (filters or {}).items():
            values = wanted if isinstance(wanted, (list, tuple)) else [wanted]
            in_range = {"range": {self.filter_field(name): wanted}}
            shown = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
            terms = {"terms": {self.filter_field(name): shown}}
            clauses.append(in_range if isinstance(wanted, Mapping) else terms)
        return clauses

    texts_alone: ClassVar[bool] = True
    """Whether filters compare texts alone, as ``flattened`` does, so that ranges have to be lists of values."""

    def filter_field(self, name: str) -> str:
        """The field that a filter by a user's field compares with."""
        return f"fields.{name}"

    def value_path(self, name: str) -> str:
        """The path in a document's fields of the values that a filter by a user's field compares with."""
        return name

    def bare(self, columns: Sequence[Any] = ()) -> dict[str, Any]:
        """Parts of a search body that return only these columns and the id, without sources.

        The id is a column, too: reading ``_id`` from the sources' compressed blocks takes half of a search's time.
        """
        return {"stored_fields": "_none_", "docvalue_fields": [self.name("id"), *columns]}

    def vector_column(self, model: str) -> dict[str, str]:
        """The columns of a model's vectors."""
        return {"field": self.vectors(model), "format": "binary"}

    def hit_vector(self, model: str, hit: Mapping[str, Any]) -> str | Sequence[float]:
        """The vector in the columns of a hit; empty if it has none."""
        beginning = _vector_field(self.ours, model)
        for name, values in hit.get("fields", {}).items():
            if name.startswith(beginning):
                return values[0]  # type: ignore[no-any-return]
        return ""

    def hit_vectors(self, model: str, hits: Sequence[Mapping[str, Any]], dim: int) -> FloatArray:
        """Vectors in the columns of hits, (hits, dim) float32."""
        values = b"".join(vector_bytes(self.hit_vector(model, hit)) for hit in hits)
        return np.frombuffer(values, dtype=">f4").reshape(-1, dim).astype(np.float32)

    def hit_passages(self, model: str, hit: Mapping[str, Any], dim: int) -> Passages:
        """Passages in the columns of a hit; a document without passages has no such columns.

        Those that nobody of ours wrote, as their sizes tell, are left out with a warning.
        """
        vectors, offsets = (unpacked(hit["fields"].get(field, [""])[0]) for field in self.passages(model))
        if len(vectors) * 8 != len(offsets) * dim or len(offsets) % 8:
            _logger.warning("the passages of %s are damaged; index or attach mends them", hit["_id"])
            vectors = offsets = b""
        return Passages(
            np.frombuffer(vectors, dtype=np.int8).reshape(-1, dim),
            np.frombuffer(offsets, dtype="<i4").astype(np.int32).reshape(-1, 2),
        )

    def hit_document(self, model: str, hit: Mapping[str, Any], vector: FloatArray) -> StoredDocument:
        """The document of a hit with its source and columns."""
        return StoredDocument(
            self.document(hit["_id"], hit["_source"]),
            vector,
            self.hit_passages(model, hit, len(vector)),
            tuple(map(bool, unpacked(hit["fields"][self.known(model)][0]))),
        )


@cache  # each hit is compared with it
def _vector_field(ours: str, model: str) -> str:
    """The shared field of a model's vectors, and the beginning of the names of the other fields."""
    return f"{ours}.models.{model}.vector"


def has_own_field(lang: str) -> bool:
    """Whether vectors of a new language may get a field of their own, as there is no room for any number of fields.

    Codes of smaller languages have three letters, and documents of no known language have ``und``.
    """
    return len(lang.partition("-")[0]) == 2


def placed(vector: Any, lang: str, fields: VectorFields) -> dict[str, Any]:
    """A sent vector in a source, in the field of its language."""
    return {"vectors": {lang: vector}} if lang in fields.of_languages else {"vector": vector}


def sent_vector_of(encoded: Mapping[str, Any]) -> Any:
    """The vector in a model's object of a source; None if there is none."""
    vectors = (encoded.get("vector"), *(encoded.get("vectors") or {}).values())
    return next((vector for vector in vectors if vector is not None), None)


def _packed(array: Any) -> str:
    return pybase64.b64encode_as_string(array.tobytes())


def unpacked(value: str) -> bytes:
    """The bytes of base64 text."""
    return pybase64.b64decode(value, validate=True)


def vector_bytes(value: str | Sequence[float]) -> bytes:
    """A sent or stored vector as big-endian floats; some servers return numbers whatever the format of the column."""
    return unpacked(value) if isinstance(value, str) else np.asarray(value, dtype=">f4").tobytes()
