"""Connections to a server: the client, the server's abilities, pages of ids, and every failure as one sentence."""

import logging
import ssl
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from encoders.errors import BadInput, StoreError, importing
from indexer.cluster.cluster_address import Credentials
from indexer.cluster.cluster_errors import IndexGone, NotAllowed, TemporaryFailure, away_sentence, reason, sentence

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

T = TypeVar("T")

TIMEOUT = 60
"""Seconds to wait for an answer."""
PAGE = 1000
"""Maximum ids or hits of one request."""
JSON = {"content-type": "application/json", "accept": "application/json"}
"""Headers of a request that the client has no method for."""
_RETRIES = 2
_NO_INDEX = "*,-*"
_PACKED_PROBE, _PROBE = "P4AAAA==", [1.0]
"""A vector of one number, in base64 and as a list."""
UNSUITABLE = "is not Elasticsearch, or is too old; Dragoman needs Elasticsearch 8.18 or later, and can't use OpenSearch"


@dataclass(frozen=True)
class Abilities:
    """Differences between the servers that are supported."""

    packed_vectors: bool = True  # the server reads vectors in base64; otherwise they are sent as numbers
    # sources come without vectors unless a parameter of the request asks for them; a server without this ability
    # refuses the parameter, and its sources have the vectors
    hidden_vectors: bool = True


def connect(server: str, credentials: Credentials) -> "Elasticsearch":
    """A client of a server; no request is sent yet. Raises MissingPart; StoreError: the CA file can't be read."""
    with importing("elastic", "an Elasticsearch store needs its client; install it"):
        from elasticsearch import Elasticsearch, OrjsonSerializer  # noqa: PLC0415

        from indexer.cluster.transport import PlainTransport  # noqa: PLC0415
    auth: dict[str, Any] = {}
    if urlsplit(server).port is None:
        port = 443 if server.startswith("https") else 9200
        raise BadInput(f"{server} names no port; write it behind the host's name, perhaps :{port}")
    if credentials.api_key:
        auth["api_key"] = credentials.api_key
    elif credentials.user:
        account = f"{credentials.user}:{credentials.password}".encode("utf-8", "surrogateescape")
        auth["basic_auth"] = b64encode(account).decode()  # the client itself encodes ASCII alone
    if credentials.ca and server.startswith("https"):
        try:
            ssl.create_default_context(cafile=credentials.ca)
        except OSError as error:
            advice = "name the certificate of the server's CA in DRAGOMAN_ELASTIC_CA"
            raise StoreError(f"the CA file {credentials.ca} can't be read ({error.strerror}); {advice}") from error
        auth["ca_certs"] = credentials.ca

    logging.getLogger("elastic_transport").addHandler(logging.NullHandler())  # otherwise retries print warnings

    return Elasticsearch(
        server,
        transport_class=PlainTransport,
        request_timeout=TIMEOUT,
        max_retries=_RETRIES,
        retry_on_timeout=False,
        retry_on_status=(502, 503, 504),
        serializers={OrjsonSerializer.mimetype: OrjsonSerializer()},  # reads many vectors in a third of the time
        **auth,
    )


@contextmanager
def opening(server: str, credentials: Credentials) -> "Iterator[tuple[Elasticsearch, Abilities]]":
    """A client and the server's abilities; closed only if the block fails. Raises MissingPart, StoreError."""
    client = connect(server, credentials)
    try:
        yield client, abilities(client, server)
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
        raise StoreError(f"{server} {UNSUITABLE}") from error
    except ApiError as error:
        raise StoreError(f"{server} {sentence(error.status_code, error.body)}") from error
    except TransportError as error:
        raise StoreError(f"{server} {away_sentence(error)}") from error


def pages(items: Sequence[T]) -> Iterator[list[T]]:
    """Ids, or places of documents, in lists of at most ``PAGE``."""
    return (list(items[start : start + PAGE]) for start in range(0, len(items), PAGE))


def existing_documents(server: str, index: str, answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The documents that exist, from the answers of an ``_mget``.

    Raises TemporaryFailure: a shard does not answer now, so its documents' existence is unknown; IndexGone; NotAllowed.
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


def abilities(client: "Elasticsearch", server: str) -> Abilities:
    """The abilities of a server: it reads a search with an ability, or refuses the search as malformed.

    The searches name no index: nothing is searched. Raises StoreError: the server is away or lacks an ability.
    """
    from elasticsearch import NotFoundError  # noqa: PLC0415

    try:
        with store_errors(server):
            if _reads(client, _PACKED_PROBE, "?_source_exclude_vectors=false"):
                return Abilities()
            if not _reads(client, _PROBE):
                raise StoreError(f"{server} {UNSUITABLE}")
            return Abilities(_reads(client, _PACKED_PROBE), _reads(client, _PROBE, "?_source_exclude_vectors=false"))
    except NotFoundError as error:
        raise StoreError(
            f"{server} has no Elasticsearch (it answers 404 to a search); check the address and the path in it"
        ) from error


def _reads(client: "Elasticsearch", vector: str | list[float], parameters: str = "") -> bool:
    """Whether a server reads a search for the neighbours of a vector, with rescoring."""
    bounds = {"k": 1, "num_candidates": 1, "rescore_vector": {"oversample": 1.0}}
    knn = {"field": "vector", "query_vector": vector, **bounds}
    answer = client.options(ignore_status=400).perform_request(
        "POST", f"/{_NO_INDEX}/_search{parameters}", headers=JSON, body={"size": 0, "knn": knn}
    )
    return answer.meta.status != 400
