"""A store whose documents are somebody else's: titles and texts come from their index, whatever holds our vectors."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from indexer.elastic import changes
from indexer.stores.attached import entry_checks
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.contract import Candidates, Filters, Stamp
from indexer.stores.elastic.layout import Layout
from indexer.stores.elastic.store import ElasticStore, Hits


class _Seen(threading.local):
    """What one thread's search met: another's success must not bring back what this one found gone.

    Attributes:
        gone: ids that no search may bring: their documents are gone, though what is searched does not know it yet.
        brought: ids that the last search brought.
    """

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.brought: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class JoinedLayout(Layout):
    """Our object, beside documents of somebody else's index.

    Attributes:
        users: that index.
        seen: what is known of its documents in the midst of a search.
    """

    users: UsersIndex
    seen: _Seen = field(default_factory=_Seen, compare=False)

    def filters(self, lang: str, filters: Filters | None) -> list[dict[str, Any]]:
        """Clauses that let through what is there still, too."""
        clauses = super().filters(lang, filters)
        if self.seen.gone:
            clauses.append({"bool": {"must_not": [{"ids": {"values": sorted(self.seen.gone)}}]}})
        return clauses


class JoinedStore(ElasticStore, ABC):
    """Vectors of one collection that belong to documents of somebody else's index.

    Attributes:
        users: that index.
    """

    users: UsersIndex
    _layout: JoinedLayout

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> Self:
        """The same documents as somebody else may see them, theirs too."""
        other = super().narrowed(clauses, authorization)
        other.users = self.users.by(other._client)  # noqa: SLF001 - a copy of this one
        other._layout = replace(other._layout, users=other.users, seen=_Seen())  # noqa: SLF001
        return other

    @property
    def shown_index(self) -> str:
        """Name of their index."""
        return self.users.name

    def originals(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Their sources, without what is ours."""
        return self.users.sources(list(dict.fromkeys(doc_ids)), excludes=self.users.ours)

    @property
    @abstractmethod
    def mark(self) -> str:
        """What is another one when nothing of what was attached is there any more."""

    def check(self, model: str) -> None:
        """Refuse an index that vectors of a model can't be attached to without harm to its owner.

        Raises:
            BadInput: it is such a one; the sentence says what to do instead.
            StoreError: a right is missing.
        """
        entry_checks.check(self._client, self.users, model)

    def tops(self) -> Mapping[int, changes.ShardPosition]:
        """By shard of their index, up to where every write is complete; all of those are visible then."""

        def ask() -> Mapping[int, changes.ShardPosition]:
            tops = changes.tops(self._client, self.address.server, self.users.name)[self.users.name].shards
            self._client.indices.refresh(index=self.users.name)
            return tops

        return self._patiently(ask)

    def changes(self, model: str, shard: int, size: int, *, above: int, upto: int) -> Iterator[list[dict[str, Any]]]:
        """Documents of a shard last written between two numbers, a page at a time, in their order."""
        search = changes.shard_search(self._client, self.address.server, self.users.name, shard)

        def ask(body: Mapping[str, Any]) -> Mapping[str, Any]:
            return self._patiently(partial(search, body))

        return changes.pages(ask, self.changed(model), size, above=above, upto=upto)

    def count_changes(self, shard: int, *, above: int, upto: int) -> int:
        """How many documents those are."""
        within = {"range": {"_seq_no": {"gt": above, "lte": upto}}}
        return self._patiently(lambda: changes.count(self._client, self.users.name, within, f"_shards:{shard}"))

    def gone(self, doc_ids: Iterable[str]) -> set[str]:
        """Those of some ids that their index has no document of."""
        asked = list(doc_ids)
        return self._patiently(lambda: self.users.missing(asked))

    @abstractmethod
    def changed(self, model: str) -> dict[str, Any]:
        """The body of a search in their index for what decides whether a document must be encoded again."""

    @abstractmethod
    def held(self, model: str, hits: Sequence[Mapping[str, Any]]) -> dict[str, Stamp]:
        """What is attached to the documents of some hits of such a search, by id."""

    @abstractmethod
    def publish(self) -> None:
        """Let everything that was put be seen."""

    @abstractmethod
    def keep_fields(self, documents: Sequence[Document]) -> int:
        """Take over the user's fields of documents whose vectors stay; returns how many were written."""

    @abstractmethod
    def forget(self, doc_ids: Sequence[str]) -> int:
        """Take what is attached from some documents; returns of how many."""

    @abstractmethod
    def prune(self, without: int) -> int:
        """Forget documents that their index does not have any more.

        Args:
            without: how many documents their index has to which nothing is attached.
        """

    def _candidates(
        self, model: str, queries: Mapping[str, FloatArray], answers: Iterator[Hits], *, with_vectors: bool
    ) -> dict[str, list[Candidates]]:
        found = super()._candidates(model, queries, answers, with_vectors=with_vectors)
        self._layout.seen.brought = [doc_id for lists in found.values() for one in lists for doc_id in one.doc_ids]
        return found

    def _sources(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Their documents as they are now.

        Raises:
            KeyError: one is gone; the next search brings neither it nor others that are.
        """
        words, models = self._layout.name("words"), self._layout.name("models")
        found = self.users.sources(list(dict.fromkeys(doc_ids)), excludes=[words, models])
        gone = [doc_id for doc_id in doc_ids if doc_id not in found]
        if gone:
            self._layout.seen.gone.update(self.users.missing({*gone, *self._layout.seen.brought}))
            raise KeyError(gone[0])
        self._layout.seen.gone.clear()
        return found

    def delete(self, doc_ids: Iterable[str]) -> int:  # noqa: ARG002
        """Refuse: the documents are their owner's.

        Raises:
            BadInput: always.
        """
        raise BadInput(
            f"the documents of {self.users.name} are their owner's; delete them there, and give dragoman attach again"
        )
