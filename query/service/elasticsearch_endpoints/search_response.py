"""The body of an answer to a search, in Elasticsearch's shape; hits may be collapsed by the values of a field."""

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import translate
from typing import Any

from query.ranking.search_hits import Hit
from query.service.api_messages import MOST
from query.service.elasticsearch_endpoints.cross_lingual_clause import CrossLingual, InnerHits

SHARDS = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}


@dataclass(frozen=True)
class Group:
    """Hits with one value of a field."""

    hits: Sequence[Hit]  # best first; the first is shown
    value: Any = None  # none: the hit has no value, and is alone


def collapsed(hits: Sequence[Hit], value_of: Callable[[Hit], Any]) -> list[Group]:
    """Groups of ranked hits, by their best rank; values compare as text, and a hit without a value is alone."""
    groups: dict[object, tuple[Any, list[Hit]]] = {}
    for hit in hits:
        value = value_of(hit)
        text = value if isinstance(value, str) else json.dumps(value)
        key = (hit.doc_id,) if value is None else text
        groups.setdefault(key, (value, []))[1].append(hit)
    return [Group(of_value, value) for value, of_value in groups.values()]


@dataclass(frozen=True)
class ShownDocument:
    """A document as an answer shows it."""

    index: str
    doc_id: str  # its id in the index
    source: Mapping[str, Any]
    text_field: str  # the field of the source that has the text


def shown_hits(search: CrossLingual, group: Group) -> list[Hit]:
    """The hits of a group that an answer shows: the best, and inner hits, which may have it again."""
    inner = search.collapse.inner if search.collapse else ()
    under = [hit for item in inner for hit in group.hits[item.start : item.start + item.size]]
    return list({hit.doc_id: hit for hit in (group.hits[0], *under)}.values())


def answer(
    search: CrossLingual,
    hits: Sequence[Hit],
    page: Sequence[Group],
    shown: Mapping[str, ShownDocument],
    matching: int | None,
    took: int,
) -> dict[str, Any]:
    """The body of an answer: the ``page`` of ``hits``, without hits that are not ``shown``, which were deleted since.

    A passage is a highlight of the text's field. ``matching`` bounds the total; none: at least the number of hits.
    """
    groups = [group for group in page if group.hits[0].doc_id in shown]
    hits_json = _hits(search, [group.hits[0] for group in groups], shown, search.source)
    if search.collapse:
        for group, hit_json in zip(groups, hits_json, strict=True):
            if group.value is not None:
                hit_json["fields"] = {search.collapse.field: [group.value]}
            for inner in search.collapse.inner:
                under = [hit for hit in group.hits[inner.start : inner.start + inner.size] if hit.doc_id in shown]
                hit_json.setdefault("inner_hits", {})[inner.name] = {
                    "hits": {
                        "total": {"value": len(group.hits), "relation": "eq" if len(hits) < MOST else "gte"},
                        "max_score": group.hits[0].score,
                        "hits": _hits(search, under, shown, inner.source),
                    }
                }
    total, relation = (len(hits), "gte") if matching is None else (min(matching, MOST), "eq")
    return {
        "took": took,
        "timed_out": False,
        "_shards": SHARDS,
        "hits": {
            "total": {"value": total, "relation": "gte" if (matching or 0) > MOST else relation},
            "max_score": hits[0].score if hits else None,
            "hits": hits_json,
        },
    }


def _hits(
    search: CrossLingual, hits: Sequence[Hit], shown: Mapping[str, ShownDocument], source: Any
) -> list[dict[str, Any]]:
    """Hits with as much of their sources as ``source``, a ``_source`` of a body, says."""
    hits_json = [_hit(search, hit, shown) for hit in hits]
    if source is not False:
        includes, excludes = _patterns(source)
        for hit, hit_json in zip(hits, hits_json, strict=True):
            hit_json["_source"] = _filtered(shown[hit.doc_id].source, includes, excludes)
    return hits_json


def _hit(search: CrossLingual, hit: Hit, shown: Mapping[str, ShownDocument]) -> dict[str, Any]:
    """A hit; a mate is named only if it is shown, because the caller may have no right to read it."""
    document = shown[hit.doc_id]
    hit_json: dict[str, Any] = {"_index": document.index, "_id": document.doc_id, "_score": hit.score}
    tags_by_pattern = search.highlight.tags if search.highlight else {}
    of_field = (tags for pattern, tags in tags_by_pattern.items() if re.match(translate(pattern), document.text_field))
    tags = next(of_field, None)
    if search.highlight and hit.passage and tags:
        text = html.escape(hit.passage.text) if search.highlight.html else hit.passage.text
        hit_json["highlight"] = {document.text_field: [text.join(tags)]}
    if search.passages:
        hit_json["inner_hits"] = {search.passages.name: {"hits": _passages(search.passages, hit, document)}}
    if hit.parts:
        mate = shown.get(hit.parts.mate or "")
        descriptions = {"mates": f"added by mates, the best of them {mate.doc_id}" if mate else "added by mates"}
        details = [
            {"value": value, "description": descriptions.get(name, name), "details": []}
            for name, value in asdict(hit.parts).items()
            if value is not None and name != "mate"  # a value is a number
        ]
        hit_json["_explanation"] = {
            "value": hit.score,
            "description": "cross_lingual, as Dragoman ranks",
            "details": details,
        }
    return hit_json


def _passages(asked: InnerHits, hit: Hit, document: ShownDocument) -> dict[str, Any]:
    """The best passages in the shape of a nested field's inner hits; ``_nested.offset`` is a passage's number."""
    includes, excludes = _patterns(asked.source)
    hits_json: list[dict[str, Any]] = []
    for passage in hit.passages[asked.start :]:
        nested = {"field": "passages", "offset": passage.number}
        hit_json = {"_index": document.index, "_id": document.doc_id, "_nested": nested, "_score": passage.compared}
        if asked.source is not False:
            source = {"text": passage.text, "start": passage.start, "end": passage.end}
            hit_json["_source"] = _filtered(source, includes, excludes)
        hits_json.append(hit_json)
    best = hit.passages[0].compared if hit.passages else None
    relation = "eq" if len(hit.passages) < asked.start + asked.size else "gte"
    return {"total": {"value": len(hit.passages), "relation": relation}, "max_score": best, "hits": hits_json}


def _patterns(setting: Any) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Patterns of fields that ``_source`` includes and excludes; no included pattern stands for all fields."""
    by_name = setting if isinstance(setting, dict) else {} if isinstance(setting, bool) else {"includes": setting}
    includes, excludes = (by_name.get(f"{name}s", by_name.get(name)) for name in ("include", "exclude"))
    return _any_of(includes), _any_of(excludes)


def _any_of(patterns: str | Sequence[str] | None) -> re.Pattern[str] | None:
    """Matches what any pattern matches; ``fnmatch`` would keep every caller's patterns. None without patterns."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    return re.compile("|".join(map(translate, listed))) if listed else None


def _filtered(source: Any, includes: re.Pattern[str] | None, excludes: re.Pattern[str] | None, prefix: str = "") -> Any:
    """The fields of a source that the patterns leave; a pattern that matches an object includes all fields in it."""
    if isinstance(source, list):
        return [
            _filtered(item, includes, excludes, prefix) if isinstance(item, (dict, list)) else item for item in source
        ]
    filtered = {}
    for name, value in source.items():
        path = f"{prefix}{name}"
        if excludes and excludes.match(path):
            continue
        included = not includes or includes.match(path) is not None
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value)):
            inner = _filtered(value, None if included else includes, excludes, f"{path}.")
            if included or any(inner if isinstance(inner, list) else [inner]):
                filtered[name] = inner
        elif included:
            filtered[name] = value
    return filtered
