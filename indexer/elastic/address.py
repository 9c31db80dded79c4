"""Where an Elasticsearch server is: URLs, prefixes, credentials."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from typing import Any, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from encoders.errors import BadInput

SCHEMES = frozenset({"http", "https"})

INDEX_TYPES = ("hnsw", "int8_hnsw", "int4_hnsw", "bbq_hnsw", "flat", "int8_flat", "int4_flat", "bbq_flat")

FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
"""Names that an object field of ours can have."""

_PREFIX = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")

_KEY = re.compile(r"[!-~]*")


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
