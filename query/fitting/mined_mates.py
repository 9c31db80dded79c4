"""Mine mates: documents of a sample, and the documents about the same thing in the other languages.

Two documents are mates if each is the other's nearest in its language, by vectors without the languages' components,
and if their cosine stands out from the neighbourhoods of both (the ratio margin of ``query/calibration/margin.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from encoders.cores import on_all_cores
from encoders.document import FloatArray
from indexer.stores.contract import VectorQuery, VectorStore, read_existing
from query.calibration.calibration import Calibration
from query.calibration.margin import FLOOR
from query.calibration.summary import MatesSummary
from query.fitting.statistics import CalibrationSamples, PseudoQuery

_NEIGHBOURS = 4
"""Nearest documents of a language in a document's neighbourhood; mates are sought among languages with as many."""
_MOST_LANGUAGES = 64
"""Maximum languages that mates are sought in: those with the most documents."""
_LEAST_MARGINS = (0.0, 1.1, 1.2, 1.3)
"""Least margins of a mate to try."""
_SURE = 0.85
"""Minimum share of checked mates that are confirmed; with two languages, of nearest documents that are mutual."""
_FEWEST = 20
"""Minimum checks to go by."""


@dataclass(frozen=True)
class MinedMates:
    """Mates of sampled documents.

    Attributes:
        queries: the pseudo-queries of the sampled documents of the languages in which mates were sought.
        mates: id of each document's mate by language; only mates that another mate of the document confirms, but in a
            collection of two languages all.
        margin: least margin of a mate.
        confirmed_share: share of the checked mates that are confirmed; none in a collection of two languages.
        sure: whether the mates are sure enough to decide by.
    """

    queries: Sequence[PseudoQuery]
    mates: Mapping[str, Mapping[str, str]]
    margin: float
    confirmed_share: float | None
    sure: bool

    @property
    def summary(self) -> MatesSummary:
        """How many documents have mates, and how sure that is."""
        return MatesSummary(len(self.mates) / max(len(self.queries), 1), self.confirmed_share, self.margin)

    def subjects(self) -> dict[str, int]:
        """The number of each sampled document's subject.

        Two documents are about one subject if they and their mates have half of the smaller set in common, so that a
        single wrong mate does not make one subject of two.
        """
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - a tenth of a second

        members = [{doc_id, *mates.values()} for doc_id, mates in self.mates.items()]
        columns = {doc_id: column for column, doc_id in enumerate(sorted(set().union(*members)))}
        held = np.zeros((len(members), len(columns)), dtype=np.float32)
        for row, of_document in enumerate(members):
            held[row, [columns[doc_id] for doc_id in of_document]] = 1
        sizes = held.sum(axis=1)
        _, subjects = connected_components(2 * (held @ held.T) >= np.minimum(sizes, sizes[:, None]), directed=False)
        return dict(zip(self.mates, subjects.tolist(), strict=True))


class _Pair(NamedTuple):
    """A sampled document and its nearest document in another language."""

    doc_id: str
    lang: str
    mate: str
    margin: float
    mutual: bool


def mine_mates(
    store: VectorStore, calibration: Calibration, samples: CalibrationSamples, count: int, seed: int = 0
) -> MinedMates:
    """Mine the mates of about ``count`` sampled documents in a collection, whose calibration corrects the vectors.

    Mates are checked by mates: if a document's mates in two other languages are right, the one is the nearest to the
    other, too. Only mates that are confirmed so are kept. If few are, confirmation itself is by chance, and the mates
    are not sure. In a collection of two languages nothing checks a mate; there, nearly all of the nearest documents
    must be mutual.
    """
    languages = _large_languages(store, calibration.model)
    sample = samples.draw(count, seed, languages)
    pairs = _pairs(store, calibration, {query.doc_id: query.lang for query in sample}, languages)
    mutual = [pair for pair in pairs if pair.mutual]
    if len(languages) <= 2:
        sure = len(mutual) >= _FEWEST and len(mutual) >= _SURE * len(pairs)
        return MinedMates(sample, _by_document(mutual), 0.0, None, sure)
    checks = _checks(store, calibration, mutual)
    shares = {
        margin: float(np.mean(results))
        for margin in _LEAST_MARGINS
        if len(results := [check.confirmed for check in checks if check.margin >= margin]) >= _FEWEST
    }
    believed = [margin for margin, share in shares.items() if share >= _SURE]
    margin = believed[0] if believed else max(shares, key=shares.__getitem__, default=0.0)
    mates = _by_document([check.mate for check in checks if check.margin >= margin and check.confirmed])
    return MinedMates(sample, mates, margin, shares.get(margin, 0.0), bool(believed))


def _large_languages(store: VectorStore, model: str) -> list[str]:
    """The languages that mates are sought in, sorted: those with the most documents, and with enough of them."""
    documents = store.count(model)
    large = [lang for lang in documents if documents[lang] >= _NEIGHBOURS]
    return sorted(sorted(large, key=lambda lang: -documents[lang])[:_MOST_LANGUAGES])


def _by_document(pairs: Sequence[_Pair]) -> dict[str, dict[str, str]]:
    """The mate of each document by language."""
    mates: dict[str, dict[str, str]] = {}
    for pair in pairs:
        mates.setdefault(pair.doc_id, {})[pair.lang] = pair.mate
    return mates


class _Check(NamedTuple):
    """Whether a document's mate in one language confirms its mate in another, and the smaller margin of the two."""

    mate: _Pair
    margin: float
    confirmed: bool


def _checks(store: VectorStore, calibration: Calibration, mutual: Sequence[_Pair]) -> list[_Check]:
    """A check of each mate of the documents that have several, by the mate in the language before."""
    of_document: dict[str, list[_Pair]] = {}
    for pair in mutual:
        of_document.setdefault(pair.doc_id, []).append(pair)
    by_language: dict[str, list[tuple[_Pair, _Pair]]] = {}
    for pairs in of_document.values():
        for first, second in zip(pairs[-1:] + pairs[:-1], pairs, strict=True) if len(pairs) > 1 else ():
            by_language.setdefault(second.lang, []).append((first, second))

    def checks_in(lang: str) -> list[_Check]:
        of_language = by_language[lang]
        vectors = corrected_documents(store, calibration, {first.mate: first.lang for first, _ in of_language})
        stored = [(first, second) for first, second in of_language if first.mate in vectors]
        queries = [vectors[first.mate] for first, _ in stored]
        nearest = _nearest(store, calibration, lang, queries)
        return [
            _Check(
                second,
                min(first.margin, second.margin),
                confirmed=document is not None and document.doc_id == second.mate,
            )
            for (first, second), document in zip(stored, nearest, strict=True)
        ]

    return [check for checks in on_all_cores(checks_in, by_language) for check in checks]


class _Nearest(NamedTuple):
    """The nearest document of a language to a document.

    Attributes:
        vector: (dim,) corrected vector of the nearest document.
        mean: mean cosine of the ``_NEIGHBOURS`` nearest.
    """

    doc_id: str
    vector: FloatArray
    cosine: float
    mean: float


def _pairs(
    store: VectorStore, calibration: Calibration, sampled: Mapping[str, str], languages: Sequence[str]
) -> list[_Pair]:
    """The nearest document of each other language to each sampled document, whose languages are given.

    A language is searched once for all documents, so that the time grows with the languages, not with their pairs.
    """
    vectors = corrected_documents(store, calibration, sampled)

    def neighbours_in(lang: str) -> list[tuple[str, _Nearest | None]]:
        doc_ids = [doc_id for doc_id in vectors if sampled[doc_id] != lang]
        mates = _nearest(store, calibration, lang, [vectors[doc_id] for doc_id in doc_ids])
        return list(zip(doc_ids, mates, strict=True))

    nearest: dict[tuple[str, str], _Nearest] = {}
    vectors_of_mates: dict[str, FloatArray] = {}
    for lang, of_language in zip(languages, on_all_cores(neighbours_in, languages), strict=True):
        for doc_id, mate in of_language:
            if mate:
                vector = vectors_of_mates.setdefault(mate.doc_id, mate.vector)
                nearest[doc_id, lang] = mate._replace(vector=vector)
    by_language: dict[str, list[str]] = {}
    for doc_id in vectors:
        by_language.setdefault(sampled[doc_id], []).append(doc_id)

    def pairs_from(lang: str) -> list[_Pair]:
        searched = [
            (other, doc_id) for other in languages for doc_id in by_language[lang] if (doc_id, other) in nearest
        ]
        mates = [nearest[doc_id, other] for other, doc_id in searched]
        back = _nearest(store, calibration, lang, [mate.vector for mate in mates])
        return [
            _Pair(
                doc_id,
                other,
                mate.doc_id,
                mate.cosine / max((mate.mean + returned.mean) / 2, float(FLOOR)),
                mutual=returned.doc_id == doc_id,
            )
            for (other, doc_id), mate, returned in zip(searched, mates, back, strict=True)
            if returned
        ]

    return [pair for pairs in on_all_cores(pairs_from, by_language) for pair in pairs]


def corrected_documents(
    store: VectorStore, calibration: Calibration, languages: Mapping[str, str]
) -> dict[str, FloatArray]:
    """The corrected vectors of documents whose languages are given, by id; only of documents that exist."""
    raw = read_existing(partial(store.vectors, calibration.model), list(languages))
    by_language: dict[str, list[str]] = {}
    for doc_id in raw:
        by_language.setdefault(languages[doc_id], []).append(doc_id)
    vectors: dict[str, FloatArray] = {}
    for lang, of_language in by_language.items():
        stacked = np.stack([raw[doc_id] for doc_id in of_language])
        corrected = calibration.correct_documents(stacked, {lang: slice(0, len(of_language))})
        vectors.update(zip(of_language, corrected, strict=True))
    return vectors


def _nearest(
    store: VectorStore, calibration: Calibration, lang: str, vectors: Sequence[FloatArray]
) -> list[_Nearest | None]:
    """The nearest document of a language to each corrected vector; none if the language has no documents."""
    if not vectors:
        return []
    queries = calibration.queries_for_store(np.stack(vectors), lang)
    hits = store.search(VectorQuery(calibration.model, {lang: queries}, _NEIGHBOURS, with_vectors=True))[lang]
    raw = [of_vector.vectors for of_vector in hits if of_vector.vectors is not None]
    rows = sum(map(len, raw))
    corrected = calibration.correct_documents(np.concatenate(raw), {lang: slice(0, rows)}) if rows else None
    nearest: list[_Nearest | None] = []
    start = 0
    for vector, of_vector in zip(vectors, hits, strict=True):
        if not of_vector.doc_ids or of_vector.vectors is None or corrected is None:
            nearest.append(None)
            continue
        neighbours = corrected[start : (start := start + len(of_vector.vectors))]
        cosines = calibration.vector_parts.cosines(neighbours, vector[None])[:, 0]
        best = int(cosines.argmax())
        cosine, mean = float(cosines[best]), float(cosines.mean())
        nearest.append(_Nearest(of_vector.doc_ids[best], neighbours[best].copy(), cosine, mean))
    return nearest
