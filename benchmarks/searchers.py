"""Collections made or opened to be searched, and the rankings that several benchmarks compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from encoders.document import Document, Encoded, Encoder
from indexer.collection.settings import Settings
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from indexer.text.language_detection import Detector
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import CalibrationChoice
from query.calibration.common_space import CommonSpaceCalibration
from query.calibration.table import NONE
from query.fitting.common_space import SAMPLE, can_learn, learn_common_space
from query.fitting.evidence import from_concepts
from query.fitting.mined_mates import mine_mates
from query.fitting.probe import probe
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.search_choice import RankingOptions, SearchChoice
from query.ranking.searcher import Searcher

BATCH = 64
"""Documents that are encoded at once."""
CENTRED = SearchChoice(0.5, "ratio", passages=False)
"""Cosine of documents' vectors without their language's mean; no margins."""
UNCALIBRATED = RankingOptions(calibration=NONE)


def open_searcher(collection: str, home: Path, ranking: RankingOptions | None = None) -> Searcher:
    """Open a home's collection; its queries are encoded on the CPU."""
    return Searcher.open(collection, Settings.read(home=home), device="cpu", ranking=ranking)


def index_encoded(encoder: Encoder, batches: Iterable[tuple[Sequence[Document], Encoded]], folder: Path) -> Searcher:
    """Put encoded documents into a store in a folder; returns an uncalibrated searcher of them."""
    store = EmbeddedStore(folder, "unseen")
    store.create(encoder.spec.model, encoder.spec.dim)
    for documents, encoded in batches:
        store.put(
            encoder.spec.model,
            [StoredDocument.of(document, encoded, row) for row, document in enumerate(documents)],
        )
    languages = store.count()
    return Searcher("unseen", encoder, store, languages, Detector(languages.keys()))


def calibrations(searcher: Searcher, *, space: bool = False) -> tuple[Calibration, Calibration, CalibrationChoice]:
    """Plain statistics of a collection, its calibration as the probe decides by concepts, and the probe's choice.

    ``space``: with a common space, if that helps, as ``dragoman calibrate`` decides.
    """
    model = searcher.spec.model
    samples = draw_samples(searcher.store, searcher.encoder)
    evidence = from_concepts(searcher.store, model, samples)
    choice = probe(searcher.store, samples, model, evidence)[0] if evidence else CalibrationChoice()
    calibration = fit_statistics(samples, model, rank=choice.rank).with_choice(choice)
    if space and can_learn(calibration):
        mined = mine_mates(searcher.store, calibration, samples, SAMPLE)
        if learnt := learn_common_space(searcher.store, calibration, mined):
            calibration = CommonSpaceCalibration.on(calibration, learnt.maps)
    return fit_statistics(samples, model), calibration, choice
