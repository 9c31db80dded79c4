"""What a probe decides by: some queries, a bounded pool of documents, and what is known to answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from encoders.document import Document, Encoder, FloatArray, unit_rows
from indexer.stores.contract import VectorStore
from query.language_statistics import Samples

if TYPE_CHECKING:
    from ir_measures import Qrel

Kind = Literal["judgements", "concepts", "titles"]

QUERIES = 256
"""Queries of a probe, at most, over all languages."""
POOL = 500
"""Documents a language that compete with what is looked for, at most."""
_FEWEST = 20


@dataclass(frozen=True)
class Evidence:
    """Queries with what answers them.

    Attributes:
        kind: ``judgements`` of a person, ``concepts`` that documents of several languages share, or else ``titles``,
            which should find the rest of their own document.
        queries: (q, dim) as the encoder made them.
        query_langs: (q,) their languages.
        bank_rows: (q,) place of each in the bank of its language; −1 for one that is not there.
        langs: (n,) languages of the pool's documents.
        vectors: (n, dim) as the encoder made them.
        relevant: (q,) rows of the pool that answer each query.
        apart: (q,) row that a query must not meet, a document that is nothing but its opening; −1 where there is none.
    """

    kind: Kind
    queries: FloatArray
    query_langs: Sequence[str]
    bank_rows: npt.NDArray[np.intp]
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
    judged = {qrel.doc_id for qrel in qrels}
    known = sorted(store.stamps(model, sorted(judged)))
    pool = _Pool.draw(store, model, known, seed)
    relevant: dict[str, set[int]] = {}
    for qrel in qrels:
        if qrel.relevance > 0 and qrel.doc_id in pool.position:
            relevant.setdefault(qrel.query_id, set()).add(pool.position[qrel.doc_id])
    asked = [topic for topic in topics if relevant.get(topic.doc_id)]
    asked = [asked[at] for at in sorted(np.random.default_rng(seed).permutation(len(asked))[:QUERIES])]
    if len(asked) < _FEWEST:
        return None
    none = np.full(len(asked), -1)
    return Evidence(
        "judgements",
        encoder.encode_queries(asked),
        [topic.lang for topic in asked],
        none,
        pool.langs,
        pool.vectors,
        [frozenset(relevant[topic.doc_id]) for topic in asked],
        none,
    )


def from_concepts(store: VectorStore, model: str, samples: Samples, *, seed: int = 0) -> Evidence | None:
    """Pseudo-queries and the documents of their ``concept`` in all languages; none where too few have one.

    A pseudo-query's own document is among them by the passages after its first, so that a title doesn't find itself.
    """
    picked = _picked(samples, seed)
    concepts = {
        document.doc_id: str(document.fields["concept"])
        for document in store.get([doc_id for _, _, doc_id in picked])
        if document.fields.get("concept")
    }
    picked = [one for one in picked if one[2] in concepts]
    if len(picked) < _FEWEST:
        return None
    wanted = sorted(set(concepts.values()))
    anything = np.zeros((1, samples.documents[picked[0][0]].dim), dtype=np.float32)
    found = store.search(
        model, dict.fromkeys(samples.documents, anything), len(wanted) * 2, filters={"concept": wanted}
    )
    members = [doc_id for lists in found.values() for doc_id in lists[0].doc_ids]
    by_concept: dict[str, set[str]] = {}
    for document in store.get(members):
        by_concept.setdefault(str(document.fields["concept"]), set()).add(document.doc_id)
    picked = [one for one in picked if by_concept[concepts[one[2]]] - {one[2]}]
    if len(picked) < _FEWEST:
        return None
    pool = _Pool.draw(store, model, members, seed)
    rest = _without_opening(store, model, [doc_id for _, _, doc_id in picked])
    relevant = []
    for _, _, doc_id in picked:
        others = by_concept[concepts[doc_id]] - ({doc_id} - rest.keys())
        relevant.append(frozenset(pool.position[other] for other in others))
    return _of_pseudo_queries("concepts", samples, picked, pool, relevant, rest)


def from_titles(store: VectorStore, model: str, samples: Samples, *, seed: int = 0) -> Evidence | None:
    """Pseudo-queries and their own documents by the passages after the first; none where too few have such passages."""
    picked = _picked(samples, seed)
    rest = _without_opening(store, model, [doc_id for _, _, doc_id in picked])
    picked = [one for one in picked if one[2] in rest]
    if len(picked) < _FEWEST:
        return None
    pool = _Pool.draw(store, model, list(rest), seed)
    relevant = [frozenset({pool.position[doc_id]}) for _, _, doc_id in picked]
    return _of_pseudo_queries("titles", samples, picked, pool, relevant, rest)


def _without_opening(store: VectorStore, model: str, doc_ids: Sequence[str]) -> dict[str, FloatArray]:
    """Vectors of documents made of all passages but the first, where there are others: (dim,) by id."""
    rest = {}
    for doc_id, passages in zip(doc_ids, store.passages(model, doc_ids), strict=True):
        if len(passages.vectors) > 1:
            rest[doc_id] = unit_rows(passages.unit_vectors()[1:].mean(axis=0, keepdims=True))[0]
    return rest


_Picked = tuple[str, int, str]
"""Language of a pseudo-query, its place in the bank, and the document it is of."""


def _picked(samples: Samples, seed: int) -> list[_Picked]:
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
    samples: Samples,
    picked: Sequence[_Picked],
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
        np.array([row for _, row, _ in picked]),
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
        doc_ids = list(wanted)
        for lang in store.count():
            doc_ids += store.sample(model, lang, POOL, seed=seed)
        doc_ids = list(dict.fromkeys(doc_ids))
        stamps = store.stamps(model, doc_ids)
        return cls(
            {doc_id: row for row, doc_id in enumerate(doc_ids)},
            np.array([stamps[doc_id].lang for doc_id in doc_ids]),
            store.vectors(model, doc_ids),
        )
