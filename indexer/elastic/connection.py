"""Connections to a server: the client, its version check, pages of ids, and every failure as one sentence."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from encoders.errors import MissingPart, StoreError
from encoders.wording import install_command
from indexer.elastic.address import Credentials
from indexer.elastic.errors import IndexGone, NotAllowed, TemporaryFailure, away_sentence, reason, sentence

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_VERSION = (9, 3)
TIMEOUT = 60
"""Seconds to wait for an answer."""
PAGE = 1000
"""Maximum ids or hits of one request."""
_RETRIES = 2
_NO_VERSION = frozenset({403, 404, 405, 410})
"""HTTP statuses of a deployment, or of missing rights, that withhold the version."""


def connect(server: str, credentials: Credentials) -> Elasticsearch:
    """A client of a server; no request is sent yet.

    Raises:
        MissingPart: the client is not installed.
        StoreError: the CA file can't be read.
    """
    try:
        from elasticsearch import Elasticsearch, OrjsonSerializer  # noqa: PLC0415
    except ImportError as error:
        raise MissingPart(
            f"an Elasticsearch store needs its client; install it: {install_command('elastic')}"
        ) from error
    auth: dict[str, Any] = {}
    if credentials.api_key:
        auth["api_key"] = credentials.api_key
    elif credentials.user:
        auth["basic_auth"] = (credentials.user, credentials.password)
    if credentials.ca and server.startswith("https"):
        if not os.path.isfile(credentials.ca):  # noqa: PTH113
            raise StoreError(f"the CA file {credentials.ca} is not there; name another in DRAGOMAN_ELASTIC_CA")
        auth["ca_certs"] = credentials.ca

    logging.getLogger("elastic_transport").addHandler(logging.NullHandler())  # otherwise retries print warnings

    class Orjson(OrjsonSerializer):
        """JSON by orjson: answers with many vectors are read in a third of the time."""

        mimetype = "application/vnd.elasticsearch+json"

    return Elasticsearch(
        server,
        request_timeout=TIMEOUT,
        max_retries=_RETRIES,
        retry_on_timeout=False,
        retry_on_status=(502, 503, 504),
        serializers={Orjson.mimetype: Orjson()},
        **auth,
    )


@contextmanager
def opening(server: str, credentials: Credentials) -> Iterator[Elasticsearch]:
    """A client of a server of a supported version; it stays open after the block, unless the block fails.

    Raises:
        MissingPart: the client is not installed.
        StoreError: the server is away, too old, or refuses.
    """
    client = connect(server, credentials)
    try:
        check_version(client, server)
        yield client
    except BaseException:
        client.close()
        raise


@contextmanager
def store_errors(server: str) -> Iterator[None]:
    """Raise the server's failures as a ``StoreError`` that says what to do; a missing index stays ``NotFoundError``."""
    from elasticsearch import ApiError, NotFoundError, TransportError, UnsupportedProductError  # noqa: PLC0415

    try:
        yield
    except NotFoundError:
        raise
    except UnsupportedProductError as error:
        raise StoreError(
            f"{server} is not Elasticsearch, or is too old; Dragoman needs Elasticsearch 9.3 or later, and can't use "
            "OpenSearch"
        ) from error
    except ApiError as error:
        raise StoreError(f"{server} {sentence(error.status_code, error.body)}") from error
    except TransportError as error:
        raise StoreError(f"{server} {away_sentence(error)}") from error


def pages(doc_ids: Sequence[str]) -> Iterator[list[str]]:
    """Ids in lists of at most ``PAGE``."""
    return (list(doc_ids[start : start + PAGE]) for start in range(0, len(doc_ids), PAGE))


def existing_documents(server: str, index: str, answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The documents that exist, from the answers of an ``_mget``.

    Raises:
        TemporaryFailure: a shard does not answer now, so the existence of its documents is unknown.
        IndexGone: the index is gone.
        NotAllowed: the index may not be read.
    """
    existing = []
    for document in answers:
        if "error" in document:
            kind = document["error"]["type"]
            if kind == "index_not_found_exception":
                # refused here, because a write would create the index anew, with a mapping of the server's choice
                raise IndexGone(f"the index {index} is gone from {server}; bring it back")
            if kind == "security_exception":
                raise NotAllowed(f"the index {index} can't be read ({reason(document)}); see that it is still there")
            raise TemporaryFailure(
                f"{server} can't read all of {index} now ({reason(document)}); see _cluster/health, and try again"
            )
        if document.get("found"):
            existing.append(document)
    return existing


def check_version(client: Elasticsearch, server: str) -> None:
    """Refuse a server older than version 9.3, if the server reports its version.

    Some deployments do not answer ``GET /``, or do not let every user read the nodes; an old server among them refuses
    the mapping later.

    Raises:
        StoreError: the server is older, or no Elasticsearch.
    """
    with store_errors(server):
        version = _version_of_nodes(client) or _version_at_root(client)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < _VERSION:
        raise StoreError(f"{server} runs Elasticsearch {version}; Dragoman needs 9.3 or later")


def _version_of_nodes(client: Elasticsearch) -> str:
    from elasticsearch import ApiError  # noqa: PLC0415

    try:
        nodes = client.nodes.info(node_id="_local", filter_path="nodes.*.version")["nodes"]
    except ApiError as error:
        if error.status_code in _NO_VERSION:
            return ""
        raise
    return str(min(node["version"] for node in nodes.values()))


def _version_at_root(client: Elasticsearch) -> str:
    from elasticsearch import ApiError  # noqa: PLC0415

    try:
        return str(client.info()["version"]["number"])
    except ApiError as error:
        if error.status_code in _NO_VERSION:
            return ""
        raise
