"""Elasticsearch calls that the service answers: paths, bodies, and the indices that both name.

A path is split as sent, each part decoded once, and written anew: so the cluster gets the path that was checked.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from encoders.printable import HALF_CHARACTER, has_surrogate
from query.service.api_messages import unique_names
from query.service.refusals import UNREADABLE_PATH, Refused

_ENDPOINTS = ("_search", "_count", "_msearch")
_INDEX = re.compile(r"[^_\s/\\?\"<>|#][^\s/\\?\"<>|#]{0,1000}")
_REFUSED_PARAMETERS = {
    "source": "send the search as the body",
    "source_content_type": "send the search as the body",
    "error_trace": "stack traces are not given away",
    "index": "name indices in the path",
    "scroll": "pages follow each other by search_after, or ask the Elasticsearch cluster itself",
}
"""Parameters that Elasticsearch would read and the service does not check, and what begins a call it does not take."""
_MAX_LEVELS = 200
_REACHING_NAMES = frozenset({"script_fields", "script_score", "scripted_metric", "runtime_mappings", "indexed_shape",
                        "percolate", "pit", "more_like_this", "wrapper", "collate", "indices_boost"})  # fmt: skip
"""Names in a body that run a script, or read other indices than the path names."""
_JSON = re.compile(r"application/(?:vnd\.elasticsearch\+)?(?:json|x-ndjson)\s*(?:;.*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Call:
    """A call of Elasticsearch."""

    method: str
    endpoint: str  # one of ``_ENDPOINTS``; empty: a client's greeting
    target: str  # path and parameters as they are passed on
    indices: Sequence[str]  # names in the path
    parameters: dict[str, str]

    @classmethod
    def parse(cls, method: str, path: bytes, query: bytes) -> "Call":
        """Parse a request. Raises Refused: the service can't read it, or does not answer the call or a parameter."""
        try:
            parts = [unquote_to_bytes(part).decode() for part in path.split(b"/")[1:]]
        except UnicodeDecodeError:
            raise Refused(400, "the path is not UTF-8") from None
        if len(parts) > 1 and not parts[-1]:
            parts.pop()
        if parts != [""] and any(part in {"", ".", ".."} or not part.isprintable() for part in parts):
            raise Refused(400, UNREADABLE_PATH)
        try:
            parameters = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict"))
        except (UnicodeDecodeError, ValueError):
            raise Refused(400, "the parameters are not UTF-8") from None
        if refused_names := _REFUSED_PARAMETERS.keys() & parameters.keys():
            refused = min(refused_names)
            raise Refused(400, f"the parameter {refused} is not taken here; {_REFUSED_PARAMETERS[refused]}")
        *names, endpoint = parts
        if (endpoint and endpoint not in _ENDPOINTS) or len(names) > 1 or not all(map(_INDEX.fullmatch, names)):
            raise Refused(
                403, f"the service answers {', '.join(_ENDPOINTS)} alone; ask the Elasticsearch cluster itself"
            )
        if method not in ({"GET", "POST"} if endpoint else {"GET", "HEAD"}):
            raise Refused(405, f"{method} is not answered here; ask the Elasticsearch cluster itself")
        return cls(method, endpoint, _target(parts, parameters), names[0].split(",") if names else (), parameters)


def _target(parts: Sequence[str], parameters: Mapping[str, str]) -> str:
    target = "/" + "/".join(quote(part, safe="") for part in parts)
    return target + (f"?{urlencode(parameters)}" if parameters else "")


def body_lines(call: Call, body: bytes, content_type: str, encoding: str) -> tuple[list[bytes], list[Any]]:
    """The texts of a body, a line each for ``_msearch``, and their JSON values. Raises Refused: it is not valid.

    Invalid are a repeated name, deep nesting, and a blank line, which Elasticsearch would read as an empty header.
    """
    if not body:
        return [], []
    if not _JSON.fullmatch(content_type.strip()) or encoding not in {"", "identity"}:
        raise Refused(415, "the body must be JSON, and not compressed")
    lines = body.removesuffix(b"\n").split(b"\n") if call.endpoint == "_msearch" else [body]
    if not all(line.strip() for line in lines):
        raise Refused(400, "the body has a blank line; leave it out")
    try:
        decoder = json.JSONDecoder(object_pairs_hook=unique_names, parse_constant=_refuse_constant)
        values = [decoder.decode(line.decode()) for line in lines]
        _check_depth(values)
    except RecursionError:
        raise Refused(400, f"the body is nested too deeply; {_MAX_LEVELS} levels are read") from None
    except ValueError as error:
        problem = str(error).partition(":")[0]  # Python's advice on long numbers follows
        if isinstance(error, UnicodeDecodeError):
            problem = "it is not UTF-8"
        elif isinstance(error, json.JSONDecodeError):
            problem = f"from line {error.lineno}, column {error.colno} on"
        raise Refused(400, f"the body is no JSON that can be read ({problem})") from None
    if has_surrogate(values):
        raise Refused(400, f"the body {HALF_CHARACTER}")
    return lines, values


def _check_depth(values: Sequence[Any]) -> None:
    """Refuse deeply nested bodies: functions that search a body recurse once a level, and Python bounds recursion."""
    level = list(values)
    for _ in range(_MAX_LEVELS):
        level = [
            inner_value
            for value in level
            if isinstance(value, (dict, list))
            for inner_value in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise RecursionError


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} stands in it")


def named_indices(call: Call, values: Sequence[Any]) -> list[str]:
    """All indices that a call names, in path and ``_msearch`` headers. Raises Refused: it may read others."""
    if call.endpoint == "_msearch":
        return [*call.indices, *(name for header in values[::2] for name in header_indices(call, header))]
    if not call.indices:
        raise Refused(403, "this call needs your own Elasticsearch credentials, or an index in its path")
    return list(call.indices)


def header_indices(call: Call, header: Any) -> Iterator[str]:
    """The indices of a search of ``_msearch``: its header's, else the path's. Raises Refused: there is none."""
    if not isinstance(header, dict):
        raise Refused(400, "a header of this _msearch is no object")
    stated = [header[name] for name in ("index", "indices") if name in header]
    entries = [index if isinstance(index, list) else [] if index is None else [index] for index in stated]
    index_lists = [[name for entry in of_name for name in str(entry).split(",")] for of_name in entries]
    if not all(index_lists):  # an empty list means all indices
        raise Refused(403, "a header of this _msearch has a list of indices that names none; name one, or leave it")
    if not index_lists and not call.indices:
        raise Refused(403, "a search of this _msearch names no index; name one in each header")
    for index_names in index_lists or [list(call.indices)]:
        yield from index_names


def narrowed_to(
    served: Mapping[str, Sequence[str]], call: Call, lines: Sequence[bytes], values: Sequence[Any]
) -> tuple[Call, Sequence[bytes]]:
    """The call and the lines of its body with the indices that each name stands for in ``served``, which has all."""

    def indices_of(names: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(index for name in names for index in served[name]))

    indices = indices_of(call.indices)
    if indices != list(call.indices):
        parameters = {"ignore_unavailable": "true", **call.parameters}
        target = _target([",".join(indices), call.endpoint], parameters)
        call = replace(call, target=target, indices=indices, parameters=parameters)
    if call.endpoint != "_msearch":
        return call, lines
    narrowed = list(lines)
    for at in range(0, len(lines), 2):
        names = list(header_indices(call, values[at]))
        if (own := {"index", "indices"} & values[at].keys()) and (indices := indices_of(names)) != names:
            header = {"ignore_unavailable": True, **values[at], **dict.fromkeys(own, indices)}
            narrowed[at] = json.dumps(header).encode()
    return call, narrowed


def reaches_elsewhere(value: Any) -> str:
    """What in a body runs a script or reads another index than the path names; empty: nothing."""
    if isinstance(value, list):
        return next((reason for item in value if (reason := reaches_elsewhere(item))), "")
    if not isinstance(value, dict):
        return ""
    for name, inner in value.items():
        if name in _REACHING_NAMES or name == "script" or name.endswith("_script"):
            return str(name)
        if isinstance(inner, dict) and "index" in inner and ("path" in inner or "id" in inner):
            return "terms lookup"
        if reason := reaches_elsewhere(inner):
            return reason
    return ""
