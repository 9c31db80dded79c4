"""Learn the maps of a common space from mined mates, if pseudo-queries that taught nothing say that they help.

A map leads centred vectors to the mean of a document and its mates (least squares with a ridge towards the identity).
Half of the subjects choose the ridge; as large a share of their documents taught as is sampled of the collection.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from encoders.document import Float64Array, FloatArray, unit_rows
from encoders.maps.ridge_path import RidgePath
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.calibration_summary import CommonSpaceSummary
from query.calibration.comparison_space import PLAIN_SPACE, CommonSpace, Space
from query.calibration_fitting.mined_mates import MinedMates
from query.measures.significance import ALPHA, is_sure, means_by_topic

RIDGES = (1.0, 3.0, 10.0, 30.0)
"""Ridges to choose from, in units of a vector's squared length."""
_FEWEST = 40
"""Minimum subjects to learn from: half of them judge."""


@dataclass(frozen=True)
class _Question:
    """A centred pseudo-query of a subject."""

    subject: int
    lang: str
    query: FloatArray
    documents: Mapping[str, str]  # its document and this one's mates, by language
    target: FloatArray  # (dim,) mean of the documents' vectors, where the maps should lead them and the query


def learn_common_space(
    store: VectorStore, calibration: Calibration, mined: MinedMates
) -> tuple[CommonSpace, CommonSpaceSummary] | None:
    """A space learnt from mined mates; none if too few are known or sure, or if its maps don't help held-out queries.

    Vectors of several parts have no space. The calibration's banks hold the mined documents' pseudo-queries.
    """
    one_part, vectors = len(calibration.vector_parts.widths) == 1, mined.vectors
    subjects = mined.subjects() if mined.sure and one_part else {}
    if (count := len(set(subjects.values()))) < _FEWEST:
        return None
    questions = []
    for query in mined.queries:
        if mates := mined.mates.get(query.doc_id):
            documents = {query.lang: query.doc_id, **mates}
            raw = unit_rows(calibration.languages[query.lang].bank[query.row : query.row + 1])
            asked = calibration.correct_queries(raw, query.lang)[0]
            target = unit_rows(np.sum([vectors[doc_id] for doc_id in documents.values()], axis=0)[None])[0]
            questions.append(_Question(subjects[query.doc_id], query.lang, asked, documents, target))
    order = np.random.default_rng(0).permutation(count).tolist()
    judging, learning = order[::2], order[1::2]
    held_out = [question for question in questions if question.subject in judging]
    known = {query.doc_id for query in mined.queries}.union(*(mates.values() for mates in mined.mates.values()))
    covered = min(1.0, len(known) / max(sum(store.count(calibration.model).values()), 1))
    paths = _paths(questions, vectors, {*learning, *judging[: round(covered * len(judging))]}, {*learning})
    before = _reciprocal_ranks(PLAIN_SPACE, held_out, vectors)
    results = {ridge: _reciprocal_ranks(_space(paths, ridge), held_out, vectors) for ridge in RIDGES}
    del paths  # with many languages they are as large as those of all subjects below
    ridge, after = max(results.items(), key=lambda result: float(result[1].mean()))
    gains = means_by_topic(after - before, [question.subject for question in held_out])
    if not is_sure(gains, ALPHA / len(RIDGES)):
        return None
    space = _space(_paths(questions, vectors, order, order), ridge)
    return space, CommonSpaceSummary(count, ridge, float(before.mean()), float(after.mean()))


def _paths(
    questions: Sequence[_Question],
    vectors: Mapping[str, FloatArray],
    of_documents: Collection[int],
    of_queries: Collection[int],
) -> dict[str, tuple[RidgePath, Float64Array]]:
    """For each language, the decomposed scatter of its vectors, and its products with the moves to their targets."""
    taught: dict[str, list[tuple[FloatArray, FloatArray]]] = {}
    for question in questions:
        if question.subject in of_documents:
            for lang, doc_id in question.documents.items():
                taught.setdefault(lang, []).append((vectors[doc_id], question.target))
        if question.subject in of_queries:
            taught.setdefault(question.lang, []).append((question.query, question.target))
    paths = {}
    for lang, pairs in sorted(taught.items()):
        x, y = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
        paths[lang] = RidgePath(x.T @ x, 1.0), x.T @ (y - x)
    return paths


def _space(paths: Mapping[str, tuple[RidgePath, Float64Array]], ridge: float) -> CommonSpace:
    """The space whose maps are the identity and the least-squares move."""
    return CommonSpace.rounded(
        {lang: np.eye(len(cross)) + path.solve(cross, ridge) for lang, (path, cross) in paths.items()}
    )


def _reciprocal_ranks(space: Space, questions: Sequence[_Question], vectors: Mapping[str, FloatArray]) -> FloatArray:
    """(questions,) mean reciprocal rank of each question's mates, each among all questions' mates of its language."""
    sums, counts = np.zeros(len(questions)), np.zeros(len(questions))
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
