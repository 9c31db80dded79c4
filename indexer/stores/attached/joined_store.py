"""A store for the documents of a user's index: titles and texts are read there, wherever the vectors are."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from encoders.document import Document
from encoders.errors import BadInput
from indexer.cluster import index_changes
from indexer.cluster.cluster_errors import IndexGone, NotAllowed
from indexer.stores.attached import attach_checks
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.server_index import Hits, ServerIndex
from indexer.stores.clustered.store import ServerStore
from indexer.stores.contract import Filters, NearestDocuments, Stamp, VectorQuery, in_order

_VIEW_SECONDS = 2.0
"""Seconds for which a view of a family's indices is kept, with what a user may read: to ask takes three requests."""


class Seen(threading.local):
    """State of one thread's searches; thread-local, so another thread's success does not reset ``gone``."""

    def __init__(self) -> None:
        self.gone: set[str] = set()  # ids that a search must leave out: deleted, but still in the searched index
        self.brought: Sequence[str] = ()  # ids that the last search returned


@dataclass(frozen=True, kw_only=True)
class JoinedLayout(Layout):
    """Layout of our object for the documents of a user's index, with the state of each thread's searches."""

    users: UsersIndex
    seen: Seen = field(default_factory=Seen, compare=False)

    def filters(self, lang: str, filters: Filters | None) -> list[dict[str, Any]]:
        """The clauses of ``Layout.filters``, and a clause that leaves deleted documents out."""
        clauses = super().filters(lang, filters)
        if self.seen.gone:
            clauses.append({"bool": {"must_not": [self.of_ids(sorted(self.seen.gone))]}})
        return clauses

    def of_ids(self, doc_ids: Sequence[str]) -> dict[str, Any]:
        """A query that finds documents by their ids."""
        return {"terms": {self.name("id"): doc_ids}}


class JoinedStore(ServerStore, ABC):
    """Vectors of one collection for the documents of a user's index, ``users``."""

    _layout: JoinedLayout

    def __init__(self, users: UsersIndex, index: ServerIndex, layout: JoinedLayout) -> None:
        """Use the user's open index, and the open index with our field."""
        super().__init__(users.attachment.address, index, layout)
        self.users = users
        self._views: Mapping[tuple[str, ...], tuple[float, Self, Mapping[str, int]]] = {}

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> Self:
        """A view of the store, and of the user's index, with another user's rights."""
        view = super().narrowed(clauses, authorization)
        view.users = self.users.by(view._index.client)  # noqa: SLF001 - a copy of this store
        view._layout = replace(view._layout, users=view.users, seen=Seen())  # noqa: SLF001
        return view

    @abstractmethod
    def within(self, names: Collection[str]) -> Self:
        """A view of the indices of a family that have these names."""

    def parts(self) -> list[Self]:
        """A view of each index of a family; of another index the store itself."""
        family = self.users.attachment.family
        return [self.within([member.name]) for member in self.users.members] if family else [self]

    def kept(self, remembered: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Names of indices by their marks, of those uuids and names which the server still has; none but a family's."""
        if not self.users.attachment.family:
            return {}
        ours = self.mark.removeprefix(self.users.uuid)
        index, members = self.users.index, {member.uuid for member in self.users.members}

        def has(uuid: str, name: str) -> bool:
            settings = index.client.indices.get_settings(index=name, name="index.uuid", ignore_unavailable=True)
            return any(entry["settings"]["index"]["uuid"] == uuid for entry in settings.values())

        return {
            f"{uuid}{ours}": name
            for uuid, name in remembered
            if uuid in members or index.retry_while_away(partial(has, uuid, name))
        }

    def visible(self, names: Sequence[str], authorization: str = "") -> tuple[Self, Mapping[str, int]]:
        """A view of the indices of a family that are among ``names`` and that a user may read, and its ``count``.

        Names may be aliases and patterns, all by default. Raises NotAllowed: the user may read none of the indices.
        """
        key, now = (authorization, *names), time.monotonic()
        views = {asked: kept for asked, kept in self._views.items() if now - kept[0] < _VIEW_SECONDS}
        if key not in views:
            view = self._visible(names, authorization)
            views[key] = now, view, view.count()
        self._views = views
        return views[key][1:]

    def _visible(self, names: Sequence[str], authorization: str) -> Self:
        from elasticsearch import NotFoundError  # noqa: PLC0415

        client = self.users.index.client
        if authorization:
            client = client.options(headers={"authorization": authorization})
        asked = list(names) or self.users.attachment.parts
        ask = partial(client.field_caps, index=asked, fields=[self._layout.ours])
        with self.users.index.store_errors():
            try:
                answer = ask()
            except NotFoundError:  # the server looks for an index once it has checked the rights to all
                answer = ask(ignore_unavailable=True)
        members = {member.name for member in self.users.members}
        visible = members.intersection(answer["indices"])
        if not visible:
            raise NotAllowed(f"{self.address.server} has no index that this user may read for {','.join(asked)}")
        return self if visible == members else self.within(visible)

    def count(self, model: str = "", *, patient: bool = False) -> dict[str, int]:
        """Number of documents by language. Raises IndexGone: the attachment's alias has moved to another index."""
        if self.users.attachment.family:
            return super().count(model, patient=patient)
        name = self.users.attachment.index
        with self._index.store_errors():
            described = self._index.client.indices.get_settings(index=name, name="index.uuid", ignore_unavailable=True)
        if any(entry["settings"]["index"]["uuid"] != self.users.uuid for entry in described.values()):
            raise IndexGone(
                f"{name} on {self.address.server} is another index than {self.users.name} by now; attach it: "
                "dragoman attach"
            )
        return super().count(model, patient=patient)

    def shown_place(self, doc_id: str) -> tuple[str, str]:
        """Name of the user's index that has a document, and the document's id there."""
        (place,) = self.users.index.places([doc_id])
        return place["_index"], place["_id"]

    def originals(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Sources in the user's index, without Dragoman's objects."""
        return self.users.sources(list(dict.fromkeys(doc_ids)), excludes=self.users.ours)

    @property
    @abstractmethod
    def mark(self) -> str:
        """An id of the place of the vectors; another id means that everything must be attached again."""

    def check(self, model: str) -> None:
        """Refuse an index that vectors can't be attached to without harm to its owner. Raises BadInput, with advice."""
        attach_checks.check(self._index.client, self.users, model)

    def last_writes(self) -> Mapping[int, index_changes.ShardPosition]:
        """By shard of the user's index, the last complete write; a refresh makes all writes up to it visible."""

        def ask() -> Mapping[int, index_changes.ShardPosition]:
            client, name = self.users.index.client, self.users.name
            positions = index_changes.last_writes(client, self.address.server, name)[name].shards
            client.indices.refresh(index=name)
            return positions

        return self.users.index.retry_while_away(ask)

    def changes(self, model: str, shard: int, size: int, *, above: int, upto: int) -> Iterator[list[dict[str, Any]]]:
        """Hits of a shard with a sequence number in (above, upto], ordered by that number, a page at a time."""
        search = index_changes.shard_search(self.users.index.client, self.address.server, self.users.name, shard)

        def retried_search(body: Mapping[str, Any]) -> Mapping[str, Any]:
            return self.users.index.retry_while_away(partial(search, body))

        for hits in index_changes.pages(retried_search, self.change_body(model), size, above=above, upto=upto):
            yield [{**hit, "_id": self.users.index.id_of(hit)} for hit in hits]

    def count_changes(self, shard: int, *, above: int, upto: int) -> int:
        """Number of documents of a shard with a sequence number in (above, upto]."""
        query = {"range": {"_seq_no": {"gt": above, "lte": upto}}}
        index = self.users.index
        return index.retry_while_away(lambda: index_changes.count(index.client, index.name, query, f"_shards:{shard}"))

    def gone(self, doc_ids: Iterable[str]) -> set[str]:
        """The ids for which the user's index has no document."""
        listed = list(doc_ids)
        return self.users.index.retry_while_away(lambda: self.users.missing(listed))

    @abstractmethod
    def change_body(self, model: str) -> dict[str, Any]:
        """Search body that reads, in the user's index, what decides whether a document must be encoded again."""

    @abstractmethod
    def held(self, model: str, hits: Sequence[Mapping[str, Any]]) -> dict[str, Stamp]:
        """Stamps of the documents among ``hits`` (found with ``change_body``) that have vectors attached, by id."""

    @abstractmethod
    def drop(self) -> None:
        """Remove everything that was attached."""

    @abstractmethod
    def keep_fields(self, documents: Sequence[Document]) -> int:
        """Store the user's fields of documents whose vectors stay; returns the number of documents written."""

    @abstractmethod
    def forget(self, doc_ids: Sequence[str]) -> int:
        """Remove what is attached to documents; returns the number of documents changed."""

    @abstractmethod
    def prune(self, without: int, users: UsersIndex | None = None, kept: Collection[str] = ()) -> int:
        """Forget documents that the user's index lost; returns how many. ``without``: its documents without vectors.

        ``users`` are the indices that were read, by default all; documents of indices that are ``kept`` stay.
        """

    def _candidates(self, query: VectorQuery, answers: Sequence[Hits]) -> dict[str, list[NearestDocuments]]:
        candidates = super()._candidates(query, answers)
        self._layout.seen.brought = [
            doc_id for by_query in candidates.values() for hits in by_query for doc_id in hits.doc_ids
        ]
        return candidates

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents, as they are now in the user's index.

        Raises MissingDocuments: a document is gone, or nothing is attached to it any more; this thread's searches leave
        it out until a call finds all of its documents.
        """
        words, models = self._layout.name("words"), self._layout.name("models")
        documents = self._documents(self.users.sources(list(dict.fromkeys(doc_ids)), excludes=[words, models]))
        gone, seen = set(doc_ids) - documents.keys(), self._layout.seen
        if gone:
            seen.gone |= gone | self._missing(seen.brought)
        else:
            seen.gone.clear()
        return in_order(documents, doc_ids)

    def _missing(self, doc_ids: Sequence[str]) -> set[str]:
        """The ids that ``get`` has no document for."""
        return self.users.missing(doc_ids)

    @abstractmethod
    def _documents(self, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Document]:
        """The documents of current sources in the user's index, by id, if vectors are attached to them."""

    def delete(self, doc_ids: Iterable[str]) -> int:  # noqa: ARG002
        """Refuse to delete: the documents belong to the user."""
        raise BadInput(
            f"the documents of {self.users.name} are their owner's; delete them there, and give dragoman attach again"
        )
