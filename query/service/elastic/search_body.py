"""The body of a call: its JSON values, and the indices that it names beside those of the path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from query.service.elastic.calls import Call
from query.service.messages import has_surrogate
from query.service.refusals import Refused

_CREDENTIAL_PARAMETERS = {
    "scroll": "pages follow each other with search_after, and",
    "level": "it names indices, and",
}
"""Parameters that can reach other indices than callers without credentials of their own may use, with the reason."""
_UPDATE_PARTS = frozenset({"doc", "doc_as_upsert", "upsert", "detect_noop", "_source"})
"""Names in the body of an update that does not run a script."""
_ACTION_PARAMETERS = frozenset({"_index", "_id", "op_type", "routing", "version", "version_type", "if_seq_no",
                        "if_primary_term", "retry_on_conflict", "require_alias", "_source"})  # fmt: skip
"""Parameters of an action of ``_bulk`` that write the action's document and nothing else."""
_MAX_LEVELS = 200
_REACHING_NAMES = frozenset({"script_fields", "script_score", "scripted_metric", "runtime_mappings", "indexed_shape",
                        "percolate", "pit", "more_like_this", "wrapper", "collate", "indices_boost"})  # fmt: skip
"""Names in a body that run a script, or read other indices than the path names."""
_JSON = re.compile(r"application/(?:vnd\.elasticsearch\+)?(?:json|x-ndjson)\s*(?:;.*)?", re.IGNORECASE)


def bodies(call: Call, body: bytes, content_type: str, encoding: str) -> list[Any]:
    """JSON values of a body: one, or one for each line of ``_msearch`` and ``_bulk``.

    Raises:
        Refused: the body is no JSON, repeats a name in an object, is nested too deeply, or has a blank line, which
            Elasticsearch would read as an empty header.
    """
    if not body:
        return []
    if not _JSON.fullmatch(content_type.strip()) or encoding not in {"", "identity"}:
        raise Refused(415, "the body must be JSON, and not compressed")
    lines = body.removesuffix(b"\n").split(b"\n") if call.endpoint in {"_msearch", "_bulk"} else [body]
    if not all(line.strip() for line in lines):
        raise Refused(400, "the body has a blank line; leave it out")
    try:
        values = [
            json.loads(line.decode(), object_pairs_hook=_unique_names, parse_constant=_refuse_constant)
            for line in lines
        ]
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Refused(400, f"the body is no JSON that can be passed on ({error})") from None
    _check_depth(values)
    if has_surrogate(values):
        raise Refused(400, "the body has half of a surrogate pair, which is no character; leave it out")
    return values


def _too_deep() -> Refused:
    return Refused(400, f"the body is nested too deeply; {_MAX_LEVELS} levels are read")


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
    raise _too_deep()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} stands in it")


def _unique_names(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name stands in it twice")
    return members


def named_indices(call: Call, values: Sequence[Any]) -> list[str]:
    """All indices that the path and the body of a call name.

    Raises:
        Refused: the body may read or write an index that it does not name.
    """
    body_indices = _BODY_INDICES.get(call.endpoint)
    return [*call.indices, *body_indices(call, values)] if body_indices else call.indices


def refuse_credential_parameters(call: Call) -> None:
    """Refuse a call whose parameters need the caller's own credentials.

    Raises:
        Refused: a parameter could reach indices that the caller may not read.
    """
    if refused_names := _CREDENTIAL_PARAMETERS.keys() & {name for name, _ in call.query}:
        raise _credentials_needed(min(refused_names))


def _credentials_needed(name: str) -> Refused:
    return Refused(403, f"{name}: {_CREDENTIAL_PARAMETERS[name]} this needs your own Elasticsearch credentials")


def refuse_scripts_and_pipelines(call: Call, values: Sequence[Any]) -> None:
    """Refuse a write that does more than to store or delete the documents that it names.

    Raises:
        Refused: the write would run a script or a pipeline, or its body can't be read.
    """
    if any(name == "pipeline" for name, _ in call.query):
        raise _not_passed_on("pipeline")
    if call.endpoint == "_update":
        for value in values:
            _check_update(value)
    if call.endpoint == "_bulk":
        for action, parameters, source in _bulk_actions(values):
            if unknown := parameters.keys() - _ACTION_PARAMETERS:
                raise _not_passed_on(min(unknown))
            if action == "update":
                _check_update(source)


def _check_update(body: Any) -> None:
    if not isinstance(body, dict):
        raise Refused(400, 'the body of an update is not an object, and is not passed on; send {"doc": {…}}')
    if unknown := body.keys() - _UPDATE_PARTS:
        raise _not_passed_on(min(unknown))


def _not_passed_on(name: str) -> Refused:
    return Refused(403, f"{name[:100]!r} is not passed on in a write; send documents, or write to Elasticsearch itself")


def _msearch_indices(call: Call, values: Sequence[Any]) -> Iterator[str]:
    for header in values[::2]:
        if not isinstance(header, dict):
            raise Refused(400, "a header of this _msearch is no object")
        index_lists = [_index_names(header[name]) for name in ("index", "indices") if name in header]
        if not all(index_lists):  # an empty list means all indices
            raise Refused(403, "a header of this _msearch has a list of indices that names none; name one, or leave it")
        if not index_lists and not call.indices:
            raise Refused(403, "a search of this _msearch names no index; name one in each header")
        for index_names in index_lists:
            yield from index_names


def _mget_indices(call: Call, values: Sequence[Any]) -> Iterator[str]:
    request = values[0] if values else {}
    if not isinstance(request, dict) or not isinstance(request.get("docs", []), list):
        raise Refused(400, "an _mget is an object with a list of docs, or of ids")
    if not call.indices and (request.keys() != {"docs"} or not request["docs"]):
        raise Refused(403, "this _mget names no index; name one in the path, or in each of its docs")
    for document in request.get("docs", []):
        index = document.get("_index") if isinstance(document, dict) else None
        if index is None and not call.indices:
            raise Refused(403, "a document of this _mget names no index")
        yield from _index_names(index)


def _termvectors_indices(call: Call, values: Sequence[Any]) -> Iterator[str]:  # noqa: ARG001
    """An index in the body takes the place of the path's."""
    for request in values:
        if not isinstance(request, dict):
            raise Refused(400, "the body of this _termvectors is no object")
        yield from _index_names(request.get("_index"))


def _bulk_indices(call: Call, values: Sequence[Any]) -> Iterator[str]:
    for _, parameters, _ in _bulk_actions(values):
        index = parameters.get("_index")
        if index is None and not call.indices:
            raise Refused(403, "an action of this _bulk names no index")
        yield from _index_names(index)


def _bulk_actions(values: Sequence[Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Name, parameters and source of each action of a ``_bulk``; the source of a deletion is None."""
    lines = iter(values)
    for line in lines:
        if not isinstance(line, dict) or len(line) != 1:
            raise Refused(400, "a line of the _bulk is no action")
        ((action, parameters),) = line.items()
        if action not in {"index", "create", "update", "delete"} or not isinstance(parameters, dict):
            raise Refused(400, "a line of the _bulk is no action")
        yield action, parameters, None if action == "delete" else next(lines, None)


_BODY_INDICES: Mapping[str, Callable[[Call, Sequence[Any]], Iterator[str]]] = {
    "_msearch": _msearch_indices,
    "_mget": _mget_indices,
    "_termvectors": _termvectors_indices,
    "_bulk": _bulk_indices,
}
"""Endpoints whose bodies name indices."""


def _index_names(index: Any) -> list[str]:
    if index is None:
        return []
    entries = index if isinstance(index, list) else [index]
    return [name for entry in entries for name in str(entry).split(",")]


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
