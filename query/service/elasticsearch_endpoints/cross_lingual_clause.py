"""The clause ``cross_lingual`` in an ordinary search body: parsed, or refused."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError

from query.ranking.search_hits import Hit
from query.service.api_messages import MOST, SearchRequest
from query.service.refusals import Refused

NAME = "cross_lingual"
_REQUEST_NAMES = ("query", "lang", "to", "balance", "hybrid", "rerank", "calibration")
"""Names in the clause that ``SearchRequest`` has, too."""
_OWN_NAMES = ("filter", "inner_hits")
"""Other names in the clause, as in Elasticsearch's ``knn``."""
_NUMBER = re.compile("[0-9]{1,9}")
_IGNORED_SETTINGS = frozenset({"track_total_hits", "track_scores", "timeout", "version", "seq_no_primary_term"})
_USED_SETTINGS = frozenset({"query", "from", "size", "min_score", "collapse", "_source", "highlight", "explain"})
_IGNORED_PARAMETERS = frozenset(
    {"allow_no_indices", "batched_reduce_size", "ccs_minimize_roundtrips", "expand_wildcards", "human"}
    | {"ignore_throttled", "ignore_unavailable", "max_concurrent_searches", "max_concurrent_shard_requests"}
    | {"pre_filter_shard_size", "preference", "pretty", "request_cache", "search_type", "typed_keys"}
)
"""Parameters that change nothing in a cross-lingual search."""
_MOST_PATTERNS, _LONGEST_PATTERN = 100, 200
"""Patterns of fields in ``_source`` or ``highlight``, and characters of a pattern: each is compared with each field."""
_MOST_INNER = 100
"""Inner hits of a hit, as many as Elasticsearch shows."""
_NOTHING_TO_COUNT = (
    "documents are ranked by candidates and not matched, so there is nothing to count; "
    "ask for aggregations in a search of their own"
)
_REFUSED_SETTINGS = {
    "search_after": "a ranking of candidates has no place to go on from; ask for more at once with size, up to 1000",
    "aggs": _NOTHING_TO_COUNT,
    "aggregations": _NOTHING_TO_COUNT,
    "sort": "hits are ranked by what they mean; sort them in your application",
    "knn": "the service makes the vectors itself",
    "version": "hits are shown without versions; read them from the Elasticsearch cluster itself",
    "seq_no_primary_term": "hits are shown without sequence numbers; read them from the Elasticsearch cluster itself",
    "routing": "candidates come from every shard; filter by a field",
}


@dataclass(frozen=True)
class Highlight:
    """Which fields show the matching passage, and the tags around it."""

    tags: Mapping[str, tuple[str, str]]  # by pattern of field names, the tag before the passage and the tag after it
    html: bool = False  # whether the text is escaped for HTML


@dataclass(frozen=True)
class InnerHits:
    """Hits that are shown under a hit."""

    name: str  # under which an answer has them
    start: int = 0  # number of them left out at the head
    size: int = 3  # number of them shown after these
    source: Any = True  # ``_source`` of them

    @classmethod
    def of(cls, value: Any, name: str) -> Self:
        """Parse ``inner_hits``. Raises Refused: it has more than name, from, size, ``_source``, or a wrong value."""
        if not isinstance(value, dict):
            raise Refused(400, "inner_hits is an object, which may be empty")
        if unknown := value.keys() - {"name", "from", "size", "_source"}:
            raise Refused(400, f"inner_hits has no {min(unknown)[:100]!r} here; it has name, from, size, _source")
        own_name = value.get("name", name)
        if not isinstance(own_name, str) or not 0 < len(own_name) <= _LONGEST_PATTERN:
            raise Refused(400, f"name of inner_hits is text of at most {_LONGEST_PATTERN} characters")
        start, size = _number(value, "from", 0), _number(value, "size", 3)
        if start + size > _MOST_INNER:
            raise Refused(
                400, f"from and size of inner_hits are together {start + size}; at most {_MOST_INNER} are shown"
            )
        return cls(own_name, start, size, _source(value.get("_source", True)))


@dataclass(frozen=True)
class Collapse:
    """A field of which each value is shown once, by its best hit."""

    field: str
    inner: tuple[InnerHits, ...] = ()  # which hits with the value are shown under it, the best among them

    @classmethod
    def of(cls, value: Any) -> Self:
        """Parse ``collapse``. Raises Refused: it is no object of a field, or has more beside it than inner hits."""
        field = value.get("field") if isinstance(value, dict) else None
        if not isinstance(field, str) or not field:
            raise Refused(400, 'collapse is an object with a field: {"field": "concept"}')
        if unknown := value.keys() - {"field", "inner_hits", "max_concurrent_group_searches"}:
            raise Refused(400, f"collapse has no {min(unknown)[:100]!r} here; it has field and inner_hits")
        inner = value.get("inner_hits", [])
        inner_hits = [InnerHits.of(item, field) for item in (inner if isinstance(inner, list) else [inner])]
        if len({item.name for item in inner_hits}) < len(inner_hits):
            raise Refused(400, "two inner_hits of collapse have one name; give each a name of its own")
        return cls(field, tuple(inner_hits))


@dataclass(frozen=True)
class CrossLingual:
    """A search body that has the clause."""

    asked: SearchRequest
    filters: tuple[Mapping[str, Any], ...] = ()  # clauses of Elasticsearch that documents must match
    start: int = 0  # number of hits left out at the head
    size: int = 10  # number of hits shown after these
    min_score: float | None = None  # least score of a hit; none: there is no bound
    source: Any = True  # ``_source`` as the body has it
    highlight: Highlight | None = None  # none: no highlights
    passages: InnerHits | None = None  # the best passages of each hit that are shown under it; none: no passages
    collapse: Collapse | None = None  # none: hits are not collapsed

    def reaching(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits, best first, whose scores reach ``min_score``."""
        return hits if self.min_score is None else [hit for hit in hits if hit.score >= self.min_score]


def has_clause(value: Any) -> bool:
    """Whether the clause is anywhere in a body; the cluster would refuse such a body."""
    if isinstance(value, list):
        return any(map(has_clause, value))
    return isinstance(value, dict) and (NAME in value or any(map(has_clause, value.values())))


def parse(body: Any, parameters: Mapping[str, str]) -> CrossLingual:
    """Parse a search with the clause; URL parameters override it. Raises Refused: it can't combine with the clause."""
    if not isinstance(body, dict):
        raise Refused(400, "the body of a search is an object")
    settings = {**body, **_parameter_settings(parameters)}
    for name, value in settings.items():
        if name in _REFUSED_SETTINGS and value is not False:
            raise Refused(400, f"{name} can't be combined with {NAME}: {_REFUSED_SETTINGS[name]}")
        if name not in _USED_SETTINGS | _IGNORED_SETTINGS:
            raise Refused(
                400, f"{name[:100]} can't be combined with {NAME}; there are {', '.join(sorted(_USED_SETTINGS))}"
            )
    clause, filters = _clause(settings.get("query"))
    if not isinstance(clause, dict):
        raise Refused(400, f'{NAME} is an object: {{"query": "what to look for"}}')
    filters = (*filters, *_clauses(clause.get("filter")))
    start, size = _number(settings, "from", 0), _number(settings, "size", 10)
    if start + size > MOST:
        raise Refused(400, f"from and size are together {start + size}, and at most {MOST} hits are ranked")
    if has_clause(list(filters)):
        raise Refused(400, f"{NAME} stands once, as the query or in must of a bool")
    inner = clause.get("inner_hits")
    passages = None if inner is None else InnerHits.of(inner, "passages")
    collapse = settings.get("collapse")
    collapsed = None if collapse is None else Collapse.of(collapse)
    if passages and collapsed and passages.name in {inner.name for inner in collapsed.inner}:
        raise Refused(400, f"inner_hits of {NAME} and of collapse have one name; give each a name of its own")
    ranked = MOST if collapsed else max(1, start + size)  # what is shown under the first hits may be the last
    request = _request(clause, ranked, explain=bool(settings.get("explain")))
    highlight = _highlight(settings.get("highlight"))
    source = _source(settings.get("_source", True))
    return CrossLingual(
        request, filters, start, size, _min_score(settings.get("min_score")), source, highlight, passages, collapsed
    )


def _parameter_settings(parameters: Mapping[str, str]) -> dict[str, Any]:
    """Settings of the URL's parameters, written as in a body."""
    settings: dict[str, Any] = {}
    source: dict[str, list[str]] = {}
    for name, value in parameters.items():
        if name in {"from", "size"}:
            settings[name] = int(value) if _NUMBER.fullmatch(value) else value
        elif name == "_source":
            settings[name] = value == "true" if value in {"true", "false"} else value.split(",")
        elif name in {"_source_includes", "_source_excludes"}:
            source[name.removeprefix("_source_")] = value.split(",")
        elif name in {"explain", *_IGNORED_SETTINGS}:
            settings[name] = value != "false"
        elif name == "routing":
            settings[name] = value
        elif name not in _IGNORED_PARAMETERS:
            raise Refused(400, f"the parameter {name[:100]} can't be combined with {NAME}")
    return {**settings, **({"_source": source} if source else {})}


def _clause(query: Any) -> tuple[Any, tuple[Mapping[str, Any], ...]]:
    if not isinstance(query, dict) or len(query) != 1:
        raise Refused(400, f"the query must be {NAME}, or a bool that has it in must")
    if NAME in query:
        return query[NAME], ()
    bool_query = query.get("bool")
    if not isinstance(bool_query, dict):
        raise Refused(400, f"{NAME} can't stand there; it is the query, or in must of a bool that is the query")
    if unknown := bool_query.keys() - {"must", "filter", "must_not"}:
        raise Refused(
            400,
            f"bool.{min(unknown)[:100]} can't be combined with {NAME}: scores of words and of meaning don't add; "
            "filter and must_not can",
        )
    must = _clauses(bool_query.get("must"))
    if len(must) != 1 or NAME not in must[0]:
        raise Refused(400, f"bool.must has {NAME} alone; what else a document must have stands in bool.filter")
    filters = _clauses(bool_query.get("filter"))
    excluded = _clauses(bool_query.get("must_not"))
    return must[0][NAME], (*filters, *([{"bool": {"must_not": excluded}}] if excluded else []))


def _clauses(value: Any) -> list[dict[str, Any]]:
    clauses = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(clause, dict) and len(clause) == 1 for clause in clauses):
        raise Refused(400, "a clause of bool or filter is an object with the name of a query")
    return clauses


def _number(settings: Mapping[str, Any], name: str, default: int) -> int:
    value = settings.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused(400, f"{name} must be a number from 0 on")
    return value


def _min_score(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if value is not None and not is_number:
        raise Refused(400, "min_score must be a number")
    return value if value is None else float(value)


def _request(clause: Mapping[str, Any], k: int, *, explain: bool) -> SearchRequest:
    if unknown := clause.keys() - {*_REQUEST_NAMES, *_OWN_NAMES}:
        raise Refused(400, f"{NAME} has no {min(unknown)[:100]!r}; it has {', '.join((*_REQUEST_NAMES, *_OWN_NAMES))}")
    asked = {name: value for name, value in clause.items() if name in _REQUEST_NAMES}
    try:
        return SearchRequest.model_validate({**asked, "k": k, "explain": explain, "subjects": False}, strict=False)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()[:3]
        )
        raise Refused(400, f"{NAME} can't be read ({problems})") from None


def _source(value: Any) -> Any:
    """``_source`` of a body, if it is a boolean, a pattern, a list of patterns, or both lists by name."""
    by_name = isinstance(value, dict) and value.keys() <= {"includes", "include", "excludes", "exclude"}
    groups = [] if isinstance(value, bool) else list(value.values()) if by_name else [value]
    for patterns in ([group] if isinstance(group, str) else group for group in groups):
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise Refused(
                400, "_source is true, false, a field, a list of fields, or an object with includes and excludes"
            )
        _check_patterns(patterns)
    return value


def _check_patterns(patterns: Sequence[str]) -> None:
    if len(patterns) > _MOST_PATTERNS or any(len(pattern) > _LONGEST_PATTERN for pattern in patterns):
        raise Refused(400, f"at most {_MOST_PATTERNS} fields are named, each by {_LONGEST_PATTERN} characters at most")


def _highlight(highlight: Any) -> Highlight | None:
    if highlight is None:
        return None
    fields = highlight.get("fields") if isinstance(highlight, dict) else None
    if isinstance(fields, list):
        fields = {name: options for item in fields if isinstance(item, dict) for name, options in item.items()}
    if not isinstance(fields, dict):
        raise Refused(400, "highlight has fields")
    _check_patterns(list(fields))
    return Highlight(
        {
            name: (_tag("pre_tags", "<em>", options, highlight), _tag("post_tags", "</em>", options, highlight))
            for name, options in fields.items()
        },
        html=highlight.get("encoder") == "html",
    )


def _tag(name: str, default: str, *sources: Any) -> str:
    """The tag of the first source that has it: the field's options, then those of the whole highlight."""
    for source in sources:
        tag = source.get(name) if isinstance(source, dict) else None
        if isinstance(tag, list) and tag:
            tag = tag[0]
        if tag is not None and not isinstance(tag, str):
            raise Refused(400, f"{name} of highlight is text")
        if tag is not None:
            return tag
    return default


def as_filters(clauses: Sequence[Mapping[str, Any]], read_fields: Sequence[str]) -> dict[str, Any]:
    """Filters by field from ``term`` and ``terms`` clauses for a store without Elasticsearch's; all must hold.

    Raises Refused: a clause is neither, or its field is among ``read_fields`` (text, title, language).
    """
    filters: dict[str, Any] = {}
    for clause in clauses:
        ((kind, options),) = clause.items()
        conditions = (
            {name: value for name, value in options.items() if name != "boost"} if isinstance(options, dict) else {}
        )
        if kind not in {"term", "terms"} or len(conditions) != 1:
            raise Refused(
                400,
                f"{kind} can't filter this collection, whose vectors are not in an index of yours; term and terms can",
            )
        ((name, value),) = conditions.items()
        values = value if kind == "terms" else value.get("value") if isinstance(value, dict) else value
        if not all(isinstance(item, (str, int, float)) for item in (values if isinstance(values, list) else [values])):
            raise Refused(400, f"{kind} of {name} has no text, number or boolean; give one, or in terms a list of them")
        if name.removesuffix(".keyword") in read_fields:
            raise Refused(400, f"{name} can't filter this collection; languages are named with to in {NAME}")
        name = re.sub(r"^fields\.|\.keyword$", "", name)
        if name in filters:
            raise Refused(400, f"two clauses filter by {name}; give one")
        filters[name] = values
    return filters
