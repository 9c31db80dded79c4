"""Vectors in a user's index: Dragoman's object field beside the user's fields; the user's writes always win."""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from encoders.document import Document, short_hash
from encoders.errors import StoreError
from encoders.phrases import counted
from indexer.cluster import cluster_client, index_changes
from indexer.cluster.cluster_address import Credentials
from indexer.cluster.cluster_client import PAGE, Abilities, pages
from indexer.cluster.cluster_errors import IndexGone
from indexer.cluster.source_values import values
from indexer.stores.acceptance import Admission
from indexer.stores.attached import attach_checks
from indexer.stores.attached.attached_address import Attachment
from indexer.stores.attached.joined_store import JoinedLayout, JoinedStore
from indexer.stores.attached.users_index import UsersIndex, server_index
from indexer.stores.clustered.document_layout import PARTS, Layout, VectorFields, placed, sent_vector_of, vector_bytes
from indexer.stores.clustered.server_index import ServerDocument, ServerIndex
from indexer.stores.clustered.store import ServerStore
from indexer.stores.clustered.writing import Action
from indexer.stores.contract import EditedDocument, Stamp, StoredDocument

_STAMP = ("id", "lang", "text_hash", "fields_hash", "revision")


@dataclass(frozen=True, kw_only=True)
class AttachedLayout(JoinedLayout):
    """Layout of our object among the fields of the user's documents."""

    texts_alone = False

    def filter_field(self, name: str) -> str:
        """The user's field that a filter compares with."""
        return self.users.filter_field(name)

    def of_ids(self, doc_ids: Sequence[str]) -> dict[str, Any]:
        """A query by the server's own ids, for a copied document carries the original's id column."""
        return self.users.index.ids_query(doc_ids)

    def value_path(self, name: str) -> str:
        """The path in the user's document of the values that a filter by a field compares with."""
        return self.users.value_path(name)

    def document(self, doc_id: str, source: Mapping[str, Any]) -> Document:
        """The document in a source."""
        ours = self.held(source)
        return EditedDocument.unless(self.users.shown(doc_id, source, ours.get("lang", "")), ours.get("text_hash", ""))

    def bare(self, columns: Sequence[Any] = ()) -> dict[str, Any]:
        """Only these columns; hits keep ``_id``, for a copied document carries the original's id column."""
        return {"_source": False, "docvalue_fields": list(columns)}

    def digest_path(self, model: str) -> str:
        """Path of the digest of a document's vector in its source; the mapping has no such field."""
        return self.name("models", model, "check")

    def properties(self, inner: Mapping[str, Any]) -> dict[str, Any]:
        """Our object field; its ``meta`` names the user's fields we read: another database must not read others."""
        properties = super().properties(inner)
        properties[self.ours]["properties"]["id"] = {"type": "keyword", "meta": self.users.attachment.reads}
        return properties

    def is_theirs(self, source: Mapping[str, Any]) -> bool:
        """Whether a document has a value of its owner under our object's name; the mapping need not know the value."""
        return source.get(self.ours) not in (None, {}, []) and not self.held(source)

    def update(
        self, model: str, item: StoredDocument, source: Mapping[str, Any], fields: VectorFields
    ) -> dict[str, Any]:
        """Partial document that merges our object into the source; another language's terms and vector are removed."""
        ours = self.object(model, item, fields)
        encoded = ours["models"][model]
        parts = {name: encoded[name] for name in PARTS}
        encoded["check"] = digest(sent_vector_of(encoded), item.document.lang, **parts)
        previous_lang = self.held(source).get("lang")
        if previous_lang and previous_lang != item.document.lang:
            ours["words"][previous_lang] = None
            removed = placed(None, previous_lang, fields)
            if "vectors" in removed:
                encoded["vectors"] = removed["vectors"] | encoded.get("vectors", {})
            else:
                encoded.setdefault("vector", None)
        return {self.ours: ours}


_WHOLE = "whole "
"""Beginning of a digest of everything that is attached; an earlier version's digest is of the vector alone."""


def digest(vector: str | Sequence[float], lang: str, **parts: str) -> str:
    """Hash of what is attached for a model; of the same value whether the vector is packed or not."""
    return _WHOLE + short_hash(vector_bytes(vector), lang, *(parts.get(name, "") for name in PARTS))


class AttachedStore(JoinedStore):
    """Vectors of one collection, stored in the index of its documents."""

    _layout: AttachedLayout

    def __init__(self, attachment: Attachment, credentials: Credentials) -> None:
        """Connect, and read the user's index's description. Raises BadInput: vectors can't be attached any more."""
        with cluster_client.opening(attachment.server, credentials) as (client, abilities):
            users = UsersIndex.open(client, attachment)
        self._take(users, abilities)

    def _take(self, users: UsersIndex, abilities: Abilities) -> None:
        super().__init__(users, users.index, AttachedLayout(users.attachment.field, abilities=abilities, users=users))

    def within(self, names: Collection[str]) -> Self:
        """A view of some indices of a family."""
        view = copy.copy(self)
        view._take(self.users.within(names), self._layout.abilities)  # noqa: SLF001 - a copy of this store
        return view

    @property
    def mark(self) -> str:
        """Uuid of the user's index."""
        return self.users.uuid

    def _unfit(self, item: StoredDocument) -> None:
        """Every document is in the user's index already."""

    def _actions(self, model: str, admission: Admission, doc_ids: Sequence[str]) -> dict[str, Action]:
        """The updates of the documents whose text has not changed since encoding, by id; the others are ``older``."""
        fields = [*self.users.paths.values(), self._layout.ours]
        excludes = [self._layout.name(field) for field in ("words", "models")]
        stored = self._index.read(doc_ids, fields, excludes=excludes)
        actions = {}
        for doc_id in doc_ids:
            item, document = admission.latest[doc_id], stored.get(doc_id)
            if document is not None and self._layout.is_theirs(document.source):
                reason = f"its owner has a value in the field {self._layout.ours!r}; name another field with --field"
                admission.refused[doc_id] = reason
            elif document is None or not self._has_text_of(document, item.document):
                admission.older.add(doc_id)
            else:
                content = self._layout.update(model, item, document.source, self._mapped.of(model))
                (place,) = self._index.places([doc_id])
                actions[doc_id] = {"_op_type": "update", **place, "doc": content, **document.unchanged}
        return actions

    def _has_text_of(self, stored: ServerDocument, encoded: Document) -> bool:
        """Whether a document in the user's index still has the text that was encoded."""
        current = self.users.document(encoded.doc_id, stored.source, assumed=encoded.lang)
        return isinstance(current, Document) and current.text_hash == encoded.text_hash

    def _create(self, model: str, dim: int) -> None:
        super()._create(model, dim)
        if self._index.properties()[self._layout.ours]["properties"]["id"].get("meta") != self.users.attachment.reads:
            self._index.put_mapping(self._layout.properties({}))

    def change_body(self, model: str) -> dict[str, Any]:
        """Search body for what decides whether a document is encoded again: its text, our hash, the stored vector."""
        stamp = (self._layout.name(field) for field in _STAMP)
        return {
            "docvalue_fields": [self._layout.vector_column(model), *self._parts(model).values()],
            "source": {"includes": [*self.users.paths.values(), *stamp, self._layout.digest_path(model)]},
            "version": True,
        }

    def held(self, model: str, hits: Sequence[Mapping[str, Any]]) -> dict[str, Stamp]:
        """Stamps of the documents of the hits whose attached parts still belong together, by id."""
        return {
            hit["_id"]: stamp
            for hit in hits
            if self._is_whole(model, hit) and (stamp := self._layout.stamp(hit["_source"]))
        }

    def _is_whole(self, model: str, hit: Mapping[str, Any]) -> bool:
        """Whether a document still has everything that was attached to it.

        A user may write back an earlier source, or another document's: it has our hash without a vector (sources are
        read without vectors) or with a vector of another text.
        """
        ours = self._layout.held(hit["_source"])
        vector = self._layout.hit_vector(model, hit)
        parts = {name: hit.get("fields", {}).get(path, [""])[0] for name, path in self._parts(model).items()}
        written = values(hit["_source"], self._layout.digest_path(model))
        return (
            all(ours.get(name) is not None for name in _STAMP)
            and ours.get("id") == hit["_id"]
            and written in ([digest(vector, ours["lang"], **parts)], [short_hash(vector_bytes(vector))])
        )

    def _parts(self, model: str) -> dict[str, str]:
        """Fields of what is attached beside the vector."""
        return {name: self._layout.name("models", model, name) for name in PARTS}

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        """Stamps of the documents that have a vector of this model, by id."""
        self._index.refresh()
        has_vector = {"exists": {"field": self._layout.vectors(model)}}
        stamps: dict[str, Stamp] = {}
        for page in pages(doc_ids):
            query = {"bool": {"filter": [self._index.ids_query(page), has_vector]}}
            body = {"size": len(page), "query": query, "_source": self._layout.stamp_fields(model)}
            (hits,) = self._index.retry_while_away(partial(self._index.search, [body]))
            stamps |= {hit["_id"]: stamp for hit in hits if (stamp := self._layout.stamp(hit["_source"]))}
        return stamps

    def _documents(self, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Document]:
        return {doc_id: self._layout.document(doc_id, source) for doc_id, source in sources.items()}

    def keep_fields(self, documents: Sequence[Document]) -> int:  # noqa: ARG002
        """Do nothing: the fields are the user's, in the user's index."""
        return 0

    def publish(self) -> None:
        """Make all writes visible, and give graphs to each index's fields with many documents."""
        for part in self.parts():
            ServerStore.publish(part)

    def prune(self, without: int, users: UsersIndex | None = None, kept: Collection[str] = ()) -> int:  # noqa: ARG002
        """Do nothing: our object was deleted with its document."""
        return 0

    def forget(self, doc_ids: Sequence[str]) -> int:
        """Empty our object in documents; another writer's concurrent change stays."""
        return _empty(self._index, self._layout, doc_ids, {}) if doc_ids else 0

    def drop(self) -> None:
        """Empty our object in every document; the documents stay."""
        for part in self.parts():
            _empty_all(part._index, self._layout)  # noqa: SLF001 - of this class
        self.close()


@dataclass(frozen=True)
class Detached:
    """The outcome of detaching from an index."""

    index: str
    emptied: int = 0  # number of documents in which our object was emptied
    kept: int = 0  # number of documents that keep our object because their versions are external
    gone: bool = False  # whether the index is gone, or another index has its name


def detach(attachment: Attachment, credentials: Credentials, *, index: str = "", uuid: str = "") -> Detached:
    """Empty our object in every document that has one, even if vectors can't be attached to the index any more.

    A second call finishes a killed one. ``index`` is the name if the attachment is an alias, which may point elsewhere
    by now; an index with another ``uuid`` is left alone. Raises StoreError: the server is away or refuses.
    """
    server, name = attachment.server, index or attachment.index
    with cluster_client.connect(server, credentials) as client:
        with cluster_client.store_errors(server):
            indices = client.options(ignore_status=404).indices.get_settings(index=name, name="index.uuid").body
        uuids = {entry["settings"]["index"]["uuid"] for entry in indices.values()} if "error" not in indices else set()
        if not uuids or (uuid and uuid not in uuids):
            return Detached(name, gone=True)
        layout = Layout(attachment.field, abilities=cluster_client.abilities(client, server))
        try:
            opened = (server_index(client, attachment, index_name) for index_name in sorted(indices))
            counts = [_empty_all(users_index, layout) for users_index in opened]
        except IndexGone:
            return Detached(name, gone=True)
    return Detached(name, sum(emptied for emptied, _ in counts), sum(kept for _, kept in counts))


def _empty_all(index: ServerIndex, layout: Layout) -> tuple[int, int]:
    """Empty our object in all documents, by shard, where ids are unique; returns the numbers of emptied and others."""
    total = 0
    body = {"query": {"bool": {"must": [{"exists": {"field": layout.name("id")}}]}}, "source": False, "version": True}
    while True:
        last_writes = partial(index_changes.last_writes, index.client, index.server, index.name)
        tops = index.retry_while_away(last_writes)[index.name].shards
        emptied = kept = 0
        with index.store_errors():
            index.client.indices.refresh(index=index.name)
            for shard, top in tops.items():
                search = index_changes.shard_search(index.client, index.server, index.name, shard)
                for hits in index_changes.pages(search, body, PAGE, above=index_changes.NOTHING, upto=top.seq_no):
                    kept += sum(1 for hit in hits if attach_checks.is_external(hit))
                    places = {index.id_of(hit): {"routing": hit["_routing"]} for hit in hits if "_routing" in hit}
                    emptied += _empty(index, layout, list(map(index.id_of, hits)), places)
        total += emptied
        if not emptied:
            return total, kept


def _empty(index: ServerIndex, layout: Layout, doc_ids: Sequence[str], places: Mapping[str, Action]) -> int:
    """Empty our object in documents; documents with external versions keep it, for a write would raise the version."""
    read_settings = partial(index.client.indices.get_settings, index=index.name, name="index.final_pipeline")
    # a final pipeline would change the owner's fields in a source that is written anew
    keeps_null = bool(index.retry_while_away(read_settings).body)

    def decide(page_ids: Sequence[str]) -> dict[str, Action]:
        return {
            doc_id: {**index.places([doc_id])[0], **document.unchanged, **places.get(doc_id, {})}
            | _removal(layout.ours, document.source, keeps_null=keeps_null)
            for doc_id, document in index.read_with_vectors(page_ids, layout.abilities, places=places).items()
            if layout.held(document.source).get("id") is not None
            and not attach_checks.is_external({"_version": document.version, "_seq_no": document.seq_no})
        }

    outcome = index.write(doc_ids, decide)
    if outcome.refused:
        doc_id, reason = next(iter(outcome.refused.items()))
        raise StoreError(
            f"{index.name} keeps our field in {counted(len(outcome.refused), 'document')}, as in {doc_id} ({reason})"
        )
    return len(outcome.done)


def _removal(field: str, source: Mapping[str, Any], *, keeps_null: bool) -> Action:
    """The write of null in a field's place; or of the source without it, which a partial document can't remove."""
    if keeps_null:
        return {"_op_type": "update", "doc": {field: None}}
    kept = {name: value for name, value in source.items() if name != field}
    return {"_op_type": "index", "pipeline": "_none", "_source": kept}  # scripts may be forbidden
