"""An index on a server: reads, writes and searches of it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from indexer.cluster import cluster_client, cluster_errors
from indexer.cluster.cluster_client import JSON, Abilities, pages
from indexer.stores.clustered import writing
from indexer.stores.clustered.writing import Action, BulkOutcome

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_MAX_HITS = 20_000
"""Maximum hits of one request: with vectors, 20,000 × 384 numbers are 40 MB to transfer in base64, 90 as digits."""
_PAUSES = (0.2, 0.5)
"""Seconds before a refused search is sent again: a queue of searches is full for a moment, and a caller waits."""

T = TypeVar("T")

Hits = list[dict[str, Any]]
"""The hits of one search, in the server's format."""


@dataclass(frozen=True)
class ServerDocument:
    """A document as the server stores it: the requested fields of its source, and the numbers of its last write."""

    source: Mapping[str, Any]
    seq_no: int
    primary_term: int
    version: int

    @property
    def unchanged(self) -> dict[str, int]:
        """Parameters of a write that succeeds only if the document is still in this state."""
        return {"if_seq_no": self.seq_no, "if_primary_term": self.primary_term}


@dataclass(eq=False)
class ServerIndex:
    """An index on a server."""

    client: "Elasticsearch"
    server: str  # the server's name in messages
    name: str
    id_field: str  # the column of ids, for hits without ``_id``
    remedy: str  # what to do if the index is gone, as the end of a sentence
    stale: bool = True  # whether searches may miss writes of this process

    @property
    def lost(self) -> str:
        """The message for a missing index."""
        return f"the index {self.name} is gone from {self.server}; bring it back, or {self.remedy}"

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Raise the server's failures as a ``StoreError``; a missing index is ``IndexGone``."""
        from elasticsearch import NotFoundError  # noqa: PLC0415

        try:
            with cluster_client.store_errors(self.server):
                yield
        except (NotFoundError, cluster_errors.IndexGone) as error:
            raise cluster_errors.IndexGone(self.lost) from error

    def retry_while_away(self, act: Callable[[], T]) -> T:
        """Call ``act``, and call it again while the server restarts: an index run must outlast a restart."""
        with self.store_errors():
            return writing.retry_while_away(self.server, act)

    def properties(self) -> Mapping[str, Any]:
        """The mapped fields."""
        with self.store_errors():
            answer = self.client.indices.get_mapping(index=self.name)
        properties: Mapping[str, Any] = answer[self.name]["mappings"].get("properties", {})
        return properties

    def uuids(self) -> frozenset[str]:
        """Uuids of the index, or of a family's indices: an index made anew has another."""
        with self.store_errors():
            described = self.client.indices.get_settings(index=self.name, name="index.uuid")
        return frozenset(entry["settings"]["index"]["uuid"] for entry in described.values())

    def put_mapping(self, properties: Mapping[str, Any]) -> None:
        """Add fields to the mapping."""
        with self.store_errors():
            self.client.indices.put_mapping(index=self.name, properties=properties)

    def places(self, doc_ids: Iterable[str]) -> list[dict[str, Any]]:
        """Where the server has documents, as ``_mget`` and ``_bulk`` name them."""
        return [{"_index": self.name, "_id": doc_id} for doc_id in doc_ids]

    def id_of(self, hit: Mapping[str, Any]) -> str:
        """The id that a document of the server has here."""
        return str(hit["_id"])

    def ids_query(self, doc_ids: Iterable[str]) -> dict[str, Any]:
        """A query that finds documents by their ids."""
        return {"ids": {"values": sorted(doc_ids)}}

    def read(
        self, doc_ids: Sequence[str], fields: Sequence[str], *, excludes: Sequence[str] = (), as_searched: bool = False
    ) -> dict[str, ServerDocument]:
        """Current documents by id, ``as_searched`` those of the last refresh; ids without a document are left out."""
        places = self.places(doc_ids)
        if not places:
            return {}
        wanted: dict[str, Any] = {"source_includes": list(fields), "source_excludes": list(excludes)}
        answer = self.client.mget(index=self.name, docs=places, realtime=not as_searched, **wanted)
        return self._by_id(answer["docs"])

    def read_pages(
        self, doc_ids: Iterable[str], fields: Sequence[str], *, as_searched: bool = False
    ) -> dict[str, ServerDocument]:
        """Documents by any number of ids, as by ``read``."""
        documents: dict[str, ServerDocument] = {}
        with self.store_errors():
            for page in pages(list(dict.fromkeys(doc_ids))):
                documents |= self.read(page, fields, as_searched=as_searched)
        return documents

    def read_with_vectors(
        self,
        doc_ids: Sequence[str],
        abilities: Abilities,
        field: str = "",
        places: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> dict[str, ServerDocument]:
        """Current documents by id with their vectors; if a field is named, the sources have this field alone.

        ``places`` has ``routing`` by id.
        """
        parameters = {"_source_exclude_vectors": "false"} if abilities.hidden_vectors else {}
        answer = self.client.perform_request(
            "POST",
            f"/{self.name}/_mget",
            params=parameters | ({"_source_includes": field} if field else {}),
            headers=JSON,
            body={"docs": [{**place, **places.get(self.id_of(place), {})} for place in self.places(doc_ids)]},
        )
        return self._by_id(answer.body["docs"])

    def existing(self, answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The documents that exist, from the answers of an ``_mget``."""
        return cluster_client.existing_documents(self.server, self.name, answers)

    def _by_id(self, answers: Iterable[Mapping[str, Any]]) -> dict[str, ServerDocument]:
        return {
            self.id_of(hit): ServerDocument(
                hit.get("_source", {}), hit["_seq_no"], hit["_primary_term"], hit["_version"]
            )
            for hit in self.existing(answers)
        }

    def write(self, doc_ids: Iterable[str], decide: Callable[[Sequence[str]], Mapping[str, Action]]) -> BulkOutcome:
        """Write the actions decided for documents (``writing.write``). Raises IndexGone: the index is gone."""
        with self.store_errors():
            outcome = writing.write(self.client, self.server, doc_ids, decide)
        self.stale = True
        return outcome

    def delete(self, doc_ids: Iterable[str]) -> int:
        """Delete documents; returns how many there were."""

        def decide(page_ids: Sequence[str]) -> dict[str, Action]:
            return {doc_id: {"_op_type": "delete", "_index": self.name, "_id": doc_id} for doc_id in page_ids}

        return sum(len(self.write(page, decide).done) for page in pages(list(dict.fromkeys(doc_ids))))

    def refresh(self) -> None:
        """Refresh the index if this process wrote to it, or while it is filled for the first time."""
        if self.stale:
            with self.store_errors():
                self.client.indices.refresh(index=self.name)
            self.stale = False

    def refresh_foreign_writes(self) -> None:
        """Show searches other processes' writes; without the right to refresh, searches see them a second later."""
        from elasticsearch import AuthorizationException  # noqa: PLC0415

        with self.store_errors(), suppress(AuthorizationException):
            self.client.indices.refresh(index=self.name)

    def publish(self) -> None:
        """Make all writes visible to searches."""
        self.retry_while_away(self.refresh)

    def search(self, bodies: Iterable[Mapping[str, Any]]) -> list[Hits]:
        """The hits of several searches, in requests of at most ``_MAX_HITS`` hits."""
        answers: list[Hits] = []
        batch: list[Mapping[str, Any]] = []
        for body in bodies:
            if batch and sum(queued["size"] for queued in batch) + body["size"] > _MAX_HITS:
                answers += self._search_at_once(batch)
                batch = []
            batch.append(body)
        return [*answers, *(self._search_at_once(batch) if batch else ())]

    def _search_at_once(self, bodies: Sequence[Mapping[str, Any]]) -> list[Hits]:
        """The hits of several searches in one request; those that a full queue refused are sent again, after pauses."""
        header = {"index": self.name, "allow_partial_search_results": False}
        answers: dict[int, Hits] = {}
        pauses = iter(_PAUSES)
        while True:
            waiting = [number for number in range(len(bodies)) if number not in answers]
            refused: cluster_errors.SearchRefused | None = None
            searches = [part for number in waiting for part in (header, bodies[number])]
            with self.store_errors():
                responses = self.client.msearch(searches=searches)["responses"]
            for number, response in zip(waiting, responses, strict=True):
                if "error" not in response:
                    answers[number] = self._with_ids(response["hits"]["hits"])
                    continue
                reason = cluster_errors.reason(response)
                if reason.startswith("index_not_found_exception"):
                    raise cluster_errors.IndexGone(self.lost)
                refused = cluster_errors.SearchRefused(self.server, int(response.get("status", 500)), reason)
                if not cluster_errors.is_temporary(refused):
                    raise refused
            if refused is None:
                return [answers[number] for number in range(len(bodies))]
            pause = next(pauses, None)
            if pause is None:
                raise refused
            time.sleep(pause)

    def _with_ids(self, hits: Hits) -> Hits:
        """Give hits their ``_id``, if need be from the id column. Raises NotAllowed: the server hides the column."""
        for hit in hits:
            if "_id" not in hit and self.id_field not in hit.get("fields", {}):
                raise cluster_errors.NotAllowed(f"{self.server} hides {self.id_field} of {self.name} from this user")
            hit["_id"] = self.id_of(hit) if "_id" in hit else hit["fields"][self.id_field][0]
        return hits
