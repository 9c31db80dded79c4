"""What changed in an index, by shard and sequence number.

Every write in a shard gets the next number, and a document carries that of its last write. So "above the number where I
stopped" is what changed since, on any day, after any restart; no point in time has to live that long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encoders.errors import StoreError
from indexer.stores.elastic import connection

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

NOTHING = -1
"""The number before the first."""

Search = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Asks for one page: the body of a search in, the server's answer out."""


@dataclass(frozen=True)
class Tops:
    """Where an index's writes have come to.

    Attributes:
        uuid: of the index.
        shards: by shard, the number up to which every write is complete on all copies.
    """

    uuid: str
    shards: Mapping[int, int]


def tops(client: Elasticsearch, server: str, index: str) -> dict[str, Tops]:
    """Where the writes of an index, or of each that a name stands for, have come to; a refresh afterwards shows them.

    Raises:
        NotFoundError: there is no such index.
        StoreError: the server is away, refuses, or a shard has no primary.
    """
    with connection.guarded(server):
        answer = client.indices.stats(index=index, level="shards", metric="docs")
    found = {}
    for name, one in answer["indices"].items():
        copies = {
            int(number): [copy for copy in each if copy["routing"]["primary"]] for number, each in one["shards"].items()
        }
        found[name] = Tops(
            one["uuid"], {number: copies[number][0]["seq_no"]["global_checkpoint"] for number in sorted(copies)}
        )
    whole = answer["_shards"]
    if whole["failed"] or not all(one.shards for one in found.values()):
        raise StoreError(f"{server} does not answer for all shards of {index}; see _cluster/health, and run this again")
    return found


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
