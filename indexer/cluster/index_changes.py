"""Changes of an index, by shard and sequence number.

Every write in a shard gets the next number, and a document carries the number of its last write: documents with a
higher number than a reader's last have changed since, after any time or restart, without an open point in time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from indexer.cluster import cluster_client, cluster_errors

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

NOTHING = -1
"""The number before the first write."""

Search = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Requests one page: takes the body of a search, returns the server's answer."""


@dataclass(frozen=True)
class ShardPosition:
    """The last complete write of a shard."""

    seq_no: int  # the number up to which every write is complete on all copies
    history: str = ""  # id of the numbering, which a restored snapshot counts anew under the same uuid; may be empty


@dataclass(frozen=True)
class IndexPosition:
    """An index's uuid, and the last complete write of each shard."""

    uuid: str
    shards: Mapping[int, ShardPosition]


def last_writes(client: "Elasticsearch", server: str, index: str) -> dict[str, IndexPosition]:
    """The last complete writes of each index that a name stands for; a refresh afterwards makes them visible.

    Raises NotFoundError: there is no such index; TemporaryFailure: a shard has no primary, or its primary is starting.
    """
    with cluster_client.store_errors(server):
        settings = client.indices.get_settings(index=index, name="index.number_of_shards", expand_wildcards="open").body
        stats = client.indices.stats(index=index, level="shards", metric="docs")["indices"]
    positions = {}
    for name, index_settings in settings.items():
        shards = {
            int(number): ShardPosition(copy["seq_no"]["global_checkpoint"], _history(copy))
            for number, copies in stats.get(name, {"shards": {}})["shards"].items()
            for copy in copies
            if copy["routing"]["primary"] and "seq_no" in copy  # a starting primary has no ``seq_no``
        }
        if len(shards) < int(index_settings["settings"]["index"]["number_of_shards"]):
            raise cluster_errors.TemporaryFailure(
                f"{server} does not answer for all shards of {name}; see _cluster/health, and run this again"
            )
        positions[name] = IndexPosition(stats[name]["uuid"], dict(sorted(shards.items())))
    return positions


def _history(copy: Mapping[str, Any]) -> str:
    return str(copy.get("commit", {}).get("user_data", {}).get("history_uuid", ""))


def count(
    client: "Elasticsearch", index: str, query: Mapping[str, Any] | None = None, preference: str | None = None
) -> int:
    """Number of documents of an index, or of those that match a query; it fails if a shard does not answer."""
    whole: dict[str, Any] = {"track_total_hits": True, "allow_partial_search_results": False}
    answer = client.search(index=index, size=0, query=query, preference=preference, **whole)
    return int(answer["hits"]["total"]["value"])


def shard_search(client: "Elasticsearch", server: str, index: str, shard: int) -> Search:
    """A function that searches one shard."""
    preference = f"_shards:{shard}"

    def search(body: Mapping[str, Any]) -> Mapping[str, Any]:
        with cluster_client.store_errors(server):
            answer = client.search(index=index, preference=preference, allow_partial_search_results=False, **body)
        return dict(answer.body)

    return search


def pages(
    search: Search, body: Mapping[str, Any], size: int, *, above: int, upto: int | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Hits of one shard by sequence number in (``above``, ``upto``], a page at a time.

    ``body`` has the other parts of the search body; a ``query`` in it may be a ``bool`` without ``filter``.
    """
    query = dict(body.get("query", {}).get("bool", {}))
    while True:
        bounds = {"gt": above} if upto is None else {"gt": above, "lte": upto}
        page_body = {
            **body,
            "query": {"bool": {**query, "filter": [{"range": {"_seq_no": bounds}}]}},
            "size": size,
            "sort": [{"_seq_no": "asc"}],
            "seq_no_primary_term": True,
            "track_total_hits": False,
        }
        hits = search(page_body)["hits"]["hits"]
        if not hits:
            return
        above = hits[-1]["_seq_no"]
        yield hits
