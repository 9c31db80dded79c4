"""A server and how to reach it: the store's URL, credentials, and every failure as one sentence."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from encoders.errors import BadInput, DragomanError, MissingPart, StoreError

if TYPE_CHECKING:
    from elasticsearch import ApiError, Elasticsearch

SCHEMES = frozenset({"http", "https"})
INDEX_TYPES = ("hnsw", "int8_hnsw", "int4_hnsw", "bbq_hnsw", "flat", "int8_flat", "int4_flat", "bbq_flat")
FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
"""Names that an object field of ours can have."""
_PREFIX = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_KEY = re.compile(r"[!-~]*")
_VERSION = (9, 3)
TIMEOUT = 60
"""Seconds to wait for an answer."""
_RETRIES = 2
_NOT_TOLD = frozenset({403, 404, 405, 410})
"""What a deployment or a user's rights answer where the version is not to be had."""
_PASSING = frozenset({429, 502, 503, 504})
_BLOCK = "cluster_block_exception"


class Passing(StoreError):
    """What goes by of itself: a shard is away or recovers, a queue is full."""


class Blocked(StoreError):
    """Nothing is written, for somebody or a full disk has blocked it; whoever follows an index waits for the end."""


class Gone(StoreError):
    """An index is gone; whoever follows it waits for the one that is made in its place."""


class NoIndex(BadInput):
    """There is no index of a name; whoever has followed one waits for the next."""


class SearchRefused(StoreError):
    """A search among several that the server refused.

    Attributes:
        status: as of HTTP.
        reason: the server's own words.
    """

    def __init__(self, server: str, status: int, reason: str) -> None:
        if status in _PASSING:
            super().__init__(f"{server} can't search now ({reason}); see _cluster/health, and try again")
        else:
            super().__init__(f"{server} refused a search ({reason}); see that the index is as Dragoman made it")
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Credentials:
    """Who asks; shown in no message and kept in no database.

    Attributes:
        user: name of a user.
        password: of that user.
        api_key: encoded API key, instead of a user.
        ca: file of the certificates to trust; the system's unless given.
    """

    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    ca: str = ""

    def __post_init__(self) -> None:
        """Refuse what no header can carry, before anything that could show it tries to.

        Raises:
            BadInput: a value has signs that it can't have.
        """
        if not _KEY.fullmatch(self.api_key):
            raise BadInput(
                "the API key in DRAGOMAN_ELASTIC_API_KEY has blanks or signs that no key has; "
                "give the one that the server calls 'encoded'"
            )
        for name, value in (("user", self.user), ("password", self.password)):
            if any(sign < " " or sign == "\x7f" for sign in value):
                raise BadInput(
                    f"the {name} for the server has a line break or another control sign in it; leave it out"
                )

    @classmethod
    def read(cls, url: str = "") -> Self:
        """Those in a URL, else those in ``DRAGOMAN_ELASTIC_USER``, ``_PASSWORD``, ``_API_KEY`` and ``_CA``.

        A line break at the end of a variable, as a file has one, is no part of it.

        Raises:
            BadInput: the URL can't be read, or a value has signs that it can't have.
        """
        given = {
            one.name: os.environ.get(f"DRAGOMAN_ELASTIC_{one.name.upper()}", "").rstrip("\r\n") for one in fields(cls)
        }
        given["api_key"] = given["api_key"].strip()
        parts = _split(url)
        if parts.username is not None:
            given["user"], given["api_key"] = unquote(parts.username), ""
            if parts.password is not None:
                given["password"] = unquote(parts.password)
        return cls(**given)


@dataclass(frozen=True)
class Address:
    """Where a store is on a server: ``https://host:9200/prefix?field=dragoman&vectors=int8_hnsw``.

    Attributes:
        server: scheme, host, port.
        prefix: names of indices begin with it.
        field: name of the object field that holds everything of ours.
        vectors: type of the vectors' index, one of ``INDEX_TYPES``.
        shards: primary shards of a new index.
        replicas: of a new index once it is complete; the server's default where negative.
    """

    server: str
    prefix: str = "dragoman"
    field: str = "dragoman"
    vectors: str = "int8_hnsw"
    shards: int = 1
    replicas: int = -1

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take a store's URL apart.

        Raises:
            BadInput: it is none of an Elasticsearch store.
        """
        parts = _split(url)
        options: dict[str, Any] = {}
        options.update(parse_qsl(parts.query, keep_blank_values=True))
        unknown = options.keys() - {"field", "vectors", "shards", "replicas"}
        if unknown:
            raise BadInput(
                f"the store's URL has no option {min(unknown)!r}; there are field, vectors, shards and replicas"
            )
        for name in options.keys() & {"shards", "replicas"}:
            if not options[name].isdigit():
                raise BadInput(f"{name}={options[name]} in the store's URL is no number")
            options[name] = int(options[name])
        if options.get("vectors", "hnsw") not in INDEX_TYPES:
            raise BadInput(f"there is no vector index {options['vectors']!r}; there are {', '.join(INDEX_TYPES)}")
        if not FIELD.fullmatch(options.get("field", "dragoman")):
            raise BadInput(f"a field of ours can't be named {options['field']!r}; take letters, digits, '-' and '_'")
        prefix = parts.path.strip("/")
        if not parts.hostname or (prefix and not _PREFIX.fullmatch(prefix)):
            raise BadInput(
                f"{without_credentials(url)} is no store; give https://HOST:9200/PREFIX, "
                "the prefix in small letters, digits, '.', '-' and '_'"
            )
        if prefix:
            options["prefix"] = prefix
        return cls(urlunsplit((parts.scheme, _host(parts.netloc), "", "", "")), **options)


def without_credentials(url: str) -> str:
    """A URL as it may be shown and kept.

    Raises:
        BadInput: it can't be read, so nobody knows what in it is a password.
    """
    parts = _split(url)
    return urlunsplit(parts._replace(netloc=_host(parts.netloc))) if "@" in parts.netloc else url


def _split(url: str) -> SplitResult:
    """Take a URL apart; one of a server that can't be is shown in no message, for it may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadInput("the server's URL can't be read; give https://HOST:9200/PREFIX") from None
    if parts.scheme in SCHEMES:
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            raise BadInput(
                "the server's URL can't be read; write '/', '?', '#' and '@' of a password as %2F, %3F, %23 and %40"
            )
        try:
            _ = parts.port
        except ValueError:
            raise BadInput(
                "the port in the server's URL is no number up to 65535; give https://HOST:9200/PREFIX"
            ) from None
    return parts


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2]


def connect(server: str, credentials: Credentials) -> Elasticsearch:
    """A client of a server; nothing is asked of it yet.

    Raises:
        MissingPart: the client is not installed.
        StoreError: the CA file can't be read.
    """
    try:
        from elasticsearch import Elasticsearch, OrjsonSerializer  # noqa: PLC0415
    except ImportError as error:
        raise MissingPart(
            "an Elasticsearch store needs its client; install it: pip install 'dragoman[elastic]'"
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

    logging.getLogger("elastic_transport").addHandler(logging.NullHandler())  # what it retries is not said twice

    class Orjson(OrjsonSerializer):
        """Answers full of vectors are read in a third of the time."""

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
def guarded(server: str) -> Iterator[None]:
    """Every failure of the server as a ``StoreError`` with what to do; a missing index stays a ``NotFoundError``."""
    from elasticsearch import ApiError, NotFoundError, TransportError, UnsupportedProductError  # noqa: PLC0415

    try:
        yield
    except NotFoundError:
        raise
    except UnsupportedProductError as error:
        raise StoreError(
            f"{server} is not Elasticsearch (OpenSearch and old servers neither); Dragoman needs version 9.3 or later"
        ) from error
    except ApiError as error:
        kind = Blocked if reason(error.body).startswith(_BLOCK) else StoreError
        raise kind(f"{server} {sentence(error)}") from error
    except TransportError as error:
        raise StoreError(f"{server} {_away(error)}") from error


def passes(error: StoreError) -> bool:
    """Whether a failure is one that goes by: the server is away, restarts, or has too much to do."""
    from elasticsearch import ConnectionError as Away  # noqa: PLC0415
    from elasticsearch import ConnectionTimeout, SSLError  # noqa: PLC0415

    if isinstance(error, Passing):
        return True
    if isinstance(error, SearchRefused):
        return error.status in _PASSING
    cause = error.__cause__
    if isinstance(cause, (Away, ConnectionTimeout)):
        return not isinstance(cause, SSLError) or _ended(cause)
    return getattr(cause, "status_code", None) in _PASSING


def waits(error: DragomanError, *, first: bool) -> bool:
    """Whether who follows an index goes on after a failure: it passes, or, once it went well, its owner ends it."""
    if not first and isinstance(error, (Blocked, Gone, NoIndex)):
        return True
    return isinstance(error, StoreError) and passes(error)


def broke(error: StoreError) -> bool:
    """Whether the connection ended in the middle: by a server that dies, or that takes no more of what is sent."""
    from elasticsearch import ConnectionError as Away  # noqa: PLC0415

    return isinstance(error.__cause__, Away) and passes(error)


_PRESSURE = re.compile(r"_operation_bytes=(\d+).*\bmax_\w+_bytes=(\d+)")


def never_fits(cause: str) -> bool:
    """Whether a reason says that an operation takes more memory than the server ever has for writes at once."""
    said = _PRESSURE.search(cause)
    return said is not None and int(said[1]) > int(said[2])


def _ended(error: BaseException | None) -> bool:
    """Whether the other side ended a TLS connection: that says nothing of its certificate."""
    while error is not None:
        if isinstance(error, ssl.SSLEOFError):
            return True
        error = error.__cause__ or error.__context__
    return False


def found(server: str, index: str, answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of an ``_mget``'s documents that are there: of a shard that does not answer nobody knows that.

    Raises:
        Passing: a shard does not answer now.
        StoreError: the index is gone, or may not be read.
    """
    there = []
    for one in answers:
        if "error" in one:
            if one["error"]["type"] in {"index_not_found_exception", "security_exception"}:
                # and a write would make the index anew, with a mapping of the server's own
                raise StoreError(f"the index {index} can't be read ({reason(one)}); see that it is still there")
            raise Passing(f"{server} can't read all of {index} now ({reason(one)}); see _cluster/health, and try again")
        if one.get("found"):
            there.append(one)
    return there


def sentence(error: ApiError) -> str:  # noqa: PLR0911 - a table
    """What a refusal means and what to do about it, to stand behind the server's name."""
    cause = reason(error.body)
    kind = cause.partition(":")[0]
    if kind == _BLOCK:
        return (
            f"writes nothing ({cause}); free disk on its nodes until the watermark is passed, or lift the block, "
            "then run the command again"
        )
    if kind == "media_type_header_exception":
        return "is older than this client; Dragoman needs Elasticsearch 9.3 or later"
    match error.status_code:
        case 401:
            return (
                "refused the credentials; give them in the URL (https://USER:PASSWORD@HOST) "
                "or in DRAGOMAN_ELASTIC_USER and _PASSWORD, or DRAGOMAN_ELASTIC_API_KEY"
            )
        case 403:
            return f"does not allow it ({cause}); give the user these rights on the store's indices"
        case 429:
            return f"is overloaded ({cause}); run the command again when it has less to do"
        case 502 | 503 | 504:
            return f"is not ready ({cause}); see _cluster/health, and run the command again"
        case _:
            return f"refused a request ({cause}){_advice(cause)}"


def _advice(cause: str) -> str:
    if "Limit of total fields" in cause:  # ours are a dozen, and one for each language
        return "; raise index.mapping.total_fields.limit of the index, then run the command again"
    return ""


def reason(body: Any) -> str:
    """``type: reason`` of an error as the server gives it, or what there is of it."""
    cause = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(cause, dict):
        roots = cause.get("root_cause") or [cause]
        deepest = cause.get("caused_by") or roots[0]
        return f"{cause.get('type', 'error')}: {deepest.get('reason') or cause.get('reason')}"
    return str(cause).strip() or "no reason given"


def _away(error: Exception) -> str:
    from elastic_transport import TlsError  # noqa: PLC0415
    from elasticsearch import ConnectionTimeout  # noqa: PLC0415

    if isinstance(error, TlsError) and not _ended(error):
        return (
            "shows a certificate that is not trusted or speaks no TLS; name its CA file in DRAGOMAN_ELASTIC_CA, "
            "and see that http and https are not mixed up"
        )
    if isinstance(error, ConnectionTimeout):
        return "did not answer in time; see that it is well, then run the command again"
    return "can't be reached; see that it runs and the URL is right, then run the command again"


def check_version(client: Elasticsearch, server: str) -> None:
    """Refuse a server older than what the store needs, where the server tells.

    Not every deployment answers ``GET /``, nor lets everybody ask for its nodes: then the mapping's refusal will tell.

    Raises:
        StoreError: it is older, or no Elasticsearch.
    """
    with guarded(server):
        version = _version_of_nodes(client) or _version_at_root(client)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < _VERSION:
        raise StoreError(f"{server} runs Elasticsearch {version}; Dragoman needs 9.3 or later")


def _version_of_nodes(client: Elasticsearch) -> str:
    from elasticsearch import ApiError  # noqa: PLC0415

    try:
        nodes = client.nodes.info(node_id="_local", filter_path="nodes.*.version")["nodes"]
    except ApiError as error:
        if error.status_code in _NOT_TOLD:
            return ""
        raise
    return str(min(node["version"] for node in nodes.values()))


def _version_at_root(client: Elasticsearch) -> str:
    from elasticsearch import ApiError  # noqa: PLC0415

    try:
        return str(client.info()["version"]["number"])
    except ApiError as error:
        if error.status_code in _NOT_TOLD:
            return ""
        raise
