"""Mine mates: documents of a sample, and the documents about the same thing in the other languages.

Two documents are mates if each is the other's nearest in its language, by vectors without the languages' means,
and if their cosine stands out from the neighbourhoods of both (the ratio margin of ``query/calibration/margin.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from encoders.cores import on_all_cores
from encoders.document import FloatArray
from indexer.stores.contract import VectorQuery, VectorStore, read_existing
from query.calibration.calibration import Calibration
from query.calibration.margin import FLOOR
from query.fitting.statistics import CalibrationSamples, PseudoQuery

SAMPLE = 2048
"""Maximum documents, over all languages, whose mates are mined."""
_PILOT = 128
"""Documents whose mates are mined first; no more are mined if few of their mates are confirmed."""
_HOPELESS = 0.65
"""Share of the pilot's checked mates that are confirmed, at the best margin, below which no more are mined."""
_TARGETS = 8
"""Maximum languages in which the mates of a document are sought, so that time grows with the documents alone."""
_NEIGHBOURS = 4
"""Nearest documents of a language in a document's neighbourhood; mates are sought among languages with as many."""
_MOST_LANGUAGES = 64
"""Maximum languages of the documents whose mates are sought: those with the most documents."""
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
        queries: the pseudo-queries of the sampled documents.
        targets: the other languages in which the mates of a language's documents were sought.
        mates: id of each document's mate by language; only mates that another mate of the document confirms, but in a
            collection of two languages all.
        confirmed_share: share of the checked mates that are confirmed; none in a collection of two languages.
        sure: whether the mates are sure enough to decide by.
    """

    queries: Sequence[PseudoQuery]
    targets: Mapping[str, Sequence[str]]
    mates: Mapping[str, Mapping[str, str]]
    confirmed_share: float | None
    sure: bool

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


class _Mate(NamedTuple):
    """A document's mate in another language."""

    doc_id: str
    lang: str
    mate: str
    margin: float


class _Nearest(NamedTuple):
    """The nearest document of a language to a document, and the mean cosine of the ``_NEIGHBOURS`` nearest."""

    doc_id: str
    cosine: float
    mean: float


def mine_mates(store: VectorStore, calibration: Calibration, samples: CalibrationSamples, seed: int = 0) -> MinedMates:
    """Mine the mates of about ``SAMPLE`` sampled documents in a collection, whose calibration corrects the vectors.

    Mates are checked by mates: if a document's mates in two other languages are right, the one is the nearest to the
    other, too. Only mates that are confirmed so are kept. If few are, confirmation itself is by chance, and the mates
    are not sure. In a collection of two languages nothing checks a mate; there, nearly all of the nearest documents
    must be mutual.
    """
    documents = store.count(calibration.model)
    large = [lang for lang in documents if documents[lang] >= _NEIGHBOURS]
    languages = sorted(sorted(large, key=lambda lang: -documents[lang])[:_MOST_LANGUAGES])
    targets = {lang: [*languages[place + 1 :], *languages[:place]][:_TARGETS] for place, lang in enumerate(languages)}
    pilot = _mine(store, calibration, samples.draw(_PILOT, seed, languages), targets)
    if pilot.confirmed_share is not None and pilot.confirmed_share < _HOPELESS:
        return replace(pilot, sure=False)
    return _mine(store, calibration, samples.draw(SAMPLE, seed, languages), targets)


def _mine(
    store: VectorStore, calibration: Calibration, sample: Sequence[PseudoQuery], targets: Mapping[str, Sequence[str]]
) -> MinedMates:
    """Mine the mates of sampled documents, each in the target languages of its language."""
    langs = {query.doc_id: query.lang for query in sample}
    vectors = corrected_documents(store, calibration, langs)
    asked = [
        (doc_id, other) for lang in targets for other in targets[lang] for doc_id in vectors if langs[doc_id] == lang
    ]
    there = _nearest(store, calibration, vectors, asked)
    vectors |= corrected_documents(store, calibration, {mate.doc_id: lang for (_, lang), mate in there.items()})
    back = _nearest(store, calibration, vectors, [(mate.doc_id, langs[doc_id]) for (doc_id, _), mate in there.items()])
    mates, answered = [], 0
    for doc_id, lang in asked:
        mate = there.get((doc_id, lang))
        returned = back.get((mate.doc_id, langs[doc_id])) if mate else None
        if mate and returned:
            answered += 1
            if returned.doc_id == doc_id:
                margin = mate.cosine / max((mate.mean + returned.mean) / 2, float(FLOOR))
                mates.append(_Mate(doc_id, lang, mate.doc_id, margin))
    if len(targets) <= 2:
        sure = len(mates) >= _FEWEST and len(mates) >= _SURE * answered
        return MinedMates(sample, targets, _by_document(mates), None, sure)
    checks = _checks(mates)
    checking = _nearest(store, calibration, vectors, [(by.mate, mate.lang) for by, mate in checks])
    nearest_ids = {key: nearest.doc_id for key, nearest in checking.items()}
    confirmed = np.array([nearest_ids.get((by.mate, mate.lang)) == mate.mate for by, mate in checks], dtype=np.bool_)
    margins = np.array([min(by.margin, mate.margin) for by, mate in checks])
    shares = {
        least: float(confirmed[margins >= least].mean())
        for least in _LEAST_MARGINS
        if np.count_nonzero(margins >= least) >= _FEWEST
    }
    believed = [least for least, share in shares.items() if share >= _SURE]
    least = believed[0] if believed else max(shares, key=shares.__getitem__, default=0.0)
    believed_mates = [checks[row][1] for row in np.flatnonzero(confirmed & (margins >= least))]
    return MinedMates(sample, targets, _by_document(believed_mates), shares.get(least, 0.0), bool(believed))


def _checks(mates: Sequence[_Mate]) -> list[tuple[_Mate, _Mate]]:
    """Each mate of the documents that have several, after the mate that checks it: that of the language before."""
    of_document: dict[str, list[_Mate]] = {}
    for mate in mates:
        of_document.setdefault(mate.doc_id, []).append(mate)
    checks = [
        check
        for several in of_document.values()
        if len(several) > 1
        for check in zip([several[-1], *several], several, strict=False)
    ]
    langs = list(dict.fromkeys(mate.lang for _, mate in checks))
    return sorted(checks, key=lambda check: langs.index(check[1].lang))


def _by_document(mates: Sequence[_Mate]) -> dict[str, dict[str, str]]:
    """The mate of each document by language."""
    by_document: dict[str, dict[str, str]] = {}
    for mate in mates:
        by_document.setdefault(mate.doc_id, {})[mate.lang] = mate.mate
    return by_document


def corrected_documents(
    store: VectorStore, calibration: Calibration, languages: Mapping[str, str]
) -> dict[str, FloatArray]:
    """The corrected vectors of documents whose languages are given, by id; only of documents that exist."""
    raw = read_existing(partial(store.vectors, calibration.model), list(languages))
    by_language: dict[str, list[str]] = {}
    for doc_id in raw:
        by_language.setdefault(languages[doc_id], []).append(doc_id)
    vectors: dict[str, FloatArray] = {}
    for lang, doc_ids in by_language.items():
        stacked = np.stack([raw[doc_id] for doc_id in doc_ids])
        corrected = calibration.correct_documents(stacked, {lang: slice(0, len(doc_ids))})
        vectors.update(zip(doc_ids, corrected, strict=True))
    return vectors


def _nearest(
    store: VectorStore, calibration: Calibration, vectors: Mapping[str, FloatArray], asked: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], _Nearest]:
    """The nearest document to each document asked for, by its id and the language of the nearest.

    Only documents that have one of the corrected ``vectors``, and languages that have documents. A language is searched
    once for all documents, so that the time grows with the languages, not with their pairs.
    """
    by_language: dict[str, list[str]] = {}
    for doc_id, lang in dict.fromkeys(asked):
        if doc_id in vectors:
            by_language.setdefault(lang, []).append(doc_id)

    def nearest_in(lang: str) -> dict[tuple[str, str], _Nearest]:
        doc_ids = by_language[lang]
        asking = np.stack([vectors[doc_id] for doc_id in doc_ids])
        queries = calibration.queries_for_store(asking, lang)
        hits = store.search(VectorQuery(calibration.model, {lang: queries}, _NEIGHBOURS, with_vectors=True))[lang]
        raw = [of_vector.vectors if of_vector.vectors is not None else asking[:0] for of_vector in hits]
        ends = np.cumsum([0, *map(len, raw)]).tolist()
        corrected = calibration.correct_documents(np.concatenate(raw), {lang: slice(0, ends[-1])})
        nearest = {}
        for doc_id, vector, of_vector, start, end in zip(doc_ids, asking, hits, ends[:-1], ends[1:], strict=True):
            if start < end:
                cosines = calibration.vector_parts.cosines(corrected[start:end], vector[None])[:, 0]
                best = int(cosines.argmax())
                nearest[doc_id, lang] = _Nearest(of_vector.doc_ids[best], float(cosines[best]), float(cosines.mean()))
        return nearest

    nearest_by_key: dict[tuple[str, str], _Nearest] = {}
    for of_language in on_all_cores(nearest_in, by_language):
        nearest_by_key |= of_language
    return nearest_by_key
