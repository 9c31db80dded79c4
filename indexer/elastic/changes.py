"""What changed in an index, by shard and sequence number.

Every write in a shard gets the next number, and a document carries that of its last write. So "above the number where I
stopped" is what changed since, on any day, after any restart; no point in time has to live that long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from indexer.elastic import connection, errors

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

NOTHING = -1
"""The number before the first."""

Search = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Asks for one page: the body of a search in, the server's answer out."""


@dataclass(frozen=True)
class ShardPosition:
    """Where the writes of a shard have come to.

    Attributes:
        seq_no: the number up to which every write is complete on all copies.
        history: id of the numbering. A snapshot that is restored over an index keeps the index's uuid and counts
            anew from an earlier number, in another history. Empty where the server does not tell.
    """

    seq_no: int
    history: str = ""


@dataclass(frozen=True)
class IndexPosition:
    """Where an index's writes have come to.

    Attributes:
        uuid: of the index.
        shards: where they have come to in each.
    """

    uuid: str
    shards: Mapping[int, ShardPosition]


def tops(client: Elasticsearch, server: str, index: str) -> dict[str, IndexPosition]:
    """Where the writes of an index, or of each that a name stands for, have come to; a refresh afterwards shows them.

    Raises:
        NotFoundError: there is no such index.
        Passing: a shard has no primary, or one that starts still.
        StoreError: the server is away or refuses.
    """
    with connection.guarded(server):
        settings = client.indices.get_settings(index=index, name="index.number_of_shards", expand_wildcards="open").body
        answered = client.indices.stats(index=index, level="shards", metric="docs")["indices"]
    found = {}
    for name, one in settings.items():
        shards = {
            int(number): ShardPosition(copy["seq_no"]["global_checkpoint"], _history(copy))
            for number, copies in answered.get(name, {"shards": {}})["shards"].items()
            for copy in copies
            if copy["routing"]["primary"] and "seq_no" in copy  # which it lacks while it starts
        }
        if len(shards) < int(one["settings"]["index"]["number_of_shards"]):
            raise errors.TemporaryFailure(
                f"{server} does not answer for all shards of {name}; see _cluster/health, and run this again"
            )
        found[name] = IndexPosition(answered[name]["uuid"], dict(sorted(shards.items())))
    return found


def _history(copy: Mapping[str, Any]) -> str:
    return str(copy.get("commit", {}).get("user_data", {}).get("history_uuid", ""))


def count(
    client: Elasticsearch, index: str, query: Mapping[str, Any] | None = None, preference: str | None = None
) -> int:
    """How many documents an index has, or of those that a query finds: of all of its shards, or it is refused."""
    answer = client.search(
        index=index,
        size=0,
        query=query,
        preference=preference,
        track_total_hits=True,
        allow_partial_search_results=False,
    )
    return int(answer["hits"]["total"]["value"])


def shard_search(client: Elasticsearch, server: str, index: str, shard: int) -> Search:
    """A search in one shard as it is now."""
    only = f"_shards:{shard}"

    def search(body: Mapping[str, Any]) -> Mapping[str, Any]:
        with connection.guarded(server):
            answer = client.search(index=index, preference=only, allow_partial_search_results=False, **body)
        return dict(answer.body)

    return search


def pages(
    search: Search, body: Mapping[str, Any], size: int, *, above: int, upto: int | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Hits of one shard in the order of their numbers, a page at a time; ``hit["_seq_no"]`` is each one's.

    Args:
        search: asks the shard.
        body: what else to ask; a ``query`` in it may be a ``bool`` without ``filter``.
        size: hits a page.
        above: the number where an earlier reading stopped.
        upto: the last number to read.
    """
    query = dict(body.get("query", {}).get("bool", {}))
    while True:
        within = {"gt": above} if upto is None else {"gt": above, "lte": upto}
        asked = {
            **body,
            "query": {"bool": {**query, "filter": [{"range": {"_seq_no": within}}]}},
            "size": size,
            "sort": [{"_seq_no": "asc"}],
            "seq_no_primary_term": True,
            "track_total_hits": False,
        }
        hits = search(asked)["hits"]["hits"]
        if not hits:
            return
        above = hits[-1]["_seq_no"]
        yield hits
