"""Evidence that a probe decides by: queries, a bounded pool of documents, and the answers in the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from encoders.document import Document, Encoder, FloatArray, unit_rows
from indexer.stores.contract import VectorQuery, VectorStore, read_existing
from query.fitting.sampling import draw_each
from query.fitting.statistics import CalibrationSamples

if TYPE_CHECKING:
    from ir_measures import Qrel

EvidenceKind = Literal["judgements", "concepts", "titles"]

QUERIES = 256
"""Maximum queries of a probe, over all languages."""
POOL = 500
"""Maximum documents of each language that compete with the answers."""
_FEWEST = 20
"""Minimum topics to decide by."""


@dataclass(frozen=True)
class Evidence:
    """Queries with their answers in a pool of documents.

    Attributes:
        kind: ``judgements`` of a person; ``concepts`` that documents of several languages share; or ``titles``, which
            should find the rest of their own document.
        queries: (q, dim) query vectors as the encoder made them.
        query_langs: (q,) languages of the queries.
        topics: (q,) each query's topic: the queries of one topic, in any languages, are one observation.
        bank_rows: (q,) row of each query in the bank of its language; −1 if the query is not in the bank.
        doc_ids: (n,) ids of the pool's documents.
        langs: (n,) languages of the pool's documents.
        vectors: (n, dim) document vectors as the encoder made them.
        relevant: (q,) rows of the pool that answer each query.
        excluded_rows: (q,) row of the pool that is left out for each query: the query's own document, if the document
            has no text after its opening; −1: none.
    """

    kind: EvidenceKind
    queries: FloatArray
    query_langs: Sequence[str]
    topics: Sequence[str]
    bank_rows: npt.NDArray[np.intp]
    doc_ids: Sequence[str]
    langs: npt.NDArray[np.str_]
    vectors: FloatArray
    relevant: Sequence[frozenset[int]]
    excluded_rows: npt.NDArray[np.intp]


def from_judgements(
    store: VectorStore, encoder: Encoder, topics: Sequence[Document], qrels: Sequence[Qrel], *, seed: int = 0
) -> Evidence | None:
    """Evidence from topics of any languages with judgements; none if too few have a relevant document in the store.

    The topics' ids are the qrels' topic ids.
    """
    model = encoder.spec.model
    relevant: dict[str, set[str]] = {}
    for qrel in qrels:
        if qrel.relevance > 0:
            relevant.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    stored = store.stamps(model, sorted(set().union(*relevant.values())))
    answered = [topic for topic in topics if relevant.get(topic.doc_id, set()) & stored.keys()]
    drawn = [answered[row] for row in sorted(np.random.default_rng(seed).permutation(len(answered))[:QUERIES])]
    topic_ids = {topic.doc_id for topic in drawn}
    judged = store.stamps(model, sorted({qrel.doc_id for qrel in qrels if qrel.query_id in topic_ids}))
    pool = _Pool.draw(store, model, sorted(judged), seed)
    drawn = [topic for topic in drawn if relevant[topic.doc_id] & pool.position.keys()]
    if len({topic.doc_id for topic in drawn}) < _FEWEST:
        return None
    no_rows = np.full(len(drawn), -1)
    return Evidence(
        "judgements",
        encoder.encode_queries(drawn),
        [topic.lang for topic in drawn],
        [topic.doc_id for topic in drawn],
        no_rows,
        list(pool.position),
        pool.langs,
        pool.vectors,
        [pool.rows(relevant[topic.doc_id]) for topic in drawn],
        no_rows,
    )


def from_concepts(store: VectorStore, model: str, samples: CalibrationSamples, *, seed: int = 0) -> Evidence | None:
    """Evidence from pseudo-queries answered by the documents of their ``concept``; none if there are too few concepts.

    A pseudo-query's own document is an answer by its passages after the first, so that a title doesn't find itself.
    Documents of a concept that are not in the pool are ignored. A field with few values is a category, not a concept:
    at least twenty values are needed, each in two languages.
    """
    drawn = _draw_pseudo_queries(samples, seed)
    concepts = _concepts(store, [query.doc_id for query in drawn])
    if len(set(concepts.values())) < _FEWEST:
        return None
    pool = _Pool.draw(store, model, [*concepts, *_members(store, model, sorted(set(concepts.values())))], seed)
    members: dict[str, set[str]] = {}
    for doc_id, concept in _concepts(store, list(pool.position)).items():
        members.setdefault(concept, set()).add(doc_id)
    shared = {concept for concept, doc_ids in members.items() if len(set(pool.langs[list(pool.rows(doc_ids))])) > 1}
    drawn = [query for query in drawn if query.doc_id in pool.position and concepts.get(query.doc_id) in shared]
    topics = [concepts[query.doc_id] for query in drawn]
    if len(set(topics)) < _FEWEST:
        return None
    rest = _without_opening(store, model, [query.doc_id for query in drawn])
    relevant = [
        pool.rows(members[topic] - ({query.doc_id} - rest.keys())) for query, topic in zip(drawn, topics, strict=True)
    ]
    return _of_pseudo_queries("concepts", samples, drawn, topics, pool, relevant, rest)


def _concepts(store: VectorStore, doc_ids: Sequence[str]) -> dict[str, str]:
    """The ``concept`` of each document that has one, by id."""
    documents = read_existing(store.get, doc_ids)
    concepts = {doc_id: document.fields.get("concept") for doc_id, document in documents.items()}
    return {doc_id: str(value) for doc_id, value in concepts.items() if isinstance(value, (str, int)) and value != ""}


def _members(store: VectorStore, model: str, concepts: Sequence[str]) -> list[str]:
    """Ids of documents of the concepts, a bounded number of each language.

    To a zero query every document is equally near, so only the filter decides.
    """
    zero = np.zeros((1, store.models()[model]), dtype=np.float32)
    limit = max(POOL, 2 * len(concepts))
    members = store.search(VectorQuery(model, dict.fromkeys(store.count(), zero), limit, {"concept": concepts}))
    return [doc_id for candidates in members.values() for doc_id in candidates[0].doc_ids]


def from_titles(store: VectorStore, model: str, samples: CalibrationSamples, *, seed: int = 0) -> Evidence | None:
    """Evidence from pseudo-queries answered by later passages of their own documents; none if too few have these."""
    drawn = _draw_pseudo_queries(samples, seed)
    rest = _without_opening(store, model, [query.doc_id for query in drawn])
    pool = _Pool.draw(store, model, list(rest), seed)
    drawn = [query for query in drawn if query.doc_id in rest.keys() & pool.position.keys()]
    if len(drawn) < _FEWEST:
        return None
    topics = [query.doc_id for query in drawn]
    relevant = [pool.rows({doc_id}) for doc_id in topics]
    return _of_pseudo_queries("titles", samples, drawn, topics, pool, relevant, rest)


def _without_opening(store: VectorStore, model: str, doc_ids: Sequence[str]) -> dict[str, FloatArray]:
    """Mean of each document's passages after the first, (dim,) unit vectors by id; only documents that have these."""
    return {
        doc_id: unit_rows(passages.unit_vectors()[1:].mean(axis=0, keepdims=True))[0]
        for doc_id, passages in read_existing(partial(store.passages, model), doc_ids).items()
        if len(passages.vectors) > 1
    }


class _PseudoQuery(NamedTuple):
    """A pseudo-query by its language, its row in the bank, and the id of its document."""

    lang: str
    row: int
    doc_id: str


def _draw_pseudo_queries(samples: CalibrationSamples, seed: int) -> list[_PseudoQuery]:
    """Draw pseudo-queries of documents, equally many of each language if it has so many."""
    each = -(-QUERIES // max(len(samples.sources), 1))
    random = np.random.default_rng(seed)
    drawn: list[_PseudoQuery] = []
    for lang, sources in samples.sources.items():
        queries = [_PseudoQuery(lang, row, doc_id) for row, doc_id in enumerate(sources) if doc_id]
        drawn += [queries[number] for number in sorted(random.permutation(len(queries))[:each])]
    return drawn


def _of_pseudo_queries(
    kind: EvidenceKind,
    samples: CalibrationSamples,
    drawn: Sequence[_PseudoQuery],
    topics: Sequence[str],
    pool: _Pool,
    relevant: Sequence[frozenset[int]],
    rest: Mapping[str, FloatArray],
) -> Evidence:
    """Evidence from the bank's pseudo-queries; documents in ``rest`` are compared by their vectors without opening."""
    vectors = pool.vectors.copy()
    for query in drawn:
        if query.doc_id in rest:
            vectors[pool.position[query.doc_id]] = rest[query.doc_id]
    excluded_rows = [-1 if query.doc_id in rest else pool.position.get(query.doc_id, -1) for query in drawn]
    return Evidence(
        kind,
        unit_rows(np.stack([samples.bank[query.lang][query.row] for query in drawn])),
        [query.lang for query in drawn],
        topics,
        np.array([query.row for query in drawn]),
        list(pool.position),
        pool.langs,
        vectors,
        relevant,
        np.array(excluded_rows),
    )


@dataclass(frozen=True)
class _Pool:
    """Documents that are ranked: the row of each id, languages, and vectors."""

    position: Mapping[str, int]
    langs: npt.NDArray[np.str_]
    vectors: FloatArray

    @classmethod
    def draw(cls, store: VectorStore, model: str, required: Sequence[str], seed: int) -> _Pool:
        """The documents of ``required`` that are still stored, and a random sample of each language."""
        drawn = draw_each(store, model, POOL, seed=seed)
        doc_ids = list(dict.fromkeys([*required, *(doc_id for of_lang in drawn.values() for doc_id in of_lang)]))
        stamps = store.stamps(model, doc_ids)
        vectors = read_existing(partial(store.vectors, model), [doc_id for doc_id in doc_ids if doc_id in stamps])
        return cls(
            {doc_id: row for row, doc_id in enumerate(vectors)},
            np.array([stamps[doc_id].lang for doc_id in vectors]),
            np.array(list(vectors.values()), dtype=np.float32),
        )

    def rows(self, doc_ids: Iterable[str]) -> frozenset[int]:
        """Rows of the documents with the ids; ids that are not in the pool are ignored."""
        return frozenset(self.position[doc_id] for doc_id in doc_ids if doc_id in self.position)
