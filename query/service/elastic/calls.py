"""Which of Elasticsearch's calls there are here, and which indices each asks: whatever a path's spelling.

A path is taken apart as it was sent, each part is decoded once, and what is passed on is written anew from these parts:
what was looked at is what the cluster gets. What is not on the lists is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from query.service.admission import Refused

INDEX, ID = "{index}", "{id}"
_READ, _HEAD, _GET = frozenset({"GET", "POST"}), frozenset({"GET", "HEAD"}), frozenset({"GET"})

_READS: Mapping[tuple[str, ...], frozenset[str]] = {
    (): _HEAD,
    (INDEX, "_search"): _READ,
    (INDEX, "_count"): _READ,
    (INDEX, "_msearch"): _READ,
    ("_msearch",): _READ,
    (INDEX, "_mget"): _READ,
    ("_mget",): _READ,
    (INDEX, "_doc", ID): _HEAD,
    (INDEX, "_source", ID): _HEAD,
    (INDEX, "_explain", ID): _READ,
    (INDEX, "_termvectors", ID): _READ,
    (INDEX, "_field_caps"): _READ,
    (INDEX, "_validate", "query"): _READ,
    (INDEX, "_mapping"): _GET,
    (INDEX,): _HEAD,
    ("_cluster", "health"): _GET,
}
_OWN: Mapping[tuple[str, ...], frozenset[str]] = {
    ("_search",): _READ,
    ("_count",): _READ,
    ("_field_caps",): _READ,
    (INDEX, "_pit"): frozenset({"POST"}),
    ("_pit",): frozenset({"DELETE"}),
    ("_search", "scroll"): frozenset({"GET", "POST", "DELETE"}),
    ("_security", "_authenticate"): _GET,
}
"""What needs a caller's own credentials: here we can't tell which indices it reads."""
_WRITES: Mapping[tuple[str, ...], frozenset[str]] = {
    (INDEX, "_doc"): frozenset({"POST"}),
    (INDEX, "_doc", ID): frozenset({"PUT", "POST", "DELETE"}),
    (INDEX, "_create", ID): frozenset({"PUT", "POST"}),
    (INDEX, "_update", ID): frozenset({"POST"}),
    (INDEX, "_bulk"): frozenset({"PUT", "POST"}),
    ("_bulk",): frozenset({"PUT", "POST"}),
    (INDEX, "_refresh"): frozenset({"POST"}),
}
_INDEX = re.compile(r"[^_\s/\\?\"<>|#][^\s/\\?\"<>|#]{0,1000}")
_NO_PARAMETERS = {
    "source": "send the search as the body",
    "source_content_type": "send the search as the body",
    "error_trace": "stack traces are not given away",
    "index": "name indices in the path",
}
"""A body beside the body, stack traces, and indices beside those of the path: Elasticsearch reads all of these."""


@dataclass(frozen=True)
class Call:
    """A call of Elasticsearch's.

    Attributes:
        method: GET, POST …
        parts: of the path, decoded.
        kind: the same with ``{index}`` and ``{id}`` for names.
        query: its parameters.
        writes: whether it changes anything.
        own: whether it needs a caller's own credentials.
    """

    method: str
    parts: tuple[str, ...]
    kind: tuple[str, ...]
    query: tuple[tuple[str, str], ...]
    writes: bool = False
    own: bool = False

    @classmethod
    def parse(cls, method: str, path: bytes, query: bytes) -> Call:
        """Take a request's line apart.

        Raises:
            Refused: it is none of the calls there are.
        """
        parts = tuple(map(_decoded, path.split(b"/")[1:])) if path != b"/" else ()
        if parts and parts[-1] == "" and len(parts) > 1:
            parts = parts[:-1]
        if any(part in {"", ".", ".."} or not part.isprintable() for part in parts):
            raise Refused(400, "the path can't be read; write every name in it once and percent-encoded")
        try:
            asked = tuple(parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict"))
        except (UnicodeDecodeError, ValueError):
            raise Refused(400, "the parameters are not UTF-8") from None
        if wrong := _NO_PARAMETERS.keys() & {name for name, _ in asked}:
            raise Refused(400, f"the parameter {min(wrong)} is not taken here; {_NO_PARAMETERS[min(wrong)]}")
        kind = _kind(parts)
        if kind is None:
            raise Refused(403, "this call is not passed on; reads that are: _search, _count, _msearch, _mget, _doc, "
                          "_source, _explain, _termvectors, _field_caps, _validate/query, _mapping")  # fmt: skip
        for calls, writes, own in ((_READS, False, False), (_OWN, False, True), (_WRITES, True, False)):
            if method in calls.get(kind, ()):
                return cls(method, parts, kind, asked, writes, own)
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
        """``_search`` and the like; empty: an index, or nothing."""
        return next((part for part in self.kind if part.startswith("_")), "")


def _decoded(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refused(400, "the path is not UTF-8") from None


def _kind(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """The entry of the tables that a path is of."""
    kinds = (kind for table in (_READS, _OWN, _WRITES) for kind in table)
    return next((kind for kind in kinds if len(kind) == len(parts) and all(map(_fits, kind, parts))), None)


def _fits(expected: str, part: str) -> bool:
    """An index begins with no ``_``; an id may have slashes, which are written anew."""
    return bool(_INDEX.fullmatch(part)) if expected == INDEX else expected in {ID, part}
