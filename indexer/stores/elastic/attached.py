"""Vectors in somebody else's index: our object field beside theirs, written so that their writes always win."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encoders.document import Document, short_hash
from encoders.errors import StoreError
from indexer.stores.admission import admit
from indexer.stores.contract import Edited, PutReport, Stamp, StoredDocument
from indexer.stores.elastic import connection, writing
from indexer.stores.elastic.attachment import Attachment
from indexer.stores.elastic.connection import Credentials
from indexer.stores.elastic.joined import JoinedLayout, JoinedStore
from indexer.stores.elastic.layout import Layout
from indexer.stores.elastic.paging import PAGE, pages
from indexer.stores.elastic.users_index import UsersIndex
from indexer.stores.elastic.values import values
from indexer.stores.elastic.writing import Action, Held

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
        ours = source.get(self.ours) or {}
        return Edited.unless(self.users.shown(doc_id, source, ours.get("lang", "")), ours.get("text_hash", ""))

    def check(self, model: str) -> str:
        """Where the digest of a document's vector stands in its source: the mapping does not know it."""
        return self.name("models", model, "check")

    def update(self, model: str, item: StoredDocument, held: Mapping[str, Any]) -> dict[str, Any]:
        """Our object as an update merges it into the one that is there: words of another language go."""
        made = self.object(model, item)
        made["models"][model]["check"] = digest(made["models"][model]["vector"])
        before = (held.get(self.ours) or {}).get("lang")
        if before and before != item.document.lang:
            made["words"][before] = None
        return {self.ours: made}


def digest(packed: str) -> str:
    """What tells a packed vector from others."""
    return short_hash(base64.b64decode(packed))


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

        def decide(doc_ids: Sequence[str]) -> dict[str, Action]:
            held = writing.read(self._client, self.address.server, self.index, doc_ids, self._read_fields())
            actions = {}
            for doc_id in doc_ids:
                one = held.get(doc_id)
                if one is None or not self._still_of(one, latest[doc_id].document):
                    outdated.add(doc_id)
                    continue
                changed = self._layout.update(model, latest[doc_id], one.source)
                actions[doc_id] = _update(self.index, doc_id, changed, one)
            return actions

        outcome = writing.write(self._client, self.address.server, latest, decide)
        self._stale = True
        return PutReport(len(outcome.done), sorted(outdated), {**admitted.refused, **outcome.refused})

    def _read_fields(self) -> list[str]:
        return [*self.users.paths.values(), *(self._layout.name(one) for one in _STAMP)]

    def _still_of(self, held: Held, document: Document) -> bool:
        """Whether a document of theirs has the text still that ours was made of."""
        now = self.users.document(document.doc_id, held.source, assumed=document.lang)
        return isinstance(now, Document) and now.text_hash == document.text_hash

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
        ours = hit["_source"].get(self._layout.ours) or {}
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


def detach(attachment: Attachment, credentials: Credentials) -> int:
    """Empty our object in every document that has one, whatever else became of their index; returns how many.

    Killed in the middle, the same call does the rest.

    Raises:
        StoreError: the server is away or refuses.
    """
    server = attachment.server
    with connection.connect(server, credentials) as client:
        with connection.guarded(server):
            if not client.indices.exists(index=attachment.index):
                return 0
        return _empty_all(client, server, attachment.index, Layout(attachment.field))


def _empty_all(client: Elasticsearch, server: str, index: str, layout: Layout) -> int:
    emptied = 0
    while True:
        with connection.guarded(server):
            client.indices.refresh(index=index)
            ours = {"exists": {"field": layout.name("id")}}
            found = client.search(index=index, size=PAGE, source=False, query=ours, allow_partial_search_results=False)
        doc_ids = [hit["_id"] for hit in found["hits"]["hits"]]
        if not doc_ids:
            return emptied
        emptied += _empty(client, server, index, layout, doc_ids)


def _empty(client: Elasticsearch, server: str, index: str, layout: Layout, doc_ids: Sequence[str]) -> int:
    def decide(some: Sequence[str]) -> dict[str, Action]:
        held = writing.read(client, server, index, some, [layout.name("id")])
        return {
            doc_id: _update(index, doc_id, {layout.ours: None}, one)
            for doc_id, one in held.items()
            if (one.source.get(layout.ours) or {}).get("id") is not None
        }

    outcome = writing.write(client, server, doc_ids, decide)
    if outcome.refused:
        doc_id, reason = next(iter(outcome.refused.items()))
        raise StoreError(f"{index} keeps our field in {len(outcome.refused)} documents, as in {doc_id} ({reason})")
    return len(outcome.done)


def _update(index: str, doc_id: str, changed: Mapping[str, Any], held: Held) -> Action:
    return {"_op_type": "update", "_index": index, "_id": doc_id, "doc": changed, **held.unchanged}
