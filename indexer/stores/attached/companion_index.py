"""Vectors for somebody else's index that may not be touched: an index of our own beside it, joined by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

from encoders.document import Document
from encoders.errors import BadInput
from indexer.elastic import changes, connection
from indexer.elastic.address import Credentials
from indexer.elastic.paging import PAGE, pages
from indexer.stores.attached.address import Attachment
from indexer.stores.attached.base import JoinedLayout, JoinedStore
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.contract import EditedDocument, Stamp, StoredDocument
from indexer.stores.elastic import writing
from indexer.stores.elastic.store import ElasticStore
from indexer.stores.elastic.writing import Action, ServerDocument


@dataclass(frozen=True, kw_only=True)
class CompanionLayout(JoinedLayout):
    """Our own index without titles and texts: those are read where they are."""

    def source(self, model: str, item: StoredDocument) -> dict[str, Any]:
        """A document as it is written."""
        written = super().source(model, item)
        return {name: value for name, value in written.items() if name not in {"title", "text"}}

    def document(self, doc_id: str, source: Mapping[str, Any]) -> Document:
        """What is known here of a document."""
        ours = source[self.ours]
        return Document(doc_id, ours["lang"], "", "", source["fields"], ours["revision"])


class CompanionStore(JoinedStore):
    """Vectors of one collection, in an index of our own, of documents in somebody else's."""

    _layout: CompanionLayout

    def __init__(
        self, attachment: Attachment, collection: str, credentials: Credentials, *, make: bool = True, owner: str = ""
    ) -> None:
        """Reach the server, see what their index is, and make ours where there is none.

        Raises:
            BadInput: theirs is gone, or has become something that can't be attached to; or ours is somebody else's.
            StoreError: the server is away, too old, or refuses; or ours is not there and must be.
        """
        ElasticStore.__init__(
            self, attachment.address, collection, credentials, make=make, owner=owner, attached=attachment.index
        )
        try:
            self.users = UsersIndex.open(self._client, attachment)
        except BaseException:
            self.close()
            raise
        self._layout = CompanionLayout(attachment.field, users=self.users)

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> Self:
        """The same documents as somebody else may see them.

        Raises:
            BadInput: a clause is given: it is of their index, and the vectors are searched in ours.
        """
        if clauses:
            raise BadInput(
                f"the vectors of {self.users.name} are in an index beside it, where filters are term and terms only"
            )
        return super().narrowed(clauses, authorization)

    @property
    def mark(self) -> str:
        """What is another one when nothing of what was attached is there any more."""
        with self._guarded():
            settings = self._client.indices.get_settings(index=self.index, name="index.uuid")
        return f"{self.users.uuid} {settings[self.index]['settings']['index']['uuid']}"

    def changed(self, model: str) -> dict[str, Any]:  # noqa: ARG002
        """What decides whether a document must be encoded again, and its fields, which are kept for filters."""
        return {"source": {"excludes": self.users.ours}, "version": True}

    def held(self, model: str, hits: Sequence[Mapping[str, Any]]) -> dict[str, Stamp]:
        """What is attached to the documents of some hits."""
        return self.stamps(model, [hit["_id"] for hit in hits])

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents themselves, as they are now in their index."""
        found = self._sources(doc_ids)
        with self._guarded():
            held: dict[str, ServerDocument] = {}
            for page in pages(doc_ids):
                fields = [self._layout.name("lang"), self._layout.name("text_hash")]
                held |= writing.read(self._client, self.address.server, self.index, page, fields)
        ours = {doc_id: one.source[self._layout.ours] for doc_id, one in held.items()}
        return [
            EditedDocument.unless(
                self.users.shown(doc_id, found[doc_id], ours[doc_id]["lang"]), ours[doc_id]["text_hash"]
            )
            for doc_id in doc_ids
        ]

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        """Everything that is in both indices, in batches, ordered by id."""
        for page in super().scan(model, lang=lang, batch=batch):
            found = self.users.sources([item.document.doc_id for item in page])
            yield [
                replace(item, document=self.users.shown(item.document.doc_id, source, item.document.lang))
                for item in page
                if (source := found.get(item.document.doc_id)) is not None
            ]

    def keep_fields(self, documents: Sequence[Document]) -> int:
        """Take over the user's fields of documents whose vectors stay: filters compare with them here."""
        latest = {document.doc_id: document for document in documents}

        def decide(doc_ids: Sequence[str]) -> dict[str, Action]:
            actions = {}
            for doc_id, one in self._whole(doc_ids).items():
                source = {**one.source, "fields": dict(latest[doc_id].fields)}
                source[self._layout.ours] = {
                    **source[self._layout.ours],
                    "fields_hash": latest[doc_id].fields_hash,
                }
                how = {"_op_type": "index", "_index": self.index, "_id": doc_id, **one.unchanged}
                actions[doc_id] = {**how, "_source": source}
            return actions

        outcome = writing.write(self._client, self.address.server, latest, decide)
        self._stale = True
        return len(outcome.done)

    def _whole(self, doc_ids: Sequence[str]) -> dict[str, ServerDocument]:
        """Documents of our index with their vectors."""
        answer = self._client.perform_request(
            "POST",
            f"/{self.index}/_mget",
            params={"_source_exclude_vectors": "false"},
            headers={"content-type": "application/json", "accept": "application/json"},
            body={"ids": list(doc_ids)},
        )
        return {
            one["_id"]: ServerDocument(one["_source"], one["_seq_no"], one["_primary_term"])
            for one in connection.found(self.address.server, self.index, answer.body["docs"])
        }

    def forget(self, doc_ids: Sequence[str]) -> int:
        """Remove some documents from our index."""
        return ElasticStore.delete(self, doc_ids)

    def prune(self, without: int) -> int:
        """Remove what their index does not have any more; looked for only where the counts tell that there is some."""
        self._patiently(self._refresh)
        theirs = self._patiently(lambda: changes.count(self._client, self.users.name))
        ours = self._patiently(lambda: changes.count(self._client, self.index))
        if ours + without <= theirs:
            return 0
        listed = self.ids()
        gone: list[str] = []
        while page := list(islice(listed, PAGE)):
            gone += self.gone(page)
        return self.forget(gone) if gone else 0

    def _refuse_taken_alias(self) -> set[str]:
        """It has none."""
        return set()

    def _lost(self) -> str:
        return (
            f"the index {self.index} is gone from {self.address.server}; bring it back, or let it be made again "
            f"(dragoman attach -c {self._claim.collection})"
        )

    def publish(self) -> None:
        """Give our index its replicas and its refreshes; it needs no alias, for nobody else reads it."""
        self._patiently(self._end_loading)
