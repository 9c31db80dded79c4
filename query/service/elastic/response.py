"""Hits as Elasticsearch shows them."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from query.ranking.hits import Hit
from query.service.elastic.query_clause import CrossLingual, Highlight


def answer(
    search: CrossLingual,
    hits: Sequence[Hit],
    index: str,
    sources: Mapping[str, Mapping[str, Any]],
    text_field: str,
    took: int,
) -> dict[str, Any]:
    """The body of an answer.

    Args:
        search: what was asked.
        hits: from the first on.
        index: the name of it.
        sources: of the hits that are shown, by id; a hit without one was deleted meanwhile, and is left out.
        text_field: where texts stand in a source: the field of which a passage is a highlight.
        took: milliseconds.
    """
    shown = [hit for hit in hits[search.start : search.start + search.size] if hit.doc_id in sources]
    more = len(hits) == search.asked.k
    return {
        "took": took,
        "timed_out": False,
        "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {
            "total": {"value": len(hits), "relation": "gte" if more else "eq"},
            "max_score": hits[0].score if hits else None,
            "hits": [_hit(search, hit, index, sources[hit.doc_id], text_field) for hit in shown],
        },
    }


def _hit(search: CrossLingual, hit: Hit, index: str, source: Mapping[str, Any], text_field: str) -> dict[str, Any]:
    made: dict[str, Any] = {"_index": index, "_id": hit.doc_id, "_score": hit.score}
    if search.source is not False:
        made["_source"] = _filtered(source, *_patterns(search.source))
    tags = _tags(search.highlight, text_field)
    if search.highlight and hit.passage and tags:
        text = html.escape(hit.passage.text) if search.highlight.html else hit.passage.text
        made["highlight"] = {text_field: [text.join(tags)]}
    if hit.parts:
        parts = [
            {"value": value, "description": name, "details": []}
            for name, value in asdict(hit.parts).items()
            if value is not None
        ]
        made["_explanation"] = {"value": hit.score, "description": "cross_lingual, as Dragoman ranks", "details": parts}
    return made


def _tags(highlight: Highlight | None, field: str) -> tuple[str, str] | None:
    """What a passage of a field stands between; none: it is not asked for."""
    asked = highlight.tags if highlight else {}
    return next((tags for pattern, tags in asked.items() if fnmatchcase(field, pattern)), None)


def _patterns(given: Any) -> tuple[list[str], list[str]]:
    """What ``_source`` includes and excludes; nothing included is everything."""
    if isinstance(given, dict):
        return _list(given.get("includes", given.get("include"))), _list(given.get("excludes", given.get("exclude")))
    return ([], []) if given is True else (_list(given), [])


def _list(given: Any) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else [str(one) for one in given]


def _filtered(source: Any, includes: Sequence[str], excludes: Sequence[str], above: str = "") -> Any:
    """What patterns leave of a source; a pattern of an object is one of all in it."""
    if isinstance(source, list):
        return [_filtered(one, includes, excludes, above) if isinstance(one, (dict, list)) else one for one in source]
    kept = {}
    for name, value in source.items():
        path = f"{above}{name}"
        if any(fnmatchcase(path, one) for one in excludes):
            continue
        whole = not includes or any(fnmatchcase(path, one) for one in includes)
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value)):
            below = _filtered(value, [] if whole else includes, excludes, f"{path}.")
            if whole or any(bool(one) for one in (below if isinstance(below, list) else [below])):
                kept[name] = below
        elif whole:
            kept[name] = value
    return kept
