"""Searches in the server's language: the bodies that are sent for a query, and the hits that come back."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from encoders.document import FloatArray
from indexer.stores.clustered.document_layout import Layout, VectorField, VectorFields
from indexer.stores.clustered.server_index import Hits
from indexer.stores.contract import LexicalHits, LexicalQuery, NearestDocuments, VectorQuery
from indexer.text.terms import analyser

_MIN_CANDIDATES = 700
"""Minimum candidates of a graph (docs/decisions/0006); an index without a graph compares all vectors."""
_MIN_FILTERED = 2_400
"""The same where a filter leaves candidates out; 200 lost 5 % more of the exact ten best."""
_MIN_RESCORED = 50
"""Minimum candidates that a shard rescores exactly; with fewer, quantisation error decides the top ten."""
_BBQ_OVERSAMPLE = 3.0
"""Rescored candidates of a bbq index, as multiples of k: the servers' own default, which version 8.18 lacks."""


def knn_bodies(
    layout: Layout, fields: VectorFields, query: VectorQuery, *, bring_vectors: bool
) -> list[dict[str, Any]]:
    """The body of a search for each language and vector of a query, by language; its hits may ``bring_vectors``."""
    return [
        _knn_body(layout, fields.of(lang), query, lang, vector, bring_vectors=bring_vectors)
        for lang, vectors in query.vectors.items()
        for vector in vectors
    ]


def _knn_body(
    layout: Layout, field: VectorField, query: VectorQuery, lang: str, vector: FloatArray, *, bring_vectors: bool
) -> dict[str, Any]:
    """The body of a search for the documents of one language nearest to one vector, (dim,) float32."""
    clauses = layout.filters(lang if field.shared else "", query.filters)
    columns = [{"field": field.name, "format": "binary"}] if bring_vectors else []
    body: dict[str, Any] = {"size": query.k, "track_total_hits": False, **layout.bare(columns)}
    body["seq_no_primary_term"] = query.with_vectors  # by which a vector that was read before is known
    norm = np.linalg.norm(vector)
    if norm == 0:  # a zero query is equally near to every document
        return {**body, "query": {"bool": {"filter": [*clauses, {"exists": {"field": field.name}}]}}}
    rescored = max(query.k, _MIN_RESCORED)
    least = (_MIN_FILTERED if clauses else _MIN_CANDIDATES) if field.kind.endswith("hnsw") else 0
    knn = {
        "field": field.name,
        "query_vector": layout.sent_vector(vector / norm),
        "k": rescored,
        "num_candidates": min(max(2 * rescored, least), 10_000),
        "filter": clauses,
        "rescore_vector": {"oversample": _BBQ_OVERSAMPLE if field.kind.startswith("bbq") else 1.0},
    }
    return {**body, "query": {"knn": knn}}  # a query, unlike the option beside it, takes a single pass over a shard


def candidates(query: VectorQuery, answers: Iterator[Hits]) -> dict[str, list[NearestDocuments]]:
    """The hits of the answers to ``knn_bodies``, with exact cosines and without vectors."""
    by_lang: dict[str, list[NearestDocuments]] = {lang: [] for lang in query.vectors}
    for lang, vectors in query.vectors.items():
        for vector in vectors:
            hits = next(answers)
            norm = float(np.linalg.norm(vector))
            scores = [(2.0 * hit["_score"] - 1.0) * norm if norm else 0.0 for hit in hits]
            by_lang[lang].append(NearestDocuments([hit["_id"] for hit in hits], np.array(scores, dtype=np.float32)))
    return by_lang


def lexical_bodies(layout: Layout, fields: Sequence[VectorFields], query: LexicalQuery) -> list[dict[str, Any] | None]:
    """A body for each text and language, None without terms; ``fields`` are those of the query's models."""
    return [_lexical_body(layout, fields, query, text, lang) for text in query.texts for lang in query.langs]


def _lexical_body(
    layout: Layout, fields: Sequence[VectorFields], query: LexicalQuery, text: str, lang: str
) -> dict[str, Any] | None:
    """The body of a search for documents of one language that share terms with a text; None without terms."""
    field = layout.words(lang)
    term_clauses = [
        {"prefix": {field: {"value": term[:-1]}}} if term.endswith("*") else {"term": {field: {"value": term}}}
        for term in analyser(lang).query_terms(text)
    ]
    if not term_clauses:
        return None
    clauses = layout.filters(lang, query.filters)
    if fields:
        has_vector = [{"exists": {"field": of_model.of(lang).name}} for of_model in fields]
        clauses.append({"bool": {"should": has_vector}})
    return {
        "size": query.k,
        "track_total_hits": False,
        **layout.bare(),
        "query": {"bool": {"should": term_clauses, "minimum_should_match": 1, "filter": clauses}},
        "sort": ["_score", layout.by_id],
    }


def lexical_hits(query: LexicalQuery, bodies: Sequence[object | None], answers: Iterator[Hits]) -> list[LexicalHits]:
    """The hits of the answers to ``lexical_bodies``; none where there was no body."""
    scored = ([(hit["_id"], float(hit["_score"])) for hit in next(answers)] if body else [] for body in bodies)
    return [{lang: next(scored) for lang in query.langs} for _ in query.texts]
