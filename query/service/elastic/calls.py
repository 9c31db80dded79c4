"""The calls of Elasticsearch that the service accepts, and the indices that a call's path names.

A path is split as it was sent, each part is decoded once, and the path that is passed on is written anew from these
parts: so the cluster gets the path that was checked, whatever the spelling. Calls outside the lists are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from query.service.middleware import UNREADABLE_PATH
from query.service.refusals import Refused

INDEX, ID = "{index}", "{id}"
_GET_POST, _GET_HEAD, _GET = frozenset({"GET", "POST"}), frozenset({"GET", "HEAD"}), frozenset({"GET"})

_READ_CALLS: Mapping[tuple[str, ...], frozenset[str]] = {
    (): _GET_HEAD,
    (INDEX, "_search"): _GET_POST,
    (INDEX, "_count"): _GET_POST,
    (INDEX, "_msearch"): _GET_POST,
    ("_msearch",): _GET_POST,
    (INDEX, "_mget"): _GET_POST,
    ("_mget",): _GET_POST,
    (INDEX, "_doc", ID): _GET_HEAD,
    (INDEX, "_source", ID): _GET_HEAD,
    (INDEX, "_explain", ID): _GET_POST,
    (INDEX, "_termvectors", ID): _GET_POST,
    (INDEX, "_field_caps"): _GET_POST,
    (INDEX, "_validate", "query"): _GET_POST,
    (INDEX, "_mapping"): _GET,
    (INDEX,): _GET_HEAD,
    ("_cluster", "health"): _GET,
}
_CREDENTIAL_CALLS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("_search",): _GET_POST,
    ("_count",): _GET_POST,
    ("_field_caps",): _GET_POST,
    (INDEX, "_pit"): frozenset({"POST"}),
    ("_pit",): frozenset({"DELETE"}),
    ("_search", "scroll"): frozenset({"GET", "POST", "DELETE"}),
    ("_security", "_authenticate"): _GET,
}
"""Calls that need a caller's own credentials, as the service can't tell which indices they read."""
_WRITE_CALLS: Mapping[tuple[str, ...], frozenset[str]] = {
    (INDEX, "_doc"): frozenset({"POST"}),
    (INDEX, "_doc", ID): frozenset({"PUT", "POST", "DELETE"}),
    (INDEX, "_create", ID): frozenset({"PUT", "POST"}),
    (INDEX, "_update", ID): frozenset({"POST"}),
    (INDEX, "_bulk"): frozenset({"PUT", "POST"}),
    ("_bulk",): frozenset({"PUT", "POST"}),
    (INDEX, "_refresh"): frozenset({"POST"}),
}
_INDEX = re.compile(r"[^_\s/\\?\"<>|#][^\s/\\?\"<>|#]{0,1000}")
_REFUSED_PARAMETERS = {
    "source": "send the search as the body",
    "source_content_type": "send the search as the body",
    "error_trace": "stack traces are not given away",
    "index": "name indices in the path",
}
"""Parameters that Elasticsearch would read and the service does not check: a second body, indices, stack traces."""


@dataclass(frozen=True)
class Call:
    """A call of Elasticsearch.

    Attributes:
        parts: of the path, decoded.
        kind: the parts with ``{index}`` and ``{id}`` in place of names.
        query: names and values of the parameters.
        writes: whether the call changes documents or the index.
        needs_credentials: whether the call needs the caller's own credentials.
    """

    method: str
    parts: tuple[str, ...]
    kind: tuple[str, ...]
    query: tuple[tuple[str, str], ...]
    writes: bool = False
    needs_credentials: bool = False

    @classmethod
    def parse(cls, method: str, path: bytes, query: bytes) -> Call:
        """Parse method, path and parameters of a request.

        Raises:
            Refused: the request is no call of the lists, can't be read, or has a parameter that is not taken.
        """
        parts = tuple(map(_decoded, path.split(b"/")[1:])) if path != b"/" else ()
        if parts and parts[-1] == "" and len(parts) > 1:
            parts = parts[:-1]
        if any(part in {"", ".", ".."} or not part.isprintable() for part in parts):
            raise Refused(400, UNREADABLE_PATH)
        try:
            parameters = tuple(parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict"))
        except (UnicodeDecodeError, ValueError):
            raise Refused(400, "the parameters are not UTF-8") from None
        if refused_names := _REFUSED_PARAMETERS.keys() & {name for name, _ in parameters}:
            refused = min(refused_names)
            raise Refused(400, f"the parameter {refused} is not taken here; {_REFUSED_PARAMETERS[refused]}")
        kind = _kind(parts)
        if kind is None:
            raise Refused(403, "this call is not passed on; reads that are: _search, _count, _msearch, _mget, _doc, "
                          "_source, _explain, _termvectors, _field_caps, _validate/query, _mapping")  # fmt: skip
        for calls, writes, needs_credentials in (
            (_READ_CALLS, False, False),
            (_CREDENTIAL_CALLS, False, True),
            (_WRITE_CALLS, True, False),
        ):
            if method in calls.get(kind, ()):
                return cls(method, parts, kind, parameters, writes, needs_credentials)
        raise Refused(405, f"{method} is not passed on for this call")

    @property
    def path(self) -> str:
        """The path as it is passed on."""
        return "/" + "/".join(quote(part, safe="") for part in self.parts)

    @property
    def target(self) -> str:
        """Path and parameters as they are passed on."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def indices(self) -> list[str]:
        """Names in the path."""
        return self.parts[0].split(",") if INDEX in self.kind else []

    @property
    def endpoint(self) -> str:
        """The first part that begins with ``_``, such as ``_search``; empty: the path is an index, or empty."""
        return next((part for part in self.kind if part.startswith("_")), "")


def _decoded(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refused(400, "the path is not UTF-8") from None


def _kind(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """The entry of the tables that a path matches; none if it matches no entry."""
    kinds = (kind for table in (_READ_CALLS, _CREDENTIAL_CALLS, _WRITE_CALLS) for kind in table)
    return next((kind for kind in kinds if len(kind) == len(parts) and all(map(_matches, kind, parts))), None)


def _matches(expected: str, part: str) -> bool:
    """Whether a part of a path matches that of an entry; an index can't begin with ``_``, an id may have slashes."""
    return bool(_INDEX.fullmatch(part)) if expected == INDEX else expected in {ID, part}
