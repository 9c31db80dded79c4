"""What a probe decides by: some queries, a bounded pool of documents, and what is known to answer them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from encoders.document import Document, Encoder, FloatArray, unit_rows
from indexer.stores.contract import VectorStore
from query.fitting.statistics import CalibrationSamples

if TYPE_CHECKING:
    from ir_measures import Qrel

Kind = Literal["judgements", "concepts", "titles"]

QUERIES = 256
"""Queries of a probe, at most, over all languages."""
POOL = 500
"""Documents a language that compete with what is looked for, at most."""
_FEWEST = 20
"""Topics that something can be decided by, at least."""


@dataclass(frozen=True)
class Evidence:
    """Queries with what answers them.

    Attributes:
        kind: ``judgements`` of a person, ``concepts`` that documents of several languages share, or else ``titles``,
            which should find the rest of their own document.
        queries: (q, dim) as the encoder made them.
        query_langs: (q,) their languages.
        topics: (q,) what each asks for: queries of one topic are one observation, in however many languages.
        bank_rows: (q,) place of each in the bank of its language; −1 for one that is not there.
        doc_ids: (n,) ids of the pool's documents.
        langs: (n,) their languages.
        vectors: (n, dim) as the encoder made them.
        relevant: (q,) rows of the pool that answer each query.
        apart: (q,) row that a query must not meet, a document that is nothing but its opening; −1 where there is none.
    """

    kind: Kind
    queries: FloatArray
    query_langs: Sequence[str]
    topics: Sequence[str]
    bank_rows: npt.NDArray[np.intp]
    doc_ids: Sequence[str]
    langs: npt.NDArray[np.str_]
    vectors: FloatArray
    relevant: Sequence[frozenset[int]]
    apart: npt.NDArray[np.intp]


def from_judgements(
    store: VectorStore, encoder: Encoder, topics: Sequence[Document], qrels: Sequence[Qrel], *, seed: int = 0
) -> Evidence | None:
    """Topics of any languages and their judgements; none where too few have a relevant document here.

    Args:
        store: holds the documents.
        encoder: encodes the topics.
        topics: queries; their ids are the qrels' topic ids.
        qrels: the judgements.
        seed: of the pool's draw.
    """
    model = encoder.spec.model
    relevant: dict[str, set[str]] = {}
    for qrel in qrels:
        if qrel.relevance > 0:
            relevant.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    here = store.stamps(model, sorted(set().union(*relevant.values())))
    answered = [topic for topic in topics if relevant.get(topic.doc_id, set()) & here.keys()]
    asked = [answered[at] for at in sorted(np.random.default_rng(seed).permutation(len(answered))[:QUERIES])]
    names = {topic.doc_id for topic in asked}
    if len(names) < _FEWEST:
        return None
    judged = store.stamps(model, sorted({qrel.doc_id for qrel in qrels if qrel.query_id in names}))
    pool = _Pool.draw(store, model, sorted(judged), seed)
    none = np.full(len(asked), -1)
    return Evidence(
        "judgements",
        encoder.encode_queries(asked),
        [topic.lang for topic in asked],
        [topic.doc_id for topic in asked],
        none,
        list(pool.position),
        pool.langs,
        pool.vectors,
        [pool.rows(relevant[topic.doc_id] & here.keys()) for topic in asked],
        none,
    )


def from_concepts(store: VectorStore, model: str, samples: CalibrationSamples, *, seed: int = 0) -> Evidence | None:
    """Pseudo-queries and the documents of their ``concept`` in all languages; none where too few have one.

    A pseudo-query's own document is among them by the passages after its first, so that a title doesn't find itself.
    Documents of a concept that are not in the pool are as if they were not there. A field that has a few values only
    is a category and no concept: twenty of them at least are needed, each in two languages.
    """
    picked = _picked(samples, seed)
    concepts = _concepts(store, [doc_id for _, _, doc_id in picked])
    if len(set(concepts.values())) < _FEWEST:
        return None
    pool = _Pool.draw(store, model, [*concepts, *_members(store, model, sorted(set(concepts.values())))], seed)
    members: dict[str, set[str]] = {}
    for doc_id, concept in _concepts(store, list(pool.position)).items():
        members.setdefault(concept, set()).add(doc_id)
    shared = {concept for concept, doc_ids in members.items() if len(set(pool.langs[list(pool.rows(doc_ids))])) > 1}
    picked = [one for one in picked if concepts.get(one[2]) in shared]
    topics = [concepts[doc_id] for _, _, doc_id in picked]
    if len(set(topics)) < _FEWEST:
        return None
    rest = _without_opening(store, model, [doc_id for _, _, doc_id in picked])
    relevant = [
        pool.rows(members[topic] - ({doc_id} - rest.keys()))
        for (_, _, doc_id), topic in zip(picked, topics, strict=True)
    ]
    return _of_pseudo_queries("concepts", samples, picked, topics, pool, relevant, rest)


def _concepts(store: VectorStore, doc_ids: Sequence[str]) -> dict[str, str]:
    """The ``concept`` of those documents that have one, by id."""
    found = {document.doc_id: document.fields.get("concept") for document in store.get(doc_ids)}
    return {doc_id: str(value) for doc_id, value in found.items() if isinstance(value, (str, int)) and value != ""}


def _members(store: VectorStore, model: str, concepts: Sequence[str]) -> list[str]:
    """Some documents of some concepts, a bounded number of each language.

    To a query of nothing but zeros every document is as near as any other, so only the filter decides.
    """
    nothing = np.zeros((1, store.models()[model]), dtype=np.float32)
    most = max(POOL, 2 * len(concepts))
    found = store.search(model, dict.fromkeys(store.count(), nothing), most, filters={"concept": concepts})
    return [doc_id for lists in found.values() for doc_id in lists[0].doc_ids]


def from_titles(store: VectorStore, model: str, samples: CalibrationSamples, *, seed: int = 0) -> Evidence | None:
    """Pseudo-queries and their own documents by the passages after the first; none where too few have such passages."""
    picked = _picked(samples, seed)
    rest = _without_opening(store, model, [doc_id for _, _, doc_id in picked])
    picked = [one for one in picked if one[2] in rest]
    if len(picked) < _FEWEST:
        return None
    topics = [doc_id for _, _, doc_id in picked]
    pool = _Pool.draw(store, model, topics, seed)
    relevant = [pool.rows({doc_id}) for doc_id in topics]
    return _of_pseudo_queries("titles", samples, picked, topics, pool, relevant, rest)


def _without_opening(store: VectorStore, model: str, doc_ids: Sequence[str]) -> dict[str, FloatArray]:
    """Vectors of documents made of all passages but the first, where there are others: (dim,) by id."""
    rest = {}
    for doc_id, passages in zip(doc_ids, store.passages(model, doc_ids), strict=True):
        if len(passages.vectors) > 1:
            rest[doc_id] = unit_rows(passages.unit_vectors()[1:].mean(axis=0, keepdims=True))[0]
    return rest


_Picked = tuple[str, int, str]
"""Language of a pseudo-query, its place in the bank, and the document it is of."""


def _picked(samples: CalibrationSamples, seed: int) -> list[_Picked]:
    """Some pseudo-queries of documents, as many of each language as there can be."""
    each = -(-QUERIES // max(len(samples.sources), 1))
    chance = np.random.default_rng(seed)
    picked: list[_Picked] = []
    for lang, sources in samples.sources.items():
        rows = [row for row, doc_id in enumerate(sources) if doc_id]
        picked += [(lang, rows[at], sources[rows[at]]) for at in sorted(chance.permutation(len(rows))[:each])]
    return picked


def _of_pseudo_queries(
    kind: Kind,
    samples: CalibrationSamples,
    picked: Sequence[_Picked],
    topics: Sequence[str],
    pool: _Pool,
    relevant: Sequence[frozenset[int]],
    rest: Mapping[str, FloatArray],
) -> Evidence:
    """Pseudo-queries as they are in the bank, and documents that they don't meet by their own opening."""
    vectors = pool.vectors.copy()
    for doc_id, vector in rest.items():
        vectors[pool.position[doc_id]] = vector
    apart = [-1 if doc_id in rest else pool.position.get(doc_id, -1) for _, _, doc_id in picked]
    return Evidence(
        kind,
        unit_rows(np.stack([samples.bank[lang][row] for lang, row, _ in picked])),
        [lang for lang, _, _ in picked],
        topics,
        np.array([row for _, row, _ in picked]),
        list(pool.position),
        pool.langs,
        vectors,
        relevant,
        np.array(apart),
    )


@dataclass(frozen=True)
class _Pool:
    position: Mapping[str, int]
    langs: npt.NDArray[np.str_]
    vectors: FloatArray

    @classmethod
    def draw(cls, store: VectorStore, model: str, wanted: Sequence[str], seed: int) -> _Pool:
        """Some documents, and a random sample of each language beside them."""
        drawn = [doc_id for lang in store.count() for doc_id in store.sample(model, lang, POOL, seed=seed)]
        doc_ids = list(dict.fromkeys([*wanted, *drawn]))
        stamps = store.stamps(model, doc_ids)
        return cls(
            {doc_id: row for row, doc_id in enumerate(doc_ids)},
            np.array([stamps[doc_id].lang for doc_id in doc_ids]),
            store.vectors(model, doc_ids),
        )

    def rows(self, doc_ids: Iterable[str]) -> frozenset[int]:
        """Rows of some of the documents."""
        return frozenset(self.position[doc_id] for doc_id in doc_ids)
