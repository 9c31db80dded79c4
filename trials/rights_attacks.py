"""Callers with rules of documents and fields ask the service for what the rules hide."""

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import httpx
from elasticsearch import helpers

from indexer.collection.settings import Settings
from query.service.service_options import ServiceOptions
from trials.command import fell, require_done
from trials.documents import sentences
from trials.servers.elastic import PASSWORD, ElasticServer
from trials.servers.secured import admin, credentials

INDEX, BESIDE = "ruled", "ruled-beside"
"""The owner's index with the collection of its name, and the collection whose vectors lie beside it."""
SEARCHERS = ("all_ruled", "rows_ruled", "no_text", "titles", "rows_of_titles")
"""Users who may see the vectors of ``INDEX``, some of its documents and some of its fields."""
BLIND = ("no_vectors", "only_beside", "others")  # users who may see no vectors of ``INDEX``, or nothing of it
_DOCUMENT = {"_index": INDEX, "_id": "p0"}
_STEPS = ("map_script", "combine_script", "reduce_script")
_SCRIPT = {"source": "params['_source']['body']"}
_CLAUSE = {"cross_lingual": {"query": "print a table", "lang": "en"}}
_ALL: dict[str, Any] = {"match_all": {}}
_SHOWN = {"highlight": {"fields": {"*": {}}}, "explain": True, "size": 100}
_SCORED = {"query": _ALL, "script": _SCRIPT}
SEARCHES: Mapping[str, dict[str, Any]] = {
    "documents": {"query": _ALL, "size": 100, "sort": ["row"]},
    "words of a text": {"query": {"match": {"body": "print"}}, "explain": True},
    "fields": {"query": _ALL, "fields": ["*"], "_source": False},
    "columns": {"query": _ALL, "docvalue_fields": ["dragoman.lang", "row"], "stored_fields": ["*"]},
    "highlights": {"query": {"match": {"body": "print"}}, "highlight": {"fields": {"body": {}}}},
    "suggestions": {"suggest": {"s": {"text": "prnt", "term": {"field": "body"}}}},
    "counts of values": {"size": 0, "aggs": {"rows": {"terms": {"field": "row"}}}},
    "counts of all": {"size": 0, "aggs": {"all": {"global": {}, "aggs": {"n": {"value_count": {"field": "row"}}}}}},
    "hits in groups": {"query": _ALL, "collapse": {"field": "row", "inner_hits": {"name": "in", "size": 9}}},
    "a document by its id": {"query": {"ids": {"values": ["p0", "p1"]}}},
    "a terms lookup": {"query": {"terms": {"row": {"index": INDEX, "id": "p0", "path": "row"}}}},
    "texts like a document": {"query": {"more_like_this": {"fields": ["body"], "like": [_DOCUMENT]}}},
}
"""Bodies of searches that the cluster answers by the caller's own rules."""
SCRIPTS: Mapping[str, dict[str, Any]] = {
    "script_fields": {"query": _ALL, "script_fields": {"text": {"script": _SCRIPT}}},
    "script_score": {"query": {"script_score": _SCORED}},
    "a script in a filter": {"query": {"bool": {"filter": [{"script": {"script": _SCRIPT}}]}}},
    "a script in function_score": {"query": {"function_score": {"query": _ALL, "script_score": {"script": _SCRIPT}}}},
    "terms_set": {"query": {"terms_set": {"body": {"terms": ["a"], "minimum_should_match_script": _SCRIPT}}}},
    "runtime_mappings": {"runtime_mappings": {"text": {"type": "keyword", "script": _SCRIPT}}, "fields": ["text"]},
    "a script that sorts": {"query": _ALL, "sort": {"_script": {"type": "string", "script": _SCRIPT}}},
    "scripted_metric": {"size": 0, "aggs": {"m": {"scripted_metric": dict.fromkeys(_STEPS, _SCRIPT)}}},
    "a script that groups": {"size": 0, "aggs": {"t": {"terms": {"script": _SCRIPT}}}},
    "a stored script": {"query": _ALL, "script_fields": {"text": {"script": {"id": "stored"}}}},
    "a script in a rescorer": {"rescore": {"query": {"rescore_query": {"script_score": _SCORED}}}},
    "a script among inner hits": {
        "collapse": {"field": "row", "inner_hits": {"name": "in", "script_fields": {"text": {"script": _SCRIPT}}}}
    },
}
"""Bodies of searches with scripts, each of which would read a hidden text."""


def made(server: ElasticServer, home: Path) -> ServiceOptions:
    """Fill the owner's index, attach a collection to it and one beside it, and return how both are served."""
    url = server.url.replace("://", f"://admin:{quote(PASSWORD)}@")
    texts = ["Press the print button to print a table.", *(str(record["text"]) for record in sentences(11))]
    pages = [
        {"headline": f"Headline {row}", "body": text, "row": row % 2, "secret": f"secret-{row}"}
        for row, text in enumerate(texts)
    ]
    with admin(server) as client:
        actions = [{"_index": INDEX, "_id": f"p{row}", "_source": page} for row, page in enumerate(pages)]
        helpers.bulk(client, actions, refresh=True)
    fields = ["--text", "body", "--title", "headline", "--lang", "en", "--device", "cpu", "-q", "--no-calibration"]
    with patch.dict(os.environ, {"DRAGOMAN_ELASTIC_CA": str(server.ca)}):
        for attach in (["-c", INDEX, "--store", url], ["-c", BESIDE, "--store", f"{url}/ours", "--companion"]):
            require_done(["attach", INDEX, *attach, *fields, "--home", str(home)])
    settings = replace(Settings.read(home=home), credentials=credentials(server, "admin"))
    return ServiceOptions(settings, device="cpu")


def client_with_ca(server: ElasticServer) -> httpx.Client:
    return httpx.Client(base_url=server.url, verify=ssl.create_default_context(cafile=server.ca), timeout=60)


def same_as_the_server(service: httpx.Client, server: httpx.Client, user: str) -> Iterator[str]:
    """Every call that is passed on gets what the server itself gives the user, scripts too."""
    for name, (path, content) in _calls().items():
        headers = {"Content-Type": "application/x-ndjson" if name == "_msearch" else "application/json"}
        answers = [
            client.post(path, content=content, headers=headers, auth=(user, PASSWORD)) for client in (service, server)
        ]
        ours, theirs = ((answer.status_code, _content(answer)) for answer in answers)
        yield fell(user, name, ours, "instead of", theirs, held=ours == theirs)


def hidden_from_searches(service: httpx.Client, server: httpx.Client, user: str, name: str = INDEX) -> Iterator[str]:
    """Searches across languages show no document and no field that the server hides from the user, nor count them."""
    shown = _sources(server, (user, PASSWORD))
    hidden = _hidden_values(_sources(server, ("admin", PASSWORD)), shown)
    bodies: list[dict[str, Any]] = [{"query": _CLAUSE, **_SHOWN}]
    bodies += [{"query": _CLAUSE, "size": size, "from": start} for size, start in ((0, 0), (1, 0), (1, 1), (3, 2))]
    if name == INDEX:
        filters = {"match": {"body": "print"}}, {"term": {"row": 0}}, {"ids": {"values": ["p0"]}}
        for clause in (*filters, {"exists": {"field": "body"}}):
            bodies.append({"query": {"bool": {"must": _CLAUSE, "filter": clause}}, **_SHOWN})
    for body in bodies:
        answer = service.post(f"/{name}/_search", json=body, auth=(user, PASSWORD))
        if answer.status_code != 200:
            yield f"{user}, {body}: {answer.status_code} {answer.text[:200]}"
            continue
        hits = answer.json()["hits"]
        if body is bodies[0]:
            yield fell(user, body, "no hits", held=bool(hits["hits"]))
        yield fell(user, body, "other documents", held={hit["_id"] for hit in hits["hits"]} <= shown.keys())
        yield fell(user, body, "another count", hits["total"], held=hits["total"]["value"] <= len(shown))
        held = all(hit["_source"] == shown.get(hit["_id"]) for hit in hits["hits"])
        yield fell(user, body, "other fields", held=held)
        leaked = [value for value in hidden if value in answer.text]
        yield fell(user, body, "hidden values", leaked[:2], held=not leaked)


def refused_searches(service: httpx.Client, user: str, name: str = INDEX) -> Iterator[str]:
    for body in ({"query": _CLAUSE}, {"query": {"bool": {"must": _CLAUSE, "filter": {"term": {"row": 0}}}}}):
        answer = service.post(f"/{name}/_search", json=body, auth=(user, PASSWORD))
        held = answer.status_code == 403 and "credentials" in answer.text and "p0" not in answer.text
        yield fell(user, body, answer.status_code, answer.text, held=held)


def refused_scripts(service: httpx.Client) -> Iterator[str]:
    asked: list[tuple[str, str]] = []
    for body in SCRIPTS.values():
        asked += [("_search", json.dumps(body)), ("_msearch", f"{{}}\n{json.dumps(body)}\n")]
        asked.append(("_count", json.dumps({**body, "size": 0})))
        if "script" in json.dumps(clause := body.get("query")):
            asked.append(("_search", json.dumps({"query": {"bool": {"must": _CLAUSE, "filter": clause}}})))
    for call, content in asked:
        kind = "application/x-ndjson" if call == "_msearch" else "application/json"
        answer = service.post(f"/{INDEX}/{call}", content=content, headers={"Content-Type": kind})
        held = answer.status_code == 403 and "needs your own Elasticsearch credentials" in answer.text
        yield fell(call, content, answer.status_code, answer.text, held=held)


def _calls() -> dict[str, tuple[str, str]]:
    calls = {name: (f"/{INDEX}/_search", json.dumps(body)) for name, body in {**SEARCHES, **SCRIPTS}.items()}
    several = [json.dumps(line) for body in SEARCHES.values() for line in ({}, body)]
    return calls | {
        "_msearch": (f"/{INDEX}/_msearch", "\n".join([*several, ""])),
        "_count": (f"/{INDEX}/_count", json.dumps({"query": {"match": {"body": "print"}}})),
        "a query in the path": (f"/{INDEX}/_search?q=body:print&_source=*&explain=true", "{}"),
    }


def _sources(server: httpx.Client, auth: tuple[str, str]) -> dict[str, dict[str, Any]]:
    answer = server.post(f"/{INDEX}/_search", json={"size": 1000, "_source": {"excludes": ["dragoman"]}}, auth=auth)
    return {hit["_id"]: hit["_source"] for hit in answer.raise_for_status().json()["hits"]["hits"]}


def _hidden_values(every: Mapping[str, Any], shown: Mapping[str, Any]) -> list[str]:
    visible = json.dumps(shown)
    texts = {
        json.dumps(value)[1:-1] for source in every.values() for value in source.values() if isinstance(value, str)
    }
    return sorted(text for text in texts if text not in visible)


def _content(answer: httpx.Response) -> str:
    def without_times(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_times(inner) for name, inner in value.items() if name != "took"}
        return [without_times(inner) for inner in value] if isinstance(value, list) else value

    return json.dumps(without_times(answer.json()), sort_keys=True)
