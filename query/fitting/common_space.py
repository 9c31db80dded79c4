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

import numpy as np

from encoders.document import Float64Array, FloatArray, unit_rows
from encoders.maps.ridge import RidgePath
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.common_space import CommonSpaceCalibration
from query.evaluation.significance import is_sure
from query.fitting.mined_mates import MinedMates, corrected_documents

SAMPLE = 2048
"""Maximum documents, over all languages, whose mates are mined for the maps."""
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
class _Row:
    """A centred vector of a language that belongs to a subject, and where its map should lead it."""

    lang: str
    vector: FloatArray
    target: FloatArray


@dataclass(frozen=True)
class _Question:
    """A centred pseudo-query, and its document's mates by language."""

    lang: str
    query: FloatArray
    mates: Mapping[str, str]


def can_learn(calibration: Calibration) -> bool:
    """Whether a calibration can have a common space: it takes means out, of vectors of one part, in two languages."""
    return not calibration.rank and len(calibration.vector_parts.widths) == 1 and len(calibration.languages) > 1


def learn_common_space(store: VectorStore, calibration: Calibration, mined: MinedMates) -> LearntSpace | None:
    """Maps learnt from mined mates; none if too few are known or sure, or if they don't help held-out queries.

    ``can_learn`` holds for the calibration, whose banks hold the mined documents' pseudo-queries.
    """
    subjects = mined.subjects() if mined.sure else {}
    numbers = sorted(set(subjects.values()))
    if len(numbers) < _FEWEST:
        return None
    langs = {doc_id: lang for query in mined.queries for doc_id, lang in _members(mined, query.doc_id, query.lang)}
    vectors = corrected_documents(store, calibration, langs)
    rows: dict[str, tuple[list[_Row], _Row]] = {}
    questions: dict[str, _Question] = {}
    for query in mined.queries:
        members = [member for member in _members(mined, query.doc_id, query.lang) if member[0] in vectors]
        if query.doc_id not in vectors or len(members) < 2:
            continue
        target = unit_rows(np.sum([vectors[doc_id] for doc_id, _ in members], axis=0)[None])[0]
        raw = unit_rows(calibration.languages[query.lang].bank[query.row : query.row + 1])
        asked = calibration.correct_queries(raw, query.lang)[0]
        of_documents = [_Row(lang, vectors[doc_id], target) for doc_id, lang in members]
        rows[query.doc_id] = of_documents, _Row(query.lang, asked, target)
        mates = {lang: doc_id for doc_id, lang in members if doc_id != query.doc_id}
        questions[query.doc_id] = _Question(query.lang, asked, mates)
    order = np.random.default_rng(0).permutation(numbers)
    judging = order[::2].tolist()
    covered = min(1.0, len(vectors) / max(sum(store.count(calibration.model).values()), 1))
    of_known_documents = set(judging[: round(covered * len(judging))])
    learning: list[_Row] = []
    for doc_id, (of_documents, of_query) in rows.items():
        learnt = subjects[doc_id] not in judging
        learning += of_documents if learnt or subjects[doc_id] in of_known_documents else []
        learning += [of_query] if learnt else []
    held_out = [question for doc_id, question in questions.items() if subjects[doc_id] in judging]
    before = _reciprocal_ranks(calibration, {}, held_out, vectors)
    if not len(before):
        return None
    ridge_paths = _paths(learning)
    results = {ridge: _reciprocal_ranks(calibration, _maps(ridge_paths, ridge), held_out, vectors) for ridge in RIDGES}
    ridge = max(results, key=lambda value: float(results[value].mean()))
    if not _subjects_gain(
        results[ridge] - before, [subjects[doc_id] for doc_id in questions if subjects[doc_id] in judging]
    ):
        return None
    every_row = [row for of_documents, of_query in rows.values() for row in (*of_documents, of_query)]
    maps = _maps(_paths(every_row), ridge)
    return LearntSpace(maps, ridge, len(numbers), float(before.mean()), float(results[ridge].mean()))


def _subjects_gain(gains: FloatArray, subjects: Sequence[int]) -> bool:
    """Whether the mean gain is above chance, a subject's questions being one observation."""
    places = np.unique(subjects, return_inverse=True)[1]
    of_subjects = np.bincount(places, gains) / np.bincount(places)
    return is_sure(of_subjects, _BY_CHANCE / len(RIDGES))


def _members(mined: MinedMates, doc_id: str, lang: str) -> list[tuple[str, str]]:
    """A document and its mates, each with its language."""
    return [(doc_id, lang), *((mate, other) for other, mate in mined.mates.get(doc_id, {}).items())]


def _paths(rows: Sequence[_Row]) -> dict[str, tuple[RidgePath, Float64Array]]:
    """For each language, the decomposed scatter of its vectors, and its products with the moves to their targets."""
    paths = {}
    for lang in sorted({row.lang for row in rows}):
        x = np.array([row.vector for row in rows if row.lang == lang], dtype=np.float64)
        y = np.array([row.target for row in rows if row.lang == lang], dtype=np.float64)
        paths[lang] = RidgePath(x.T @ x, 1.0), x.T @ (y - x)
    return paths


def _maps(paths: Mapping[str, tuple[RidgePath, Float64Array]], ridge: float) -> dict[str, Float64Array]:
    """(dim, dim) map of each language: the identity and the least-squares move."""
    return {lang: np.eye(len(cross)) + path.solve(cross, ridge) for lang, (path, cross) in paths.items()}


def _reciprocal_ranks(
    calibration: Calibration,
    maps: Mapping[str, Float64Array],
    questions: Sequence[_Question],
    vectors: Mapping[str, FloatArray],
) -> FloatArray:
    """(questions,) mean reciprocal rank of each question's mates, each among all questions' mates of its language."""
    sums, counts = np.zeros(len(questions)), np.zeros(len(questions))
    space = CommonSpaceCalibration.on(calibration, maps)
    for lang in sorted({other for question in questions for other in question.mates}):
        candidates = sorted({question.mates[lang] for question in questions if lang in question.mates})
        documents = np.stack([vectors[doc_id] for doc_id in candidates])
        column = {doc_id: number for number, doc_id in enumerate(candidates)}
        for asking in sorted({question.lang for question in questions if lang in question.mates}):
            numbers = [
                number
                for number, question in enumerate(questions)
                if question.lang == asking and lang in question.mates
            ]
            queries = np.stack([questions[number].query for number in numbers])
            asked = space.compared(queries, asking)
            cosines = asked.cosines(documents, {lang: slice(0, len(documents))}, space.vector_parts).T
            mate_cosines = cosines[
                np.arange(len(numbers)), [column[questions[number].mates[lang]] for number in numbers]
            ]
            sums[numbers] += 1.0 / (cosines >= mate_cosines[:, None]).sum(axis=1)
            counts[numbers] += 1
    return np.asarray(sums / np.maximum(counts, 1), dtype=np.float32)
