"""Where an Elasticsearch server is: URLs, prefixes, credentials."""

import os
import re
from dataclasses import dataclass, field, fields
from typing import Any, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from encoders.errors import BadInput

SCHEMES = frozenset({"http", "https"})

AUTO = "auto"
"""The type of vectors' indices that depends on the number of documents."""
INDEX_TYPES = (AUTO, "hnsw", "int8_hnsw", "int4_hnsw", "bbq_hnsw", "flat", "int8_flat", "int4_flat", "bbq_flat")

_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")

_PREFIX = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")

_NUMBER = re.compile("[0-9]{1,4}")

_API_KEY = re.compile(r"[!-~]*")


@dataclass(frozen=True)
class Credentials:
    """The user that the server sees; shown in no message and kept in no database."""

    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)  # encoded API key, instead of a user
    ca: str = ""  # file of the certificates to trust; if empty, the system's certificates

    def __post_init__(self) -> None:
        """Refuse values that no HTTP header can carry, before a library's error shows them. Raises BadInput."""
        if not _API_KEY.fullmatch(self.api_key):
            raise BadInput(
                "the API key in DRAGOMAN_ELASTIC_API_KEY has blanks or signs that no key has; "
                "give the one that the server calls 'encoded'"
            )
        for name, value in (("user", self.user), ("password", self.password)):
            if any(character < " " or character == "\x7f" for character in value):
                raise BadInput(
                    f"the {name} for the server has a line break or another control sign in it; leave it out"
                )

    @classmethod
    def read(cls, url: str = "") -> Self:
        """Credentials in a URL, else in ``DRAGOMAN_ELASTIC_USER``, ``_PASSWORD``, ``_API_KEY`` and ``_CA``.

        A variable may come from a file: its last line break is removed. Raises BadInput: the URL or a value is invalid.
        """
        names = [attribute.name for attribute in fields(cls)]
        credentials = {name: os.environ.get(f"DRAGOMAN_ELASTIC_{name.upper()}", "").rstrip("\r\n") for name in names}
        credentials["api_key"] = credentials["api_key"].strip()
        parts = _split(url)
        if parts.username is not None:
            credentials["user"], credentials["api_key"] = unquote(parts.username), ""
            if parts.password is not None:
                credentials["password"] = unquote(parts.password)
        return cls(**credentials)


@dataclass(frozen=True)
class Address:
    """The address of a store on a server: ``https://host:9200/prefix?field=dragoman&vectors=auto``."""

    server: str  # scheme, host, port
    prefix: str = "dragoman"  # prefix of the names of indices
    field: str = "dragoman"  # name of Dragoman's object field
    vectors: str = AUTO  # type of the vectors' indices, one of ``INDEX_TYPES``
    shards: int = 1  # number of primary shards of a new index
    replicas: int = -1  # number of replicas of a new index once it is complete; if negative, the server's default

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse a store's URL. Raises BadInput: it is no URL of an Elasticsearch store."""
        parts = _split(url)
        options: dict[str, Any] = {}
        options.update(parse_qsl(parts.query, keep_blank_values=True))
        unknown = options.keys() - {"field", "vectors", "shards", "replicas"}
        if unknown:
            raise BadInput(
                f"the store's URL has no option {min(unknown)!r}; there are field, vectors, shards and replicas"
            )
        for name in options.keys() & {"shards", "replicas"}:
            if not _NUMBER.fullmatch(options[name]):
                raise BadInput(
                    f"{name}={options[name]} in the store's URL is no number; write it in digits, 9999 at most"
                )
            options[name] = int(options[name])
        check_object(options.get("field", cls.field), options.get("vectors", cls.vectors))
        prefix = parts.path.strip("/")
        if not parts.hostname or (prefix and not _PREFIX.fullmatch(prefix)):
            raise BadInput(
                f"{without_credentials(url)} is no store; give https://HOST:9200/PREFIX, "
                "the prefix in small letters, digits, '.', '-' and '_'"
            )
        if prefix:
            options["prefix"] = prefix
        return cls(urlunsplit((parts.scheme, _host(parts.netloc), "", "", "")), **options)


def are_same_indices(url: str, other: str) -> bool:
    """Whether two URLs are of the same stores on a server, whatever kind, shards and replicas new indices have."""
    if not all(urlsplit(each).scheme in SCHEMES for each in (url, other)):
        return False
    first, second = map(Address.parse, (url, other))
    return (first.server, first.prefix, first.field) == (second.server, second.prefix, second.field)


def check_object(field: str, vectors: str) -> None:
    """Check the names of Dragoman's object field and of the vectors' type. Raises BadInput: a name is invalid."""
    if not _FIELD.fullmatch(field):
        raise BadInput(f"a field of ours can't be named {field!r}; take letters, digits, '-' and '_'")
    if vectors not in INDEX_TYPES:
        raise BadInput(f"there is no vector index {vectors!r}; there are {', '.join(INDEX_TYPES)}")


def without_credentials(url: str) -> str:
    """A URL without user and password. Raises BadInput: the URL can't be read, so a password in it can't be found."""
    parts = _split(url)
    return urlunsplit(parts._replace(netloc=_host(parts.netloc))) if "@" in parts.netloc else url


def _split(url: str) -> SplitResult:
    """Parse a URL; messages show no unreadable URL of a server, for it may hold a password."""
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
