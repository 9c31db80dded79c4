"""Evidence that a probe decides by: queries, and the documents that answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from encoders.document import Document, Encoder, FloatArray, Passages, unit_rows
from indexer.stores.contract import VectorQuery, VectorStore, read_existing
from query.fitting.mined_mates import MinedMates
from query.fitting.statistics import CalibrationSamples, PseudoQuery

if TYPE_CHECKING:
    from ir_measures import Qrel

EvidenceKind = Literal["judgements", "concepts", "mates", "titles"]

QUERIES = 256
"""Maximum queries of a probe, over all languages."""
_MEMBERS = 5_000
"""Maximum documents of the queries' concepts, in each language."""
_FEWEST = 20
"""Minimum topics to decide by."""


class Rest(NamedTuple):
    """A document without title and opening: (dim,) unit vector of its segments after the first, and these segments."""

    vector: FloatArray
    passages: Passages


@dataclass(frozen=True)
class Evidence:
    """Queries with their answers in a collection.

    Attributes:
        kind: ``judgements`` of a person; ``concepts`` that documents of several languages share; ``mates``, the
            counterparts of a document that were mined in other languages; or ``titles``, which should find the rest of
            their own document.
        queries: (q, dim) query vectors as the encoder made them.
        query_langs: (q,) languages of the queries.
        topics: (q,) each query's topic: the queries of one topic, in any languages, are one observation.
        relevant: (q,) ids of the documents that answer each query.
        bank_rows: (q,) row of each query in the bank of its language; −1 if the query is not in the bank.
        sources: (q,) id of the document that each query was taken from; empty if there is none. A query meets its own
            document without its opening, or not at all if nothing else is left of it.
        rests: documents without their opening, by id; only documents with passages after the first.
    """

    kind: EvidenceKind
    queries: FloatArray
    query_langs: Sequence[str]
    topics: Sequence[str]
    relevant: Sequence[frozenset[str]]
    bank_rows: npt.NDArray[np.intp]
    sources: Sequence[str]
    rests: Mapping[str, Rest]


def from_judgements(
    store: VectorStore, encoder: Encoder, topics: Sequence[Document], qrels: Sequence[Qrel], *, seed: int = 0
) -> Evidence | None:
    """Evidence from topics of any languages with judgements; none if too few have a relevant document in the store.

    The topics' ids are the qrels' topic ids.
    """
    relevant: dict[str, set[str]] = {}
    for qrel in qrels:
        if qrel.relevance > 0:
            relevant.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    stored = store.stamps(encoder.spec.model, sorted(set().union(*relevant.values()))).keys()
    answered = [topic for topic in topics if relevant.get(topic.doc_id, set()) & stored]
    drawn = [answered[row] for row in sorted(np.random.default_rng(seed).permutation(len(answered))[:QUERIES])]
    if len({topic.doc_id for topic in drawn}) < _FEWEST:
        return None
    return Evidence(
        "judgements",
        encoder.encode_queries(drawn),
        [topic.lang for topic in drawn],
        [topic.doc_id for topic in drawn],
        [frozenset(relevant[topic.doc_id] & stored) for topic in drawn],
        np.full(len(drawn), -1),
        [""] * len(drawn),
        {},
    )


def from_concepts(store: VectorStore, model: str, samples: CalibrationSamples, *, seed: int = 0) -> Evidence | None:
    """Evidence from pseudo-queries answered by the documents of their ``concept``; none if there are too few concepts.

    A field with few values is a category, not a concept: at least twenty values are needed, each in two languages.
    """
    drawn = samples.draw(QUERIES, seed)
    concepts = _concepts(store, [query.doc_id for query in drawn])
    if len(set(concepts.values())) < _FEWEST:
        return None
    members, languages = _members(store, model, sorted(set(concepts.values())))
    shared = {concept for concept, langs in languages.items() if len(langs) > 1}
    drawn = [query for query in drawn if concepts.get(query.doc_id) in shared]
    topics = [concepts[query.doc_id] for query in drawn]
    return _of_pseudo_queries(
        "concepts", store, model, samples, drawn, topics, [members[concept] for concept in topics]
    )


def _concepts(store: VectorStore, doc_ids: Sequence[str]) -> dict[str, str]:
    """The ``concept`` of each document that has one, by id."""
    documents = read_existing(store.get, doc_ids)
    concepts = {doc_id: document.fields.get("concept") for doc_id, document in documents.items()}
    return {doc_id: str(value) for doc_id, value in concepts.items() if isinstance(value, (str, int)) and value != ""}


def _members(
    store: VectorStore, model: str, concepts: Sequence[str]
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Ids of the documents of each concept, and their languages; a bounded number of documents of each language.

    To a zero query every document is equally near, so only the filter decides.
    """
    zero = np.zeros((1, store.models()[model]), dtype=np.float32)
    query = VectorQuery(model, dict.fromkeys(store.count(), zero), _MEMBERS, {"concept": concepts})
    members: dict[str, set[str]] = {}
    languages: dict[str, set[str]] = {}
    for lang, by_query in store.search(query).items():
        for doc_id, concept in _concepts(store, by_query[0].doc_ids).items():
            members.setdefault(concept, set()).add(doc_id)
            languages.setdefault(concept, set()).add(lang)
    return members, languages


def from_mates(store: VectorStore, model: str, samples: CalibrationSamples, mined: MinedMates) -> Evidence | None:
    """Evidence from pseudo-queries answered by the mined mates of their document; none if too few documents have one.

    Nor is there evidence if the mates are not sure enough.
    """
    if not mined.sure:
        return None
    drawn = [query for query in mined.queries if query.doc_id in mined.mates]
    relevant = [{query.doc_id, *mined.mates[query.doc_id].values()} for query in drawn]
    subjects = mined.subjects()
    topics = [str(subjects[query.doc_id]) for query in drawn]
    return _of_pseudo_queries("mates", store, model, samples, drawn, topics, relevant)


def from_titles(store: VectorStore, model: str, samples: CalibrationSamples, *, seed: int = 0) -> Evidence | None:
    """Evidence from pseudo-queries answered by later passages of their own documents; none if too few have these."""
    drawn = samples.draw(QUERIES, seed)
    topics = [query.doc_id for query in drawn]
    return _of_pseudo_queries("titles", store, model, samples, drawn, topics, [{doc_id} for doc_id in topics])


def _of_pseudo_queries(
    kind: EvidenceKind,
    store: VectorStore,
    model: str,
    samples: CalibrationSamples,
    drawn: Sequence[PseudoQuery],
    topics: Sequence[str],
    relevant: Sequence[set[str]],
) -> Evidence | None:
    """Evidence from the bank's pseudo-queries; none if too few topics have an answer.

    A query's own document is an answer by its passages after the first, so that a title doesn't find itself. Where
    these repeat the title, the own document is no answer.
    """
    rests = _rests(store, model, [query.doc_id for query in drawn if not query.repeated])
    answers = [
        frozenset(of_query - ({query.doc_id} - rests.keys())) for query, of_query in zip(drawn, relevant, strict=True)
    ]
    rows = [row for row, of_query in enumerate(answers) if of_query]
    if len({topics[row] for row in rows}) < _FEWEST:
        return None
    return Evidence(
        kind,
        unit_rows(np.stack([samples.bank[drawn[row].lang][drawn[row].row] for row in rows])),
        [drawn[row].lang for row in rows],
        [topics[row] for row in rows],
        [answers[row] for row in rows],
        np.array([drawn[row].row for row in rows]),
        [drawn[row].doc_id for row in rows],
        rests,
    )


def _rests(store: VectorStore, model: str, doc_ids: Sequence[str]) -> dict[str, Rest]:
    """The documents without title and opening, by id; only documents that have segments after the first."""
    rests = {}
    for doc_id, passages in read_existing(partial(store.passages, model), doc_ids).items():
        segments = passages.without_title()
        if len(segments.vectors) > 1:
            vector = unit_rows(segments.unit_vectors()[1:].mean(axis=0, keepdims=True))[0]
            rests[doc_id] = Rest(vector, Passages(segments.vectors[1:], segments.offsets[1:]))
    return rests
