"""Collections made or opened to be searched, and the rankings that several benchmarks compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from encoders.document import Document, Encoded, Encoder
from indexer.collection.settings import Settings
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from indexer.text.language_detection import Detector
from query.calibration.calibration_table import NONE
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher

BATCH = 64
"""Documents that are encoded at once."""
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
