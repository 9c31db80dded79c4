"""The one clause more: ``cross_lingual`` in an ordinary search body, taken apart or refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from query.service.admission import Refused
from query.service.messages import MOST, SearchRequest

NAME = "cross_lingual"
_ASKED = ("query", "lang", "to", "balance", "margin", "weights", "hybrid", "passages", "calibration")
_HARMLESS = frozenset({"track_total_hits", "track_scores", "timeout", "version", "seq_no_primary_term"})
_TAKEN = frozenset({"query", "from", "size", "_source", "highlight", "explain"})
_QUIET = frozenset(
    {"allow_no_indices", "batched_reduce_size", "ccs_minimize_roundtrips", "expand_wildcards", "human"}
    | {"ignore_throttled", "ignore_unavailable", "max_concurrent_shard_requests", "pre_filter_shard_size"}
    | {"preference", "pretty", "request_cache", "search_type", "typed_keys"}
)
"""Parameters that change nothing in such a search."""
_SURELY_NOT = {
    "search_after": "a ranking of candidates has no place to go on from; ask for more at once with size, up to 1000",
    "aggs": "documents are ranked by candidates and not matched, so there is nothing to count; ask for aggregations "
    "in a search of their own",
    "aggregations": "documents are ranked by candidates and not matched, so there is nothing to count; ask for "
    "aggregations in a search of their own",
    "sort": "hits are ranked by what they mean; sort them in your application",
    "knn": "the service makes the vectors itself",
    "version": "hits are shown without versions; read them with _mget",
    "seq_no_primary_term": "hits are shown without sequence numbers; read them with _mget",
    "routing": "candidates come from every shard; filter by a field",
}


@dataclass(frozen=True)
class Highlight:
    """Which fields show the matching passage, and between what.

    Attributes:
        tags: by pattern of fields what stands before the passage, and what behind it.
        html: whether the text is escaped for HTML.
    """

    tags: Mapping[str, tuple[str, str]]
    html: bool = False


@dataclass(frozen=True)
class CrossLingual:
    """A search body that has the clause.

    Attributes:
        asked: the query and how to rank.
        filters: clauses that documents must pass, in Elasticsearch's language.
        start: hits left out at the head.
        size: hits shown after these.
        source: ``_source`` as it was given.
        highlight: none: no highlights.
        explain: say what scores are made of.
    """

    asked: SearchRequest
    filters: tuple[Mapping[str, Any], ...] = ()
    start: int = 0
    size: int = 10
    source: Any = True
    highlight: Highlight | None = None
    explain: bool = False


def has_clause(value: Any) -> bool:
    """Whether the clause is anywhere in a body: then the cluster would not understand it."""
    if isinstance(value, list):
        return any(map(has_clause, value))
    return isinstance(value, dict) and (NAME in value or any(map(has_clause, value.values())))


def parse(body: Mapping[str, Any], parameters: Mapping[str, str]) -> CrossLingual:
    """Take a body apart.

    Args:
        body: of the search; the clause is somewhere in it.
        parameters: of the URL, which say some of it, too.

    Raises:
        Refused: something in it can't be done together with the clause.
    """
    given = {**body, **_of_parameters(parameters)}
    for name, value in given.items():
        if name in _SURELY_NOT and value is not False:
            raise Refused(400, f"{name} can't be combined with {NAME}: {_SURELY_NOT[name]}")
        if name not in _TAKEN | _HARMLESS:
            raise Refused(400, f"{name} can't be combined with {NAME}; there are {', '.join(sorted(_TAKEN))}")
    clause, filters = _clause(given.get("query"))
    start, size = _number(given, "from", 0), _number(given, "size", 10)
    if start + size > MOST:
        raise Refused(400, f"from and size are together {start + size}, and at most {MOST} hits are ranked")
    if has_clause(filters):
        raise Refused(400, f"{NAME} stands once, as the query or in must of a bool")
    asked = _asked(clause, max(1, start + size), explain=bool(given.get("explain")))
    return CrossLingual(
        asked, filters, start, size, given.get("_source", True), _highlight(given.get("highlight")), asked.explain
    )


def _of_parameters(parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the URL says, as the body would."""
    said: dict[str, Any] = {}
    source: dict[str, list[str]] = {}
    for name, value in parameters.items():
        if name in {"from", "size"}:
            said[name] = int(value) if value.isdigit() else value
        elif name == "_source":
            said[name] = value == "true" if value in {"true", "false"} else value.split(",")
        elif name in {"_source_includes", "_source_excludes"}:
            source[name.removeprefix("_source_")] = value.split(",")
        elif name in {"explain", *_HARMLESS}:
            said[name] = value != "false"
        elif name == "routing":
            said[name] = value
        elif name not in _QUIET:
            raise Refused(400, f"the parameter {name} can't be combined with {NAME}")
    return {**said, **({"_source": source} if source else {})}


def _clause(query: Any) -> tuple[Any, tuple[Mapping[str, Any], ...]]:
    """The clause, and what filters beside it."""
    if not isinstance(query, dict) or len(query) != 1:
        raise Refused(400, f"the query must be {NAME}, or a bool that has it in must")
    if NAME in query:
        return query[NAME], ()
    inner = query.get("bool")
    if not isinstance(inner, dict):
        raise Refused(400, f"{NAME} can't stand there; it is the query, or in must of a bool that is the query")
    unknown = inner.keys() - {"must", "filter", "must_not"}
    if unknown:
        raise Refused(
            400,
            f"bool.{min(unknown)} can't be combined with {NAME}: scores of words and of meaning don't add; "
            "filter and must_not can",
        )
    must = _clauses(inner.get("must"))
    if len(must) != 1 or NAME not in must[0]:
        raise Refused(400, f"bool.must has {NAME} alone; what else a document must have stands in bool.filter")
    filters = _clauses(inner.get("filter"))
    without = _clauses(inner.get("must_not"))
    return must[0][NAME], (*filters, *([{"bool": {"must_not": without}}] if without else []))


def _clauses(given: Any) -> list[dict[str, Any]]:
    clauses = [] if given is None else given if isinstance(given, list) else [given]
    if not all(isinstance(one, dict) and len(one) == 1 for one in clauses):
        raise Refused(400, "a clause of bool is an object with the name of a query")
    return clauses


def _number(given: Mapping[str, Any], name: str, usual: int) -> int:
    value = given.get(name, usual)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused(400, f"{name} must be a number from 0 on")
    return value


def _asked(clause: Any, k: int, *, explain: bool) -> SearchRequest:
    if not isinstance(clause, dict):
        raise Refused(400, f'{NAME} is an object: {{"query": "what to look for"}}')
    unknown = clause.keys() - set(_ASKED)
    if unknown:
        raise Refused(400, f"{NAME} has no {min(unknown)!r}; it has {', '.join(_ASKED)}")
    try:
        return SearchRequest.model_validate({**clause, "k": k, "explain": explain}, strict=False)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
        raise Refused(400, f"{NAME} can't be read ({said})") from None


def _highlight(given: Any) -> Highlight | None:
    if given is None:
        return None
    fields = given.get("fields") if isinstance(given, dict) else None
    if isinstance(fields, list):
        fields = {name: how for one in fields if isinstance(one, dict) for name, how in one.items()}
    if not isinstance(fields, dict):
        raise Refused(400, "highlight has fields")
    return Highlight(
        {
            name: (_tag("pre_tags", "<em>", how, given), _tag("post_tags", "</em>", how, given))
            for name, how in fields.items()
        },
        html=given.get("encoder") == "html",
    )


def _tag(name: str, usual: str, *said: Any) -> str:
    """What the first says that says anything of it: a field, then all of them."""
    for one in said:
        tag = one.get(name) if isinstance(one, dict) else None
        if isinstance(tag, list) and tag:
            tag = tag[0]
        if tag is not None and not isinstance(tag, str):
            raise Refused(400, f"{name} of highlight is text")
        if tag is not None:
            return tag
    return usual


def as_filters(clauses: Sequence[Mapping[str, Any]], read: Sequence[str]) -> dict[str, Any]:
    """Clauses as a store takes them that knows none of a server's: ``term`` and ``terms`` of fields; all must hold.

    Args:
        clauses: of Elasticsearch's.
        read: text, title and language of a document, which are none of its fields.

    Raises:
        Refused: a clause is another one.
    """
    filters: dict[str, Any] = {}
    for clause in clauses:
        ((kind, inner),) = clause.items()
        named = {name: value for name, value in inner.items() if name != "boost"} if isinstance(inner, dict) else {}
        if kind not in {"term", "terms"} or len(named) != 1:
            raise Refused(
                400,
                f"{kind} can't filter this collection, whose vectors are not in an index of yours; term and terms can",
            )
        ((name, value),) = named.items()
        values = value if kind == "terms" else value.get("value") if isinstance(value, dict) else value
        if name.removesuffix(".keyword") in read:
            raise Refused(400, f"{name} can't filter this collection; languages are named with to in {NAME}")
        name = re.sub(r"^fields\.|\.keyword$", "", name)
        if name in filters:
            raise Refused(400, f"two clauses filter by {name}; give one")
        filters[name] = values
    return filters
