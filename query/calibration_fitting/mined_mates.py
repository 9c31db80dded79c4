"""Mine mates: sampled documents, and the documents about the same thing in the other languages.

Two documents are mates if each is the other's nearest in its language, without the languages' means, and if their
cosine stands out from the neighbourhoods of both (the ratio margin of ``query/calibration/margin.py``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np

from encoders.document import FloatArray
from encoders.machine.cores import on_all_cores
from indexer.stores.contract import VectorQuery, VectorStore, read_existing
from query.calibration.calibration import BAR, Calibration
from query.calibration.margin import FLOOR
from query.calibration_fitting.language_statistics import CalibrationSamples, PseudoQuery

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
_BELOW_BAR = 1 / 3
"""Share of the mates below the bar (docs/decisions/0005)."""


@dataclass(frozen=True)
class MinedMates:
    """Mates of sampled documents."""

    queries: Sequence[PseudoQuery]  # the pseudo-queries of the sampled documents
    targets: Mapping[str, Sequence[str]]  # the other languages in which the mates of a language's documents were sought
    mates: Mapping[str, Mapping[str, str]]  # by language; only mates that another mate confirms, with two languages all
    confirmed_share: float | None  # share of the checked mates; none with two languages
    sure: bool  # whether the mates are sure enough to decide by
    bar: float  # cosine that two thirds of these mates have, at least ``BAR``
    # (dim,) vectors without the languages' means, by id: of the sampled documents, of their mates, and more
    vectors: Mapping[str, FloatArray] = field(default_factory=dict, compare=False)

    def subjects(self) -> dict[str, int]:
        """Subject numbers by document; two documents share one if half of the smaller set of mates is common."""
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - a tenth of a second

        members = [{doc_id, *mates.values()} for doc_id, mates in self.mates.items()]
        columns = {doc_id: column for column, doc_id in enumerate(set().union(*members))}
        held = np.zeros((len(members), len(columns)), dtype=np.float32)
        for row, of_document in enumerate(members):
            held[row, [columns[doc_id] for doc_id in of_document]] = 1
        sizes = held.sum(axis=1)
        _, subjects = connected_components(2 * (held @ held.T) >= np.minimum(sizes, sizes[:, None]), directed=False)
        return dict(zip(self.mates, subjects.tolist(), strict=True))


class _Nearest(NamedTuple):
    """The nearest document of a language to a document, and the mean cosine of the ``_NEIGHBOURS`` nearest."""

    doc_id: str
    vector: FloatArray
    cosine: float
    mean: float


def mine_mates(store: VectorStore, calibration: Calibration, samples: CalibrationSamples, seed: int = 0) -> MinedMates:
    """Mine the mates of about ``SAMPLE`` documents of a collection, by vectors that the calibration corrects.

    Only mates that are nearest to another mate, too, are kept. If few are, confirmation itself is by chance, and the
    mates are not sure. With two languages nothing checks a mate; nearly all of the nearest documents must be mutual.
    """
    documents = store.count(calibration.model)
    large = [lang for lang in documents if documents[lang] >= _NEIGHBOURS]
    languages = sorted(sorted(large, key=lambda lang: -documents[lang])[:_MOST_LANGUAGES])
    targets = {lang: [*languages[place + 1 :], *languages[:place]][:_TARGETS] for place, lang in enumerate(languages)}
    pilot = _mine(store, calibration, samples.draw(_PILOT, seed, languages), targets)
    if pilot.confirmed_share is not None and pilot.confirmed_share < _HOPELESS:
        return pilot
    return _mine(store, calibration, samples.draw(SAMPLE, seed, languages), targets)


def _mine(
    store: VectorStore, calibration: Calibration, sample: Sequence[PseudoQuery], targets: Mapping[str, Sequence[str]]
) -> MinedMates:
    langs = {query.doc_id: query.lang for query in sample}
    raw = read_existing(partial(store.vectors, calibration.model), list(langs))
    sampled: dict[str, FloatArray] = {}
    for lang, of_language in groupby(raw, langs.__getitem__):
        doc_ids = list(of_language)
        stacked = np.stack([raw[doc_id] for doc_id in doc_ids])
        sampled |= zip(doc_ids, calibration.correct_documents(stacked, {lang: slice(0, len(doc_ids))}), strict=True)
    asked = [(doc_id, to) for lang in targets for to in targets[lang] for doc_id in sampled if langs[doc_id] == lang]
    there = _nearest(store, calibration, sampled, asked)
    vectors = sampled | {nearest.doc_id: nearest.vector for nearest in there.values()}
    asked = [(nearest.doc_id, langs[doc_id]) for (doc_id, _), nearest in there.items()]
    back = _nearest(store, calibration, vectors, asked)
    mates: dict[str, dict[str, str]] = {}
    margins: dict[tuple[str, str], float] = {}
    cosines: dict[tuple[str, str], float] = {}
    for (doc_id, lang), nearest in there.items():
        returned = back.get((nearest.doc_id, langs[doc_id]))
        if returned and returned.doc_id == doc_id:
            mates.setdefault(doc_id, {})[lang] = nearest.doc_id
            cosines[doc_id, lang] = nearest.cosine
            margins[doc_id, lang] = nearest.cosine / max((nearest.mean + returned.mean) / 2, FLOOR)
    if len(targets) <= 2:
        sure = len(mates) >= max(_FEWEST, _SURE * len(there))
        return MinedMates(sample, targets, mates, None, sure, _bar(cosines.values()), vectors)
    several = {doc_id: list(by_lang) for doc_id, by_lang in mates.items() if len(by_lang) > 1}
    checks = [  # the nearest document to a document's mate in one language must be its mate in the next
        (doc_id, of_document[of_document.index(lang) - 1], lang)
        for lang in dict.fromkeys(chain(*several.values()))
        for doc_id, of_document in several.items()
        if lang in of_document
    ]
    asked = [(mates[doc_id][before], lang) for doc_id, before, lang in checks]
    ids = {key: nearest.doc_id for key, nearest in _nearest(store, calibration, vectors, asked).items()}
    confirmed = np.array([ids.get((mates[at][before], lang)) == mates[at][lang] for at, before, lang in checks], bool)
    check_margins = np.array([min(margins[at, before], margins[at, lang]) for at, before, lang in checks])
    least, share = 0.0, 0.0
    for margin in _LEAST_MARGINS:  # the first at which enough checked mates are confirmed, else the best
        checked = confirmed[check_margins >= margin]
        share_there = float(checked.mean()) if len(checked) >= _FEWEST else 0.0
        if share_there > share:
            least, share = margin, share_there
        if share_there >= _SURE:
            break
    believed: dict[str, dict[str, str]] = {}
    for row in np.flatnonzero(confirmed & (check_margins >= least)):
        doc_id, _, lang = checks[row]
        believed.setdefault(doc_id, {})[lang] = mates[doc_id][lang]
    bar = _bar(cosines[doc_id, lang] for doc_id, of_document in believed.items() for lang in of_document)
    return MinedMates(sample, targets, believed, share, share >= _SURE, bar, vectors)


def _bar(cosines: Iterable[float]) -> float:
    return max(BAR, round(float(np.quantile([*cosines, BAR], _BELOW_BAR)), 3))


def _nearest(
    store: VectorStore, calibration: Calibration, vectors: Mapping[str, FloatArray], asked: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], _Nearest]:
    """The nearest document by document id and language, from corrected vectors by id; empty languages have none.

    Each language is searched once for all documents, so that the time grows with the languages, not with their pairs.
    """
    by_language: dict[str, list[str]] = {}
    for doc_id, lang in dict.fromkeys(asked):
        by_language.setdefault(lang, []).append(doc_id)

    def nearest_in(lang: str) -> dict[tuple[str, str], _Nearest]:
        doc_ids = by_language[lang]
        asking = np.stack([vectors[doc_id] for doc_id in doc_ids])
        queries = calibration.queries_for_store(asking, lang)
        hits = store.search(VectorQuery(calibration.model, {lang: queries}, _NEIGHBOURS, with_vectors=True))[lang]
        raw = [of_vector.vectors if of_vector.vectors is not None else asking[:0] for of_vector in hits]
        ends = np.cumsum(list(map(len, raw)))
        corrected = calibration.correct_documents(np.concatenate(raw), {lang: slice(0, ends[-1])})
        nearest = {}
        for doc_id, of_vector, rows in zip(doc_ids, hits, np.split(corrected, ends[:-1]), strict=True):
            if len(rows):
                cosines = calibration.vector_parts.cosines(rows, vectors[doc_id][None])[:, 0]
                best, mean = int(cosines.argmax()), float(cosines.mean())
                nearest[doc_id, lang] = _Nearest(of_vector.doc_ids[best], rows[best].copy(), float(cosines[best]), mean)
        return nearest

    nearest = {
        key: nearest for of_language in on_all_cores(nearest_in, by_language) for key, nearest in of_language.items()
    }
    return {key: nearest[key] for key in asked if key in nearest}
