"""An Elasticsearch index as a source: ``elastic:https://HOST:9200/INDEX``, or ``elastic:INDEX``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from encoders.errors import BadInput, StoreError
from indexer.elastic import address, changes, connection, errors
from indexer.elastic.address import SCHEMES, Credentials
from indexer.elastic.ours import is_ours
from indexer.elastic.readable import keeps_no_source, refuse_partial
from indexer.elastic.values import joined, values, without
from indexer.readers.record import make_document
from indexer.readers.source import Reading, ReadOptions

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

PREFIX = "elastic:"

_PAGE = 200
_ALIVE = "5m"
_PATIENCE = 180.0
_PAUSE = 1.0
_BETWEEN = {"title": " ", "text": "\n\n"}


def absolute(source: str) -> str:
    """The source with its server: that of ``DRAGOMAN_ELASTIC_URL`` where it names none.

    Raises:
        BadInput: there is no server, no index, or there are credentials in it, which would be kept in the ledger.
    """
    place = source.removeprefix(PREFIX)
    if urlsplit(place).scheme not in SCHEMES:
        server = os.environ.get("DRAGOMAN_ELASTIC_URL", "")
        if not server:
            raise BadInput(
                f"{source} names no server; give {PREFIX}https://HOST:9200/{place}, or set DRAGOMAN_ELASTIC_URL"
            )
        place = f"{address.without_credentials(server).rstrip('/')}/{quote(place)}"
    if address.without_credentials(place) != place:
        raise BadInput(
            "leave the credentials out of the source, which is written down; "
            "set DRAGOMAN_ELASTIC_USER and _PASSWORD, or DRAGOMAN_ELASTIC_API_KEY"
        )
    if not urlsplit(place).path.strip("/"):
        raise BadInput(f"{source} names no index; give {PREFIX}{place.rstrip('/')}/INDEX")
    return f"{PREFIX}{place}"


def state(source: str) -> str:
    """What is another one as soon as something was written into the index.

    Raises:
        BadInput: there is no such index.
        StoreError: the server is away or refuses.
    """
    server, index = _place(source)
    with closing(_client(server)) as client:
        found = _tops(client, server, index)
    return repr(
        [
            (name, one.uuid, [(shard, top.seq_no, top.history) for shard, top in sorted(one.shards.items())])
            for name, one in sorted(found.items())
        ]
    )


def count(source: str) -> int:
    """How many documents the index has."""
    server, index = _place(source)
    with closing(_client(server)) as client, connection.guarded(server):
        return changes.count(client, index)


def read_index(source: str, options: ReadOptions) -> Iterator[Reading]:
    """Read all documents, shard by shard in the order of their sequence numbers.

    A shard is read through a point in time; one that is lost (they die with a restart of the server, and of age) is
    replaced by another, from the number on where reading stopped.

    Raises:
        BadInput: at once, there is no such index, or it keeps no texts.
        StoreError: at once or while reading, the server is away for longer than three minutes, or refuses.
    """
    server, index = _place(source)
    client = _client(server)
    try:
        found = _tops(client, server, index)
        _refuse_partial(client, server, index)
        ours = {name: _ours(client, server, name) for name in found}
    except BaseException:
        client.close()
        raise
    return _readings(client, server, found, ours, options)


def _refuse_partial(client: Elasticsearch, server: str, asked: str) -> None:
    """Refuse an alias, or a pattern that one answers to, that shows a part of its index.

    Raises:
        BadInput: it is one.
    """
    with connection.guarded(server):
        found = client.options(ignore_status=404).indices.get_alias(name=asked).body
    for one in () if "error" in found else found.values():
        for name in one["aliases"]:
            refuse_partial(name, one["aliases"])


def _ours(client: Elasticsearch, server: str, index: str) -> list[str]:
    """Objects in an index that hold what we put: no part of its documents.

    Raises:
        BadInput: it keeps no texts.
    """
    with connection.guarded(server):
        found = client.indices.get(index=index, features=["mappings", "settings"])[index]
    mapping = found["mappings"]
    if keeps_no_source(mapping, found["settings"]["index"]):
        raise BadInput(
            f"{index} keeps no _source, so its texts can't be read; index the documents from where they came"
        )
    return [field for field, mapped in mapping.get("properties", {}).items() if is_ours(mapped)]


def _readings(
    client: Elasticsearch,
    server: str,
    found: Mapping[str, changes.IndexPosition],
    ours: Mapping[str, list[str]],
    options: ReadOptions,
) -> Iterator[Reading]:
    with closing(client):
        for name, one in sorted(found.items()):
            for shard in one.shards:
                with closing(_View(client, server, name, shard)) as view:
                    body = {"source": {"excludes": ours[name]}} if ours[name] else {}
                    for hits in changes.pages(view.search, body, _PAGE, above=changes.NOTHING):
                        for hit in hits:
                            record = _record(hit, options)
                            yield make_document(record, f"{PREFIX}{name}/{hit['_id']}", options)


class _View:
    """One shard through points in time."""

    def __init__(self, client: Elasticsearch, server: str, index: str, shard: int) -> None:
        self._client, self._server, self._index = client, server, index
        self._only = f"_shards:{shard}"
        self._id = ""

    def search(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        from elasticsearch import NotFoundError  # noqa: PLC0415

        until = time.monotonic() + _PATIENCE
        while True:
            try:
                with connection.guarded(self._server):
                    return self._searched(body)
            except NotFoundError as error:
                if not self._id:
                    raise StoreError(
                        f"{self._index} was deleted on {self._server} while it was read; name another"
                    ) from error
                self._id = ""
            except StoreError as error:
                if not errors.passes(error) or time.monotonic() > until:
                    raise
                self._id = ""
                time.sleep(_PAUSE)

    def _searched(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._id:
            opened = self._client.open_point_in_time(index=self._index, keep_alive=_ALIVE, preference=self._only)
            self._id = opened["id"]
        answer = self._client.search(
            pit={"id": self._id, "keep_alive": _ALIVE}, allow_partial_search_results=False, **body
        )
        self._id = answer.get("pit_id", self._id)
        return dict(answer.body)

    def close(self) -> None:
        from elasticsearch import ApiError, TransportError  # noqa: PLC0415

        if self._id:
            with suppress(ApiError, TransportError):  # it dies by itself
                self._client.close_point_in_time(id=self._id)


def _record(hit: Mapping[str, Any], options: ReadOptions) -> dict[str, Any]:
    """The values of a document by the names that the options give them: also what stands inside objects and arrays."""
    source = hit.get("_source", {})
    named = {ours: options.fields.get(ours, ours) for ours in ("title", "text", "lang", *options.fields)}
    record: dict[str, Any] = without(source, list(named.values()))
    for ours, theirs in named.items():
        found = values(source, theirs)
        if found and ours in _BETWEEN:
            record[theirs] = joined(found, _BETWEEN[ours])
        elif found:
            record[theirs] = found[0] if len(found) == 1 else found
    if "id" not in options.fields:
        record["id"] = hit["_id"]
    return record


def _place(source: str) -> tuple[str, str]:
    """Server and index."""
    parts = urlsplit(absolute(source).removeprefix(PREFIX))
    return f"{parts.scheme}://{parts.netloc}", unquote(parts.path.strip("/"))


def _client(server: str) -> Elasticsearch:
    stated = os.environ.get("DRAGOMAN_ELASTIC_URL", "")
    same = address.without_credentials(stated).rstrip("/") == server
    return connection.connect(server, Credentials.read(stated if same else ""))


def _tops(client: Elasticsearch, server: str, index: str) -> dict[str, changes.IndexPosition]:
    from elasticsearch import AuthorizationException, NotFoundError  # noqa: PLC0415

    try:
        with connection.guarded(server):
            connection.check_version(client, server)
            found = changes.tops(client, server, index)
            with suppress(AuthorizationException):  # who may read only reads what the server shows by itself
                client.indices.refresh(index=index)
    except NotFoundError as error:
        raise BadInput(f"{server} has no index {index}; name one as _cat/indices lists it") from error
    if not found:
        raise BadInput(f"{server} has no index {index}; name one as _cat/indices lists it")
    return found
