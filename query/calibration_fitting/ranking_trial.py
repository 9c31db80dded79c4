"""Trials of rankings: two or more ways to rank answer the same queries, and a test says whether one is better."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeVar, cast

import numpy as np

from encoders.document import Document, Encoder, Float64Array, FloatArray, Passages, unit_rows
from encoders.errors import BadInput
from encoders.machine.cores import on_all_cores
from indexer.stores.contract import NearestDocuments, VectorQuery, VectorStore, in_order
from query.calibration.calibration import Calibration
from query.calibration_fitting.mined_mates import MinedMates
from query.measures.quality_measures import average_precision
from query.measures.significance import ALPHA, is_sure, means_by_topic
from query.ranking.fair_ranker import FairRanker
from query.trec_files.qrels import Qrel

T = TypeVar("T")

QUERIES = 256
"""Maximum queries of a trial, over all languages."""
FEWEST = 20
"""Minimum topics to decide by."""
_BLOCK = 8
"""Queries whose candidates are in memory at once on each core."""


@dataclass(frozen=True)
class Question:
    """A query with its answers in a collection."""

    vector: FloatArray  # (dim,) vector of the query, as the encoder made it
    lang: str
    topic: str  # the queries of one topic, in any languages, are one observation
    answers: Collection[str]  # ids of the documents that answer
    hidden: Collection[str] = ()  # ids of documents that the query does not meet
    targets: tuple[str, ...] = ()  # languages of documents, the same for all queries of a language; empty: all


def from_judgements(
    store: VectorStore, encoder: Encoder, topics: Sequence[Document], qrels: Sequence[Qrel], seed: int = 0
) -> list[Question]:
    """Questions of judged topics of any language. Raises BadInput: too few have a relevant document in the store."""
    relevant: dict[str, set[str]] = {}
    for qrel in qrels:
        if qrel.relevance > 0:
            relevant.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    stored = store.stamps(encoder.spec.model, sorted(set().union(*relevant.values()))).keys()
    answered = [topic for topic in topics if relevant.get(topic.doc_id, set()) & stored]
    drawn = [answered[row] for row in sorted(np.random.default_rng(seed).permutation(len(answered))[:QUERIES])]
    if len({topic.doc_id for topic in drawn}) < FEWEST:
        raise BadInput(
            "too few of the topics have a relevant document in the collection to decide anything by; "
            "give more, or leave --topics and --qrels out"
        )
    return [
        Question(vector, topic.lang, topic.doc_id, relevant[topic.doc_id] & stored)
        for topic, vector in zip(drawn, encoder.encode_queries(drawn), strict=True)
    ]


def from_mates(calibration: Calibration, mined: MinedMates, seed: int = 0) -> tuple[list[Question], Calibration]:
    """Questions of pseudo-queries answered by their document's mates, and the calibration without these; none if few.

    Documents that stand alone have their vote: of as large a share of the questions as of documents without mates, all
    mates but one are hidden. No query meets its own document; each asks the languages in which mates were sought.
    """
    if not mined.sure:
        return [], calibration
    random, subjects = np.random.default_rng(seed), mined.subjects()
    with_mates = [query for query in mined.queries if query.doc_id in mined.mates]
    alone = round(QUERIES * (1 - len(with_mates) / max(len(mined.queries), 1)))
    drawn = [with_mates[row] for row in random.permutation(len(with_mates))[:QUERIES]]
    if len({subjects[query.doc_id] for query in drawn}) < FEWEST:
        return [], calibration
    questions = []
    for number, query in enumerate(drawn):
        mates = sorted(mined.mates[query.doc_id].values())
        answers = {mates[random.integers(len(mates))]} if number * QUERIES < alone * len(drawn) else set(mates)
        vector = unit_rows(calibration.languages[query.lang].bank[query.row : query.row + 1])[0]
        hidden = {query.doc_id, *mates} - answers
        targets = tuple(sorted((query.lang, *mined.targets[query.lang])))
        questions.append(Question(vector, query.lang, str(subjects[query.doc_id]), answers, hidden, targets))
    asked = {query.doc_id for query in drawn}
    languages = {}
    for lang, statistics in calibration.languages.items():  # no query must be its own neighbour
        rows = [row for row, source in enumerate(statistics.sources) if source not in asked]
        sources = tuple(statistics.sources[row] for row in rows)
        languages[lang] = replace(statistics, bank=statistics.bank[rows], sources=sources)
    return questions, replace(calibration, languages=languages)


class Trial:
    """Ranks the whole collection for the same questions by one calibration after another, with passages."""

    def __init__(self, store: VectorStore, model: str, questions: Sequence[Question], depth: int = 50) -> None:
        """Ask questions of a store's documents with vectors of a model; ``depth`` hits of each count."""
        self._store, self._questions, self._depth = store, questions, depth
        self._documents = store.count(model)

    def values(self, calibrations: Sequence[Calibration]) -> list[FloatArray]:
        """For each calibration the (topics,) average precision, the mean over a topic's questions."""
        by_lang: dict[str, list[Question]] = {}
        for question in self._questions:
            by_lang.setdefault(question.lang, []).append(question)
        blocks = [asked[start : start + _BLOCK] for asked in by_lang.values() for start in range(0, len(asked), _BLOCK)]
        precisions = np.concatenate(on_all_cores(partial(self._precisions, calibrations), blocks), axis=1)
        topics = [question.topic for block in blocks for question in block]
        return [means_by_topic(of_calibration, topics).astype(np.float32) for of_calibration in precisions]

    def _precisions(self, calibrations: Sequence[Calibration], questions: Sequence[Question]) -> Float64Array:
        """(calibrations, questions) average precision of some questions of one language."""
        store = cast("VectorStore", _ReadOnce(self._store))
        vectors = np.stack([question.vector for question in questions])
        hidden = [question.hidden for question in questions]
        lang, targets = questions[0].lang, questions[0].targets or sorted(self._documents)
        precisions = []
        for calibration in calibrations:
            rankings = FairRanker(store, calibration).rank(vectors, lang, targets, self._depth, without=hidden)
            pairs = zip(rankings, questions, strict=True)
            precisions.append([average_precision(ranking.doc_ids, question.answers) for ranking, question in pairs])
        return np.array(precisions)

    def better(self, first: Calibration, others: Sequence[Calibration]) -> Calibration:
        """The best of the others if its mean gain over the first is significant; else the first."""
        before, *after = self.values([first, *others])
        best = max(range(len(others)), key=lambda number: float(after[number].mean()), default=None)
        if best is None or not is_sure(after[best] - before, ALPHA / len(others)):
            return first
        return others[best]


class _ReadOnce:
    """A store whose search, vectors and passages are read once: several rankings meet the same documents."""

    def __init__(self, store: VectorStore) -> None:
        self._store, self.count = store, cache(store.count)
        self._nearest: dict[tuple[object, ...], dict[str, list[NearestDocuments]]] = {}
        self._vectors: dict[str, FloatArray] = {}
        self._passages: dict[str, Passages] = {}

    def search(self, query: VectorQuery) -> dict[str, list[NearestDocuments]]:
        key = (query.k, *((lang, vectors.tobytes()) for lang, vectors in query.vectors.items()))
        if key not in self._nearest:
            self._nearest[key] = self._store.search(query)
        return self._nearest[key]

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        rows = _read(self._vectors, partial(self._store.vectors, model), doc_ids)
        return np.stack(rows) if rows else self._store.vectors(model, [])

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        return _read(self._passages, partial(self._store.passages, model), doc_ids)


def _read(known: dict[str, T], read: Callable[[Sequence[str]], Iterable[T]], doc_ids: Sequence[str]) -> list[T]:
    """What is known of documents; the rest is read first."""
    if new := [doc_id for doc_id in doc_ids if doc_id not in known]:
        known |= zip(new, read(new), strict=True)
    return in_order(known, doc_ids)
