"""What a call's body says, and which indices it reads or writes beside those of the path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from query.service.admission import Refused
from query.service.elastic.calls import Call

_OWN_PARAMETERS = {
    "scroll": "pages follow each other with search_after, and",
    "level": "it names indices, and",
    "pipeline": "what it runs may write elsewhere, and",
}
"""What leads past the indices that callers without credentials of their own may read or write."""
_MOST_NESTED = 200
_ELSEWHERE = frozenset({"script_fields", "script_score", "scripted_metric", "runtime_mappings", "indexed_shape",
                        "percolate", "pit", "more_like_this", "wrapper", "collate", "indices_boost"})  # fmt: skip
"""What computes, or reads other indices than the path names."""
_JSON = re.compile(r"application/(?:vnd\.elasticsearch\+)?(?:json|x-ndjson)\s*(?:;.*)?", re.IGNORECASE)


def bodies(call: Call, body: bytes, content_type: str, encoding: str) -> list[Any]:
    """What a body says: one value, or one a line.

    Raises:
        Refused: it is no JSON, has a name twice, is nested too deeply, or has a blank line, which would be read as a
            header that says nothing.
    """
    if not body:
        return []
    if not _JSON.fullmatch(content_type.strip()) or encoding not in {"", "identity"}:
        raise Refused(415, "the body must be JSON, and not compressed")
    lines = body.removesuffix(b"\n").split(b"\n") if call.endpoint in {"_msearch", "_bulk"} else [body]
    if not all(line.strip() for line in lines):
        raise Refused(400, "the body has a blank line; leave it out")
    try:
        read = [json.loads(line.decode(), object_pairs_hook=_once) for line in lines]
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Refused(400, f"the body is no JSON that can be passed on ({error})") from None
    _check_depth(read)
    return read


def _too_deep() -> Refused:
    return Refused(400, f"the body is nested too deeply; {_MOST_NESTED} levels are read")


def _check_depth(read: Sequence[Any]) -> None:
    """What looks at a body calls itself a level, and Python bounds that."""
    level = list(read)
    for _ in range(_MOST_NESTED):
        level = [
            below
            for one in level
            if isinstance(one, (dict, list))
            for below in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise _too_deep()


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands in it twice")
    return made


def named_indices(call: Call, read: Sequence[Any]) -> list[str]:
    """All indices that a call reads or writes, by path and body.

    Raises:
        Refused: it says that it reads something by a way that can't be followed.
    """
    inside = _INSIDE.get(call.endpoint)
    return [*call.indices, *inside(call, read)] if inside else call.indices


def refuse_own_parameters(call: Call) -> None:
    """See that no parameter leads past what a caller without credentials of its own may read.

    Raises:
        Refused: one does.
    """
    if found := _OWN_PARAMETERS.keys() & {name for name, _ in call.query}:
        raise _own(min(found))


def _own(name: str) -> Refused:
    return Refused(403, f"{name}: {_OWN_PARAMETERS[name]} this needs your own Elasticsearch credentials")


def _of_msearch(call: Call, read: Sequence[Any]) -> Iterator[str]:
    for header in read[::2]:
        if not isinstance(header, dict):
            raise Refused(400, "a header of this _msearch is no object")
        given = [_listed(header[name]) for name in ("index", "indices") if name in header]
        if not all(given):  # an empty list is all indices there are
            raise Refused(403, "a header of this _msearch has a list of indices that names none; name one, or leave it")
        if not given and not call.indices:
            raise Refused(403, "a search of this _msearch names no index; name one in each header")
        for names in given:
            yield from names


def _of_mget(call: Call, read: Sequence[Any]) -> Iterator[str]:
    asked = read[0] if read else {}
    if not isinstance(asked, dict) or not isinstance(asked.get("docs", []), list):
        raise Refused(400, "an _mget is an object with a list of docs, or of ids")
    if not call.indices and (asked.keys() != {"docs"} or not asked["docs"]):
        raise Refused(403, "this _mget names no index; name one in the path, or in each of its docs")
    for document in asked.get("docs", []):
        given = document.get("_index") if isinstance(document, dict) else None
        if given is None and not call.indices:
            raise Refused(403, "a document of this _mget names no index")
        yield from _listed(given)


def _of_termvectors(call: Call, read: Sequence[Any]) -> Iterator[str]:  # noqa: ARG001
    """Elasticsearch takes an index in the body for that of the path."""
    for asked in read:
        if not isinstance(asked, dict):
            raise Refused(400, "the body of this _termvectors is no object")
        yield from _listed(asked.get("_index"))


def _of_bulk(call: Call, read: Sequence[Any]) -> Iterator[str]:
    lines = iter(read)
    for line in lines:
        if not isinstance(line, dict) or len(line) != 1:
            raise Refused(400, "a line of the _bulk is no action")
        ((action, how),) = line.items()
        if action not in {"index", "create", "update", "delete"} or not isinstance(how, dict):
            raise Refused(400, "a line of the _bulk is no action")
        if "pipeline" in how:
            raise _own("pipeline")
        given = how.get("_index")
        if given is None and not call.indices:
            raise Refused(403, "an action of this _bulk names no index")
        yield from _listed(given)
        if action != "delete":
            next(lines, None)


_INSIDE: Mapping[str, Callable[[Call, Sequence[Any]], Iterator[str]]] = {
    "_msearch": _of_msearch,
    "_mget": _of_mget,
    "_termvectors": _of_termvectors,
    "_bulk": _of_bulk,
}
"""Endpoints whose bodies name indices."""


def _listed(given: Any) -> list[str]:
    if given is None:
        return []
    values = given if isinstance(given, list) else [given]
    return [name for value in values for name in str(value).split(",")]


def reaches_elsewhere(value: Any) -> str:
    """What of a body computes by a script, or reads another index than the path names; empty: nothing."""
    if isinstance(value, list):
        return next((found for one in value if (found := reaches_elsewhere(one))), "")
    if not isinstance(value, dict):
        return ""
    for name, below in value.items():
        if name in _ELSEWHERE or name.endswith("script"):
            return str(name)
        if isinstance(below, dict) and "index" in below and ("path" in below or "id" in below):
            return "terms lookup"
        if found := reaches_elsewhere(below):
            return found
    return ""
