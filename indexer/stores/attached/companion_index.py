"""Vectors for a user's index that must not be changed: Dragoman's own index beside it, joined by document id."""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Self

from encoders.document import Document
from encoders.errors import BadInput
from indexer.cluster import cluster_client, index_changes
from indexer.cluster.cluster_address import Credentials
from indexer.cluster.cluster_client import PAGE
from indexer.stores.attached.attached_address import Attachment
from indexer.stores.attached.joined_store import JoinedLayout, JoinedStore, Seen
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.clustered.document_layout import VectorFields
from indexer.stores.clustered.own_index import Claim, OwnIndex, check_name
from indexer.stores.clustered.server_index import ServerIndex
from indexer.stores.clustered.writing import Action
from indexer.stores.contract import EditedDocument, Stamp, StoredDocument


@dataclass(frozen=True, kw_only=True)
class CompanionLayout(JoinedLayout):
    """Layout of our own index, without titles and texts: they are read in the user's index."""

    def source(self, model: str, item: StoredDocument, fields: VectorFields) -> dict[str, Any]:
        """The source to write for a document; ``fields`` are the model's."""
        source = super().source(model, item, fields)
        return {name: value for name, value in source.items() if name not in {"title", "text"}}

    def document(self, doc_id: str, source: Mapping[str, Any]) -> Document:
        """The document of a source, without title and text."""
        ours = source[self.ours]
        return Document(doc_id, ours["lang"], "", "", source["fields"], ours["revision"])


class CompanionStore(JoinedStore):
    """Vectors of one collection in our own index, for the documents of a user's index."""

    _index: OwnIndex

    def __init__(
        self,
        attachment: Attachment,
        collection: str,
        credentials: Credentials,
        *,
        make: bool = True,
        database_id: str = "",
    ) -> None:
        """Connect to the server, read the user's index's description, and create our index if it is missing.

        Raises BadInput: vectors can't be attached to the user's index any more, or our index belongs to somebody else;
        StoreError: the server is away, too old, or refuses; or our index is missing and ``make`` is false.
        """
        check_name(collection)
        with cluster_client.opening(attachment.server, credentials) as (client, abilities):
            index = OwnIndex.of(client, attachment.address, Claim(collection, database_id, attachment.index))
            index.open(make=make)
            users = UsersIndex.open(client, attachment)
        super().__init__(users, index, CompanionLayout(attachment.field, abilities=abilities, users=users))

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> Self:
        """A view with another user's rights. Raises BadInput: there are clauses, which are for the user's index."""
        if clauses:
            raise BadInput(
                f"the vectors of {self.users.name} are in an index beside it, where filters are term and terms only"
            )
        return super().narrowed(clauses, authorization)

    def within(self, names: Collection[str]) -> Self:
        """A view of some indices of a family: our index is filtered by their documents' ids."""
        view = copy.copy(self)
        view.users = self.users.within(names)
        ids = [{"prefix": {self._layout.name("id"): f"{name}/"}} for name in sorted(names)]
        view._layout = replace(  # noqa: SLF001 - a copy of this store
            self._layout, users=view.users, seen=Seen(), also=({"bool": {"should": ids}},)
        )
        return view

    @property
    def mark(self) -> str:
        """Uuids of the user's index and of our index."""
        (own_uuid,) = self._index.uuids()
        return f"{self.users.uuid} {own_uuid}"

    def change_body(self, model: str) -> dict[str, Any]:  # noqa: ARG002
        """Search body for the whole source without our objects: texts decide on encoding, fields serve filters."""
        return {"source": {"excludes": self.users.ours}, "version": True}

    def held(self, model: str, hits: Sequence[Mapping[str, Any]]) -> dict[str, Stamp]:
        """Stamps of what is attached to the documents of the hits, by id."""
        return self.stamps(model, [hit["_id"] for hit in hits])

    def _documents(self, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Document]:
        stored = self._index.read_pages(sources, [self._layout.name("lang"), self._layout.name("text_hash")])
        ours = {doc_id: document.source[self._layout.ours] for doc_id, document in stored.items()}
        return {
            doc_id: EditedDocument.unless(self.users.shown(doc_id, sources[doc_id], stamp["lang"]), stamp["text_hash"])
            for doc_id, stamp in ours.items()
        }

    def _missing(self, doc_ids: Sequence[str]) -> set[str]:
        held = self._index.read_pages(doc_ids, [self._layout.name("lang")])
        return super()._missing(doc_ids) | (set(doc_ids) - held.keys())

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        """The documents that are in both indices, in batches, ordered by id."""
        for page in super().scan(model, lang=lang, batch=batch):
            sources = self.users.sources([item.document.doc_id for item in page])
            yield [
                replace(item, document=self.users.shown(item.document.doc_id, source, item.document.lang))
                for item in page
                if (source := sources.get(item.document.doc_id)) is not None
            ]

    def keep_fields(self, documents: Sequence[Document]) -> int:
        """Store the user's fields of documents whose vectors stay: filters compare with the fields in our index."""
        latest = {document.doc_id: document for document in documents}

        def decide(doc_ids: Sequence[str]) -> dict[str, Action]:
            actions = {}
            for doc_id, stored in self._index.read_with_vectors(doc_ids, self._layout.abilities).items():
                source = {**stored.source, "fields": dict(latest[doc_id].fields)}
                source[self._layout.ours] = {**source[self._layout.ours], "fields_hash": latest[doc_id].fields_hash}
                action = {"_op_type": "index", "_index": self.index, "_id": doc_id, **stored.unchanged}
                actions[doc_id] = {**action, "_source": source}
            return actions

        return len(self._index.write(latest, decide).done)

    def forget(self, doc_ids: Sequence[str]) -> int:
        """Remove documents from our index."""
        return self._index.delete(doc_ids)

    def prune(self, without: int, users: UsersIndex | None = None, kept: Collection[str] = ()) -> int:
        """Remove documents that the user's index lost; ids are compared only if the counts show that there are any."""
        index, users = self._index, users or self.users
        index.retry_while_away(index.refresh)
        users_count = sum(_count(member.index) for member in users.members)
        prefixes = tuple(f"{name}/" for name in sorted(kept))
        of_kept = [{"prefix": {self._layout.name("id"): prefix}} for prefix in prefixes]
        if _count(index, {"bool": {"must_not": of_kept}}) + without <= users_count:
            return 0
        doc_ids = (doc_id for doc_id in self.ids() if not doc_id.startswith(prefixes))
        gone: list[str] = []
        while page := list(islice(doc_ids, PAGE)):
            gone += users.index.retry_while_away(partial(users.missing, page))
        return self.forget(gone) if gone else 0

    def drop(self) -> None:
        """Remove our index."""
        self._index.drop()
        self.close()


def _count(index: ServerIndex, query: Mapping[str, Any] | None = None) -> int:
    return index.retry_while_away(lambda: index_changes.count(index.client, index.name, query))
