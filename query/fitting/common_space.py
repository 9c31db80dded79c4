"""Learn the maps of a common space from mined mates, if pseudo-queries that taught nothing say that they help.

A map leads the centred vectors of a language's documents, and of the pseudo-queries taken from them, to the mean of
each document and its mates (least squares with a ridge towards leaving vectors as they are). Half of the mates'
subjects choose the ridge: their pseudo-queries, which taught nothing, ask for the mates of their documents. Of these
documents as large a share taught as the sample and its mates are of the collection: so many of the documents that a
user asks for are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from encoders.document import Float64Array, FloatArray, unit_rows
from encoders.maps.ridge import RidgePath
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.space import CommonSpace
from query.evaluation.significance import is_sure
from query.fitting.mined_mates import MinedMates, corrected_documents

RIDGES = (1.0, 3.0, 10.0, 30.0)
"""Ridges to choose from, in units of a vector's squared length."""
_FEWEST = 40
"""Minimum subjects to learn from: half of them judge."""
_BY_CHANCE = 0.05
"""Probability that maps are kept by chance; the ridges share it."""


@dataclass(frozen=True)
class LearntSpace:
    """Maps that were learnt, and how pseudo-queries that taught nothing find the mates of their documents.

    Attributes:
        maps: (dim, dim) weights by language.
        subjects: number of subjects learnt from.
        before, after: mean reciprocal rank of such a mate without and with maps.
    """

    maps: Mapping[str, Float64Array]
    ridge: float
    subjects: int
    before: float
    after: float


@dataclass(frozen=True)
class _Question:
    """A centred pseudo-query of a subject.

    Attributes:
        documents: its document and this one's mates, by language.
        target: (dim,) mean of the documents' vectors, where the maps should lead them and the query.
    """

    subject: int
    lang: str
    query: FloatArray
    documents: Mapping[str, str]
    target: FloatArray


_Row = tuple[str, FloatArray, FloatArray]
"""A language, a centred vector of it, and where its map should lead the vector."""


def learn_common_space(store: VectorStore, calibration: Calibration, mined: MinedMates) -> LearntSpace | None:
    """Maps learnt from mined mates; none if too few are known or sure, or if they don't help held-out queries.

    There is none of vectors of several parts. The calibration's banks hold the mined documents' pseudo-queries.
    """
    one_part = len(calibration.vector_parts.widths) == 1
    subjects = mined.subjects() if mined.sure and one_part else {}
    numbers = sorted(set(subjects.values()))
    if len(numbers) < _FEWEST:
        return None
    members = {query.doc_id: {query.lang: query.doc_id, **mined.mates.get(query.doc_id, {})} for query in mined.queries}
    langs = {doc_id: lang for by_lang in members.values() for lang, doc_id in by_lang.items()}
    vectors = corrected_documents(store, calibration, langs)
    questions = []
    for query in mined.queries:
        documents = {lang: doc_id for lang, doc_id in members[query.doc_id].items() if doc_id in vectors}
        if query.lang in documents and len(documents) > 1:
            raw = unit_rows(calibration.languages[query.lang].bank[query.row : query.row + 1])
            asked = calibration.correct_queries(raw, query.lang)[0]
            target = unit_rows(np.sum([vectors[doc_id] for doc_id in documents.values()], axis=0)[None])[0]
            questions.append(_Question(subjects[query.doc_id], query.lang, asked, documents, target))
    order = np.random.default_rng(0).permutation(numbers).tolist()
    judging, learning = order[::2], set(order[1::2])
    held_out = [question for question in questions if question.subject in judging]
    before = _reciprocal_ranks({}, held_out, vectors)
    if not len(before):
        return None
    covered = min(1.0, len(vectors) / max(sum(store.count(calibration.model).values()), 1))
    with_known_documents = learning.union(judging[: round(covered * len(judging))])
    paths = _paths(_rows(questions, vectors, with_known_documents, learning))
    results = {ridge: _reciprocal_ranks(_maps(paths, ridge), held_out, vectors) for ridge in RIDGES}
    ridge = max(results, key=lambda value: float(results[value].mean()))
    if not _subjects_gain(results[ridge] - before, [question.subject for question in held_out]):
        return None
    maps = _maps(_paths(_rows(questions, vectors, set(numbers), set(numbers))), ridge)
    return LearntSpace(maps, ridge, len(numbers), float(before.mean()), float(results[ridge].mean()))


def _subjects_gain(gains: FloatArray, subjects: Sequence[int]) -> bool:
    """Whether the mean gain is above chance, a subject's questions being one observation."""
    places = np.unique(subjects, return_inverse=True)[1]
    of_subjects = np.bincount(places, gains) / np.bincount(places)
    return is_sure(of_subjects, _BY_CHANCE / len(RIDGES))


def _rows(
    questions: Sequence[_Question], vectors: Mapping[str, FloatArray], of_documents: set[int], of_queries: set[int]
) -> list[_Row]:
    """What maps are learnt from: the documents of some subjects, and the pseudo-queries of some."""
    rows: list[_Row] = []
    for question in questions:
        if question.subject in of_documents:
            rows += [(lang, vectors[doc_id], question.target) for lang, doc_id in question.documents.items()]
        if question.subject in of_queries:
            rows.append((question.lang, question.query, question.target))
    return rows


def _paths(rows: Sequence[_Row]) -> dict[str, tuple[RidgePath, Float64Array]]:
    """For each language, the decomposed scatter of its vectors, and its products with the moves to their targets."""
    paths = {}
    for lang in sorted({lang for lang, _, _ in rows}):
        x, y = (np.array([row[side] for row in rows if row[0] == lang], dtype=np.float64) for side in (1, 2))
        paths[lang] = RidgePath(x.T @ x, 1.0), x.T @ (y - x)
    return paths


def _maps(paths: Mapping[str, tuple[RidgePath, Float64Array]], ridge: float) -> dict[str, Float64Array]:
    """(dim, dim) map of each language: the identity and the least-squares move."""
    return {lang: np.eye(len(cross)) + path.solve(cross, ridge) for lang, (path, cross) in paths.items()}


def _reciprocal_ranks(
    maps: Mapping[str, Float64Array], questions: Sequence[_Question], vectors: Mapping[str, FloatArray]
) -> FloatArray:
    """(questions,) mean reciprocal rank of each question's mates, each among all questions' mates of its language."""
    sums, counts = np.zeros(len(questions)), np.zeros(len(questions))
    space = CommonSpace.rounded(maps)
    for lang in sorted({other for question in questions for other in question.documents if other != question.lang}):
        rows = [row for row, question in enumerate(questions) if lang != question.lang and lang in question.documents]
        mates, columns = np.unique([questions[row].documents[lang] for row in rows], return_inverse=True)
        asked = [
            space.compared(np.stack([questions[row].query for row in of_lang]), asking).toward(lang)
            for asking, of_lang in groupby(rows, lambda row: questions[row].lang)
        ]
        cosines = np.concatenate(asked) @ np.stack([vectors[doc_id] for doc_id in mates.tolist()]).T
        sums[rows] += 1.0 / (cosines >= cosines[np.arange(len(rows)), columns, None]).sum(axis=1)
        counts[rows] += 1
    return np.asarray(sums / np.maximum(counts, 1), dtype=np.float32)
