"""An Elasticsearch index as a source: ``elastic:https://HOST:9200/INDEX``, or ``elastic:INDEX``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from encoders.errors import BadInput, StoreError
from indexer.cluster import cluster_address, cluster_client, cluster_errors, index_changes
from indexer.cluster.cluster_address import SCHEMES, Credentials
from indexer.cluster.field_mapping import is_ours, keeps_no_source, refuse_partial
from indexer.cluster.source_values import values, without_paths
from indexer.readers.records.record import make_document
from indexer.readers.records.source import Reading, ReadOptions

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

PREFIX = "elastic:"

_PAGE = 200
_ALIVE = "5m"
_PATIENCE = 180.0
_PAUSE = 1.0


def with_server(source: str) -> str:
    """Complete a source with the server of ``DRAGOMAN_ELASTIC_URL`` if it has none.

    Raises BadInput: there is no server or no index, or the source holds credentials, which the ledger would store.
    """
    place = source.removeprefix(PREFIX)
    if urlsplit(place).scheme not in SCHEMES:
        server = os.environ.get("DRAGOMAN_ELASTIC_URL", "")
        if not server:
            raise BadInput(
                f"{source} names no server; give {PREFIX}https://HOST:9200/{place}, or set DRAGOMAN_ELASTIC_URL"
            )
        place = f"{cluster_address.without_credentials(server).rstrip('/')}/{quote(place)}"
    if cluster_address.without_credentials(place) != place:
        raise BadInput(
            "leave the credentials out of the source, which is written down; "
            "set DRAGOMAN_ELASTIC_USER and _PASSWORD, or DRAGOMAN_ELASTIC_API_KEY"
        )
    if not urlsplit(place).path.strip("/"):
        raise BadInput(f"{source} names no index; give {PREFIX}{place.rstrip('/')}/INDEX")
    return f"{PREFIX}{place}"


def index_fingerprint(source: str) -> str:
    """A string that changes with every write into the index. Raises BadInput: there is no such index."""
    server, index = _place(source)
    with closing(_client(server)) as client:
        positions = _positions(client, server, index)
    return repr(
        [
            (name, position.uuid, [(shard, top.seq_no, top.history) for shard, top in sorted(position.shards.items())])
            for name, position in sorted(positions.items())
        ]
    )


def count_distinct(source: str) -> int | None:
    """Number of documents of one index; None if the name stands for several, which may have the same ids."""
    server, index = _place(source)
    with closing(_client(server)) as client:
        with cluster_client.store_errors(server):
            count = index_changes.count(client, index)
        return count if len(_positions(client, server, index)) == 1 else None


def read_index(source: str, options: ReadOptions) -> Iterator[Reading]:
    """Read all documents, shard by shard in the order of their sequence numbers.

    A point in time ends when the server restarts or gets no request for five minutes; reading then goes on after the
    last number. Raises BadInput: at once, there is no such index, or it keeps no texts; StoreError: at once or while
    reading, the server can't be reached for more than three minutes, or refuses.
    """
    server, index = _place(source)
    client = _client(server)
    try:
        positions = _positions(client, server, index)
        with cluster_client.store_errors(server):
            aliased = client.options(ignore_status=404).indices.get_alias(name=index).body
        for named in () if "error" in aliased else aliased.values():
            for alias in named["aliases"]:
                refuse_partial(alias, named["aliases"])
        dragoman_fields = {name: _dragoman_fields(client, server, name) for name in positions}
    except BaseException:
        client.close()
        raise
    return _readings(client, server, positions, dragoman_fields, options)


def _dragoman_fields(client: Elasticsearch, server: str, index: str) -> list[str]:
    """Names of the index's object fields that Dragoman wrote. Raises BadInput: the index keeps no texts."""
    with cluster_client.store_errors(server):
        description = client.indices.get(index=index, features=["mappings", "settings"])[index]
    mapping = description["mappings"]
    if keeps_no_source(mapping, description["settings"]["index"]):
        raise BadInput(
            f"{index} keeps no _source, so its texts can't be read; index the documents from where they came"
        )
    return [field for field, properties in mapping.get("properties", {}).items() if is_ours(properties)]


def _readings(
    client: Elasticsearch,
    server: str,
    positions: Mapping[str, index_changes.IndexPosition],
    dragoman_fields: Mapping[str, list[str]],
    options: ReadOptions,
) -> Iterator[Reading]:
    with closing(client):
        for name, position in sorted(positions.items()):
            for shard in position.shards:
                with closing(_View(client, server, name, shard)) as view:
                    body = {"source": {"excludes": dragoman_fields[name]}} if dragoman_fields[name] else {}
                    for hits in index_changes.pages(view.search, body, _PAGE, above=index_changes.NOTHING):
                        for hit in hits:
                            yield make_document(_record(hit, options), f"{PREFIX}{name}/{hit['_id']}", options)


class _View:
    """One shard, read through points in time."""

    def __init__(self, client: Elasticsearch, server: str, index: str, shard: int) -> None:
        self._client, self._server, self._index = client, server, index
        self._preference = f"_shards:{shard}"
        self._id = ""

    def search(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        from elasticsearch import NotFoundError  # noqa: PLC0415

        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with cluster_client.store_errors(self._server):
                    return self._searched(body)
            except NotFoundError as error:
                if not self._id:
                    raise StoreError(
                        f"{self._index} was deleted on {self._server} while it was read; name another"
                    ) from error
                self._id = ""
            except StoreError as error:
                if not cluster_errors.is_temporary(error) or time.monotonic() > deadline:
                    raise
                self._id = ""
                time.sleep(_PAUSE)

    def _searched(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._id:
            opened = self._client.open_point_in_time(index=self._index, keep_alive=_ALIVE, preference=self._preference)
            self._id = opened["id"]
        answer = self._client.search(
            pit={"id": self._id, "keep_alive": _ALIVE}, allow_partial_search_results=False, **body
        )
        self._id = answer.get("pit_id", self._id)
        return dict(answer.body)

    def close(self) -> None:
        from elasticsearch import ApiError, TransportError  # noqa: PLC0415

        if self._id:
            with suppress(ApiError, TransportError):  # the server closes it after ``_ALIVE``
                self._client.close_point_in_time(id=self._id)


def _record(hit: Mapping[str, Any], options: ReadOptions) -> dict[str, Any]:
    """A document's values by the source's own names; a name may be a path through objects and arrays."""
    source = hit.get("_source", {})
    paths = {field: options.fields.get(field, field) for field in ("title", "text", "lang", *options.fields)}
    record: dict[str, Any] = without_paths(source, list(paths.values()))
    for path in paths.values():
        if path_values := values(source, path):
            record[path] = path_values[0] if len(path_values) == 1 else path_values
    if "id" not in options.fields:
        record["id"] = hit["_id"]
    return record


def _place(source: str) -> tuple[str, str]:
    parts = urlsplit(with_server(source).removeprefix(PREFIX))
    return f"{parts.scheme}://{parts.netloc}", unquote(parts.path.strip("/"))


def _client(server: str) -> Elasticsearch:
    url = os.environ.get("DRAGOMAN_ELASTIC_URL", "")
    is_that_server = cluster_address.without_credentials(url).rstrip("/") == server
    return cluster_client.connect(server, Credentials.read(url if is_that_server else ""))


def _positions(client: Elasticsearch, server: str, index: str) -> dict[str, index_changes.IndexPosition]:
    from elasticsearch import AuthorizationException, NotFoundError  # noqa: PLC0415

    positions: dict[str, index_changes.IndexPosition] = {}
    with suppress(NotFoundError), cluster_client.store_errors(server):
        positions = index_changes.last_writes(client, server, index)
        with suppress(AuthorizationException):  # without the right to refresh, the last refresh is what is read
            client.indices.refresh(index=index)
    if not positions:
        raise BadInput(f"{server} has no index {index}; name one as _cat/indices lists it")
    return positions
