"""A user's index, or a family of indices: mapping, and documents as Dragoman's. Nothing here writes."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from indexer.cluster import cluster_client
from indexer.cluster.cluster_client import pages
from indexer.cluster.field_mapping import is_ours, refuse_partial
from indexer.cluster.source_values import steps, values, without_paths
from indexer.readers.records.record import make_document
from indexer.readers.records.source import EMPTY_DOCUMENT, ReadOptions, Refusal
from indexer.stores.attached.attached_address import Attachment
from indexer.stores.attached.family_index import FamilyIndex, merged
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.server_index import ServerIndex
from indexer.text.language_detection import Detector

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_TEXTS = frozenset(
    {"text", "match_only_text", "keyword", "wildcard", "constant_keyword", "search_as_you_type", "annotated_text"}
)
_ANALYSED = frozenset({"text", "match_only_text", "search_as_you_type", "annotated_text"})
_UNFILTERED = frozenset({"object", "nested", "dense_vector", "binary", "alias"})


class UsersIndex:
    """A user's index, as it is now."""

    def __init__(
        self, client: Elasticsearch, attachment: Attachment, name: str, description: Mapping[str, Any]
    ) -> None:
        """Use ``UsersIndex.open``."""
        self.attachment = attachment
        self.name = name  # the index's name, also where the attachment names an alias; of a family names and patterns
        self.members: Sequence[UsersIndex] = [self]  # the indices of a family
        self.unfit: Sequence[BadInput] = []  # why others that the attachment names can't be its members
        self.names = frozenset({name, *description["aliases"]})
        self.settings: Mapping[str, Any] = description["settings"]["index"]
        self.mapping: Mapping[str, Any] = description["mappings"]
        self.properties: Mapping[str, Any] = self.mapping.get("properties", {})
        self.uuid: str = self.settings["uuid"]  # under the same name, another uuid is another index
        self.index = server_index(client, attachment, name)

    @classmethod
    def open(cls, client: Elasticsearch, attachment: Attachment, *, new: bool = False) -> Self:
        """Read the aliases, mappings and settings of an index or a family from the server.

        With ``new`` the attachment of several indices becomes that of a family. Raises BadInput: the name stands for no
        index, or for several by now; the index is closed; its text can't be read; of a family, if so are all.
        """
        from elasticsearch import NotFoundError  # noqa: PLC0415

        try:
            with cluster_client.store_errors(attachment.server):
                answer = client.indices.get(index=attachment.index, features=["aliases", "mappings", "settings"]).body
        except NotFoundError as error:
            raise BadInput(
                f"{attachment.server} has no index {attachment.index}; name one as _cat/indices lists it"
            ) from error
        if new and (len(answer) > 1 or not {"*", ","}.isdisjoint(attachment.index)):
            attachment = replace(attachment, family=True)
        if attachment.family:
            return cls._family(client, attachment, answer)
        return cls._opened(client, attachment, *only_index(attachment.index, answer))

    @classmethod
    def _opened(cls, client: Elasticsearch, attachment: Attachment, name: str, description: Mapping[str, Any]) -> Self:
        users_index = cls(client, attachment, name, description)
        if users_index.settings.get("verified_before_close") == "true":
            raise BadInput(f"{name} is closed; open it (POST {name}/_open), then run the command again")
        _ = users_index.paths
        return users_index

    @classmethod
    def _family(cls, client: Elasticsearch, attachment: Attachment, answer: Mapping[str, Any]) -> Self:
        members: list[Self] = []
        unfit: list[BadInput] = []
        for name, description in sorted(answer.items()):
            try:
                for part in attachment.parts:
                    refuse_partial(part, description.get("aliases", {}))
                only_index(name, {name: description})  # a data stream's index has a name that no attachment takes
                index = cls._opened(client, replace(attachment, index=name), name, description)
            except BadInput as error:
                unfit.append(error)
                continue
            if members and index.paths != members[0].paths:
                unfit.append(BadInput(f"{name} has its text at another place than {members[0].name}; attach it alone"))
            else:
                members.append(index)
        if not members:
            raise unfit[0] if unfit else BadInput(f"{attachment.server} has no index {attachment.index}")
        return cls._joined(client, attachment, members, unfit)

    @classmethod
    def _joined(
        cls, client: Elasticsearch, attachment: Attachment, members: Sequence[Self], unfit: Sequence[BadInput] = ()
    ) -> Self:
        """A family of indices; it is searched by its own name if every index has our field, else by their names."""
        names = [
            member.name
            for member in members
            if attachment.companion or is_ours(member.properties.get(attachment.field, {}))
        ]
        complete = not names or (len(names) == len(members) and not unfit)
        family = cls(
            client,
            attachment,
            attachment.index if complete else ",".join(names),
            {
                "aliases": frozenset().union(*(member.names for member in members)),
                "settings": {"index": {"uuid": " ".join(member.uuid for member in members)}},
                "mappings": {"properties": merged([member.properties for member in members])},
            },
        )
        family.members, family.unfit = members, unfit
        family.index = server_index(client, attachment, family.name, [member.name for member in members])
        return family

    def within(self, names: Collection[str]) -> UsersIndex:
        """The members of these names."""
        members = [member for member in self.members if member.name in names]
        if len(members) == 1:
            return members[0]
        attachment = replace(self.attachment, index=",".join(member.name for member in members))
        return self._joined(self.index.client, attachment, members)

    def by(self, client: Elasticsearch) -> Self:
        """The same index, read through another client."""
        view = copy.copy(self)
        view.index = replace(self.index, client=client)
        return view

    @cached_property
    def paths(self) -> dict[str, str]:
        """Paths of title, text and language in a source: a multi-field is read at its parent's path.

        Raises BadInput: a named field is missing, holds no text, or lies in nested objects.
        """
        fields = {"text": self.attachment.text, "title": self.attachment.title, "lang": self.attachment.lang_field}
        return {ours: self._path(theirs) for ours, theirs in fields.items() if theirs}

    def _path(self, field: str) -> str:
        mapped_field = _find(self.properties, field)
        if mapped_field is None:
            texts = ", ".join(sorted(fields_of(self.properties))) or "none"
            raise BadInput(f"{self.name} has no field {field!r}; its fields of text are: {texts}")
        path, mapped = mapped_field
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
        """The field that a filter compares with; for text its keyword sub-field. Raises BadInput: there is none."""
        target = _target(self.properties, name)
        mapped_field = _walk(self.properties, target)
        if mapped_field is None:
            raise BadInput(f"{self.name} has no field {name!r} to filter by")
        path, mapped = mapped_field
        if path != target:
            mapped = mapped.get("fields", {}).get(target.removeprefix(f"{path}."), mapped)
        if mapped.get("type", "object") in _UNFILTERED:
            raise BadInput(f"{name!r} of {self.name} can't be filtered by; name a field of keywords, numbers or dates")
        if mapped["type"] not in _ANALYSED:
            return target
        sub_fields = mapped.get("fields", {})
        keyword = next((sub for sub, sub_mapped in sub_fields.items() if sub_mapped["type"] == "keyword"), None)
        if keyword is None:
            raise BadInput(f"{name!r} of {self.name} is text without a keyword field below it; filter by another field")
        return f"{target}.{keyword}"

    def value_path(self, name: str) -> str:
        """The path in a document's fields of the values that a filter compares with; a multi-field's is its parent's.

        Raises BadInput: the field can't be filtered by, has words instead of values, or is the text, title or language.
        """
        self.filter_field(name)
        path, _ = _find(self.properties, name) or (name, {})
        read = next((ours for ours, theirs in self.paths.items() if theirs == path), None)
        if read == "lang":
            raise BadInput(f"{name!r} of {self.name} has the documents' languages; count them by the facet lang")
        if read:
            raise BadInput(
                f"{name!r} of {self.name} is the documents' {read}, which is not counted; name another field"
            )
        return path

    @cached_property
    def ours(self) -> list[str]:
        """Names of Dragoman's object fields in the index: they are no part of the documents."""
        return [name for name, mapped in self.properties.items() if is_ours(mapped)]

    def document(self, doc_id: str, source: Mapping[str, Any], *, assumed: str = "") -> Document | Refusal:
        """A document, or the reason for its refusal; its language is stated, else ``assumed``, else detected."""
        field_values = {name: values(source, path) for name, path in self.paths.items()}
        langs = field_values.get("lang", [])
        record = {
            "id": "-",
            "title": field_values.get("title"),
            "text": field_values["text"],
            "lang": next(iter(langs), None),
        }
        if len(langs) > 1:
            return Refusal(doc_id, f"its {self.paths['lang']!r} names {len(langs)} languages; it takes one", doc_id)
        document = make_document(record, doc_id, ReadOptions(lang=self.attachment.lang))
        if isinstance(document, Refusal):
            return Refusal(doc_id, document.text + (self._copies if document.text == EMPTY_DOCUMENT else ""), doc_id)
        lang = document.lang
        if lang == UNDETERMINED:
            lang = assumed or self._detector.detect(document.content).lang
        return replace(
            document, doc_id=doc_id, lang=lang, fields=without_paths(source, [*self.paths.values(), *self.ours])
        )

    @cached_property
    def _copies(self) -> str:
        """Why all texts are empty, as the end of a sentence, if other fields are copied to the field of texts."""
        path, fields = self.paths["text"], fields_of(self.properties, _TEXTS)
        copied = " or ".join(name for name, mapped in fields.items() if path in mapped.get("copy_to", ()))
        return copied and f": {path!r} has copies (copy_to), which no _source holds; name {copied} with --text"

    @cached_property
    def _detector(self) -> Detector:
        return Detector(None)

    def shown(self, doc_id: str, source: Mapping[str, Any], lang: str) -> Document:
        """A document of the index for a reader; without title and text if it is refused now."""
        document = self.document(doc_id, source, assumed=lang)
        if isinstance(document, Document):
            return document
        return Document(doc_id, lang, "", "", without_paths(source, [*self.paths.values(), *self.ours]))

    def sources(self, doc_ids: Sequence[str], *, excludes: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Current sources by id, also before a refresh; ids without a document are left out."""
        documents = self._mget(doc_ids, source_excludes=list(excludes) or None)
        return {self.index.id_of(document): document.get("_source", {}) for document in documents}

    def missing(self, doc_ids: Iterable[str]) -> set[str]:
        """The ids for which the index has no document."""
        listed = list(doc_ids)
        return set(listed) - {self.index.id_of(document) for document in self._mget(listed, source=False)}

    def _mget(self, doc_ids: Sequence[str], **options: Any) -> list[Mapping[str, Any]]:
        documents: list[Mapping[str, Any]] = []
        for page in pages(self.index.places(doc_ids)):
            with self.index.store_errors():
                path = None if self.attachment.family else self.name  # the names of a family may be too long for a path
                documents += self.index.existing(self.index.client.mget(index=path, docs=page, **options)["docs"])
        return documents


def server_index(client: Elasticsearch, attachment: Attachment, name: str, members: Sequence[str] = ()) -> ServerIndex:
    """A user's index on its server, or a family of them."""
    options: dict[str, Any] = {"id_field": Layout(attachment.field).name("id"), "remedy": "detach the collection"}
    if attachment.family:
        return FamilyIndex(client, attachment.server, name, **options, stale=False, members=members or [name])
    return ServerIndex(client, attachment.server, name, **options, stale=False)


def only_index(requested: str, answer: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Name and description of a name's index. Raises BadInput: a data stream, several indices, or part of an index."""
    if stream := next((index["data_stream"] for index in answer.values() if "data_stream" in index), None):
        raise BadInput(
            f"{requested} belongs to the data stream {stream}, whose documents can't be changed in place; "
            f"index it into a collection of its own: dragoman index elastic:{stream} -c NAME"
        )
    if len(answer) != 1:
        raise BadInput(
            f"{requested} stands for {len(answer)} indices by now ({', '.join(sorted(answer)[:3])} …), which have ids "
            "of their own; detach the collection, and attach it again"
        )
    ((name, description),) = answer.items()
    refuse_partial(requested, description.get("aliases", {}))
    return name, description


def _find(properties: Mapping[str, Any], path: str) -> tuple[str, Mapping[str, Any]] | None:
    """A field by its path: its path in a source and its mapping; an alias field is followed."""
    return _walk(properties, _target(properties, path))


def _target(properties: Mapping[str, Any], path: str) -> str:
    """The path of the field that an alias field stands for; of any other field its own path."""
    field = _walk(properties, path)
    return str(field[1]["path"]) if field and field[1].get("type") == "alias" else path


def _walk(properties: Mapping[str, Any], path: str) -> tuple[str, Mapping[str, Any]] | None:
    """A field by its path: its path in a source and its mapping."""
    for name, rest in steps(properties, path):
        mapped = properties[name]
        if not rest or mapped.get("type") == "nested" or rest in mapped.get("fields", {}):
            return name, mapped
        below = _walk(mapped.get("properties", {}), rest)
        if below:
            return f"{name}.{below[0]}", below[1]
    return None


def fields_of(
    properties: Mapping[str, Any], types: Collection[str] = _ANALYSED, above: str = ""
) -> dict[str, Mapping[str, Any]]:
    """The user's fields of these types, by default of analysed text: their mappings by name."""
    fields = {}
    for name, mapped in properties.items():
        if mapped.get("type") in types:
            fields[f"{above}{name}"] = mapped
        elif mapped.get("type", "object") == "object" and not is_ours(mapped):
            fields |= fields_of(mapped.get("properties", {}), types, f"{above}{name}.")
    return fields
