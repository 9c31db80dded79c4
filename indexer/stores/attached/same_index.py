"""Vectors in somebody else's index: our object field beside theirs, written so that their writes always win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from encoders.document import Document, short_hash
from encoders.errors import StoreError
from encoders.wording import counted
from indexer.elastic import changes, connection
from indexer.elastic.address import Credentials
from indexer.elastic.paging import PAGE, pages
from indexer.elastic.values import values
from indexer.stores.admission import admit
from indexer.stores.attached import entry_checks
from indexer.stores.attached.address import Attachment
from indexer.stores.attached.base import JoinedLayout, JoinedStore
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.contract import EditedDocument, PutReport, Stamp, StoredDocument
from indexer.stores.elastic import writing
from indexer.stores.elastic.layout import Layout, unpacked
from indexer.stores.elastic.writing import Action, ServerDocument

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_STAMP = ("id", "lang", "text_hash", "fields_hash", "revision")


@dataclass(frozen=True, kw_only=True)
class AttachedLayout(JoinedLayout):
    """Our object among the fields of their documents."""

    def filter_field(self, name: str) -> str:
        """The field of theirs that a filter compares with."""
        return self.users.filter_field(name)

    def document(self, doc_id: str, source: Mapping[str, Any]) -> Document:
        """The document of a source."""
        ours = self.held(source)
        return EditedDocument.unless(self.users.shown(doc_id, source, ours.get("lang", "")), ours.get("text_hash", ""))

    def check(self, model: str) -> str:
        """Where the digest of a document's vector stands in its source: the mapping does not know it."""
        return self.name("models", model, "check")

    def properties(self, inner: Mapping[str, Any]) -> dict[str, Any]:
        """Our object field, which says which of their fields it was made of: another home must not read others."""
        made = super().properties(inner)
        made[self.ours]["properties"]["id"] = {"type": "keyword", "meta": self.users.attachment.reads}
        return made

    def is_theirs(self, source: Mapping[str, Any]) -> bool:
        """Whether a document has a value of its owner's under our name, which no mapping need know."""
        return source.get(self.ours) not in (None, {}, []) and not self.held(source)

    def update(self, model: str, item: StoredDocument, held: Mapping[str, Any]) -> dict[str, Any]:
        """Our object as an update merges it into the one that is there: words of another language go."""
        made = self.object(model, item)
        made["models"][model]["check"] = digest(made["models"][model]["vector"])
        before = self.held(held).get("lang")
        if before and before != item.document.lang:
            made["words"][before] = None
        return {self.ours: made}


def digest(packed: str) -> str:
    """What tells a packed vector from others."""
    return short_hash(unpacked(packed))


class AttachedStore(JoinedStore):
    """Vectors of one collection, in the index of the documents they are of."""

    _layout: AttachedLayout

    def __init__(self, attachment: Attachment, credentials: Credentials) -> None:
        """Reach the server, and see what their index is.

        Raises:
            BadInput: it is gone, or has become something that can't be attached to.
            StoreError: the server is away, too old, or refuses.
        """
        self.alias = attachment.index
        self._reach(attachment.address, Layout(attachment.field), credentials)
        self._stale = False
        try:
            connection.check_version(self._client, attachment.server)
            self.users = UsersIndex.open(self._client, attachment)
        except BaseException:
            self.close()
            raise
        self.index = self.users.name
        self._layout = AttachedLayout(attachment.field, users=self.users)

    def _lost(self) -> str:
        return f"the index {self.index} is gone from {self.address.server}; bring it back, or detach the collection"

    @property
    def mark(self) -> str:
        """What is another one when nothing of what was attached is there any more."""
        return self.users.uuid

    def put(self, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        """Attach vectors to the documents whose text is still the one they were made of; the others are ``older``."""
        admitted = admit(documents, self._field(model).dim)
        latest = admitted.latest
        langs = {item.document.lang for item in latest.values()}
        self._patiently(lambda: self._make_room(langs))
        outdated: set[str] = set(admitted.older)
        theirs: dict[str, str] = {}
        fields, large = [*self.users.paths.values(), self._layout.ours], ("words", "models")
        excludes = [self._layout.name(one) for one in large]

        def decide(doc_ids: Sequence[str]) -> dict[str, Action]:
            server = self.address.server
            held = writing.read(self._client, server, self.index, doc_ids, fields, excludes=excludes)
            actions = {}
            for doc_id in doc_ids:
                one = held.get(doc_id)
                if one is not None and self._layout.is_theirs(one.source):
                    theirs[doc_id] = f"it has a value of its owner's in {self._layout.ours!r}; name ours with --field"
                    continue
                if one is None or not self._still_of(one, latest[doc_id].document):
                    outdated.add(doc_id)
                    continue
                changed = self._layout.update(model, latest[doc_id], one.source)
                actions[doc_id] = _update(self.index, doc_id, changed, one)
            return actions

        outcome = writing.write(self._client, self.address.server, latest, decide)
        self._stale = True
        return PutReport(len(outcome.done), sorted(outdated), {**admitted.refused, **outcome.refused, **theirs})

    def _read_fields(self) -> list[str]:
        return [*self.users.paths.values(), *(self._layout.name(one) for one in _STAMP)]

    def _still_of(self, held: ServerDocument, document: Document) -> bool:
        """Whether a document of theirs has the text still that ours was made of."""
        now = self.users.document(document.doc_id, held.source, assumed=document.lang)
        return isinstance(now, Document) and now.text_hash == document.text_hash

    def _bare(self, columns: Sequence[Any] = ()) -> dict[str, Any]:
        """By their own ids: who copies a document of theirs into another copies our column with it."""
        return {"_source": False, "docvalue_fields": list(columns)}

    def _create(self, model: str, dim: int) -> None:
        super()._create(model, dim)
        mapped = self._properties()[self._layout.ours]["properties"]["id"]
        if mapped.get("meta") != self.users.attachment.reads:
            self._put_mapping(self._layout.properties({}))

    def changed(self, model: str) -> dict[str, Any]:
        """What decides whether a document must be encoded again: its text, our hash, and the vector that is there."""
        return {
            "docvalue_fields": [{"field": self._layout.vector(model), "format": "binary"}],
            "source": {"includes": [*self._read_fields(), self._layout.check(model)]},
            "version": True,
        }

    def held(self, model: str, hits: Sequence[Mapping[str, Any]]) -> dict[str, Stamp]:
        """What is attached to some documents, as far as all of it belongs together still."""
        return {
            hit["_id"]: stamp
            for hit in hits
            if self._is_whole(model, hit) and (stamp := self._layout.stamp(hit["_source"]))
        }

    def _is_whole(self, model: str, hit: Mapping[str, Any]) -> bool:
        """Whether a document has all that we put: a writer may have written back what was read earlier, or in another.

        Vectors are in no source that is read, so what comes back has our hash without the vector, or beside another.
        """
        ours = self._layout.held(hit["_source"])
        (packed,) = hit.get("fields", {}).get(self._layout.vector(model), [""])
        return (
            all(ours.get(name) is not None for name in _STAMP)
            and ours.get("id") == hit["_id"]
            and values(hit["_source"], self._layout.check(model)) == [digest(packed)]
        )

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        """What is stored with a vector of this model."""
        self._refresh()
        vector = {"exists": {"field": self._layout.vector(model)}}
        stamps: dict[str, Stamp] = {}
        for page in pages(doc_ids):
            query = {"bool": {"filter": [{"ids": {"values": page}}, vector]}}
            (hits,) = self._msearch([{"size": len(page), "query": query, "_source": self._layout.stamp_fields(model)}])
            stamps |= {hit["_id"]: stamp for hit in hits if (stamp := self._layout.stamp(hit["_source"]))}
        return stamps

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents themselves, as they are now."""
        found = self._sources(doc_ids)
        return [self._layout.document(doc_id, found[doc_id]) for doc_id in doc_ids]

    def keep_fields(self, documents: Sequence[Document]) -> int:  # noqa: ARG002
        """Nothing is to be done: the fields are theirs, and where they were."""
        return 0

    def prune(self, without: int) -> int:  # noqa: ARG002
        """Nothing is to be done: what was attached went with the documents."""
        return 0

    def forget(self, doc_ids: Sequence[str]) -> int:
        """Empty our object in some documents; another writer's change meanwhile stays."""
        emptied = _empty(self._client, self.address.server, self.index, self._layout, doc_ids)
        self._stale = True
        return emptied

    def publish(self) -> None:
        """Let everything that was put be seen."""
        self._patiently(self._refresh)

    def drop(self) -> None:
        """Take what is attached from every document; the documents stay."""
        _empty_all(self._client, self.address.server, self.index, self._layout)
        self.close()


@dataclass(frozen=True)
class Detached:
    """What was taken from an index.

    Attributes:
        index: its name.
        emptied: documents in which our object was emptied.
        kept: documents that keep it, for their versions are their owner's.
        gone: whether the index is there no more, or another by its name.
    """

    index: str
    emptied: int = 0
    kept: int = 0
    gone: bool = False


def detach(attachment: Attachment, credentials: Credentials, *, index: str = "", uuid: str = "") -> Detached:
    """Empty our object in every document that has one, whatever else became of their index.

    Killed in the middle, the same call does the rest.

    Args:
        attachment: where it is, and what our object is called.
        credentials: who asks.
        index: own name of the index where the attachment names an alias, which may lead elsewhere since.
        uuid: its id; another index of that name is left alone.

    Raises:
        StoreError: the server is away or refuses.
    """
    server, name = attachment.server, index or attachment.index
    with connection.connect(server, credentials) as client:
        with connection.guarded(server):
            found = client.options(ignore_status=404).indices.get_settings(index=name, name="index.uuid").body
        ids = {one["settings"]["index"]["uuid"] for one in found.values()} if "error" not in found else set()
        if not ids or (uuid and uuid not in ids):
            return Detached(name, gone=True)
        done = [_empty_all(client, server, one, Layout(attachment.field)) for one in sorted(found)]
    return Detached(name, sum(emptied for emptied, _ in done), sum(kept for _, kept in done))


def _empty_all(client: Elasticsearch, server: str, index: str, layout: Layout) -> tuple[int, int]:
    """Empty our object until nothing is left that can be: how many documents that were, and how many keep it.

    Read by shard, where an id is one document's: copies that were placed by other routing values have the same id.
    """
    done = 0
    asked = {"query": {"bool": {"must": [{"exists": {"field": layout.name("id")}}]}}, "source": False, "version": True}
    while True:
        tops = writing.patiently(server, partial(changes.tops, client, server, index))[index].shards
        with connection.guarded(server):
            client.indices.refresh(index=index)
        emptied = kept = 0
        for shard, top in tops.items():
            search = changes.shard_search(client, server, index, shard)
            for hits in changes.pages(search, asked, PAGE, above=changes.NOTHING, upto=top.seq_no):
                theirs = [hit for hit in hits if entry_checks.is_external(hit)]
                routing = {hit["_id"]: hit["_routing"] for hit in hits if "_routing" in hit}
                kept += len(theirs)
                emptied += _empty(client, server, index, layout, [hit["_id"] for hit in hits], routing)
        done += emptied
        if not emptied:
            return done, kept


def _empty(
    client: Elasticsearch,
    server: str,
    index: str,
    layout: Layout,
    doc_ids: Sequence[str],
    routing: Mapping[str, str] | None = None,
) -> int:
    """Empty our object in some documents, but for those whose versions are their owner's, which a write would raise."""
    placed = routing or {}

    def decide(some: Sequence[str]) -> dict[str, Action]:
        held = writing.read(client, server, index, some, [layout.name("id"), layout.name("text_hash")], placed)
        return {
            doc_id: _update(index, doc_id, {layout.ours: None}, one, placed.get(doc_id))
            for doc_id, one in held.items()
            if layout.held(one.source).get("id") is not None
            and not entry_checks.is_external({"_version": one.version, "_seq_no": one.seq_no})
        }

    outcome = writing.write(client, server, doc_ids, decide)
    if outcome.refused:
        doc_id, reason = next(iter(outcome.refused.items()))
        raise StoreError(
            f"{index} keeps our field in {counted(len(outcome.refused), 'document')}, as in {doc_id} ({reason})"
        )
    return len(outcome.done)


def _update(
    index: str, doc_id: str, changed: Mapping[str, Any], held: ServerDocument, routing: str | None = None
) -> Action:
    placed = {"routing": routing} if routing is not None else {}
    return {"_op_type": "update", "_index": index, "_id": doc_id, "doc": changed, **held.unchanged, **placed}
