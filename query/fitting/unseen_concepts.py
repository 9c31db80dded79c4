"""Whether a trained encoder helps a user: both encoders rank pages of held-out concepts.

No triple of these concepts taught, but they chose the step that is kept, so the trained encoder is a little favoured.
The pages are a collection of their own, ranked as a search ranks (by document, title, opening and best passage, by
margin), without mates and without a common space, which a collection learns for itself. A page's title asks for the
pages about the same concept in other languages; without a title, its first sentence does.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from encoders.batches import encode_in_batches
from encoders.console import Console, Progress
from encoders.document import Document, Encoder, FloatArray
from encoders.text.segmentation import first_sentence
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration_choice import DEFAULT
from query.evaluation.measures import score
from query.evaluation.significance import errors_by_chance
from query.evaluation.trec_run import Run
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.fair_ranker import FairRanker
from query.ranking.search_choice import SearchChoice

PAGES = 512
"""Maximum pages; whole concepts are taken until so many are reached."""
_BATCH = 64
_DEPTH = 100
_FEWEST = 20
"""Minimum concepts to say that a training helped, or did harm."""
_BY_CHANCE = 0.05
"""Probability, on one side, that a difference is said to be one by chance."""


@dataclass(frozen=True)
class Comparison:
    """MAP of a trained and an untrained encoder over the same queries.

    Attributes:
        error: standard error of the mean difference over concepts.
    """

    trained: float
    untrained: float
    error: float
    concepts: int
    pages: int

    @property
    def verdict(self) -> Literal["better", "worse", "undecided"]:
        """Whether the training helped."""
        bound = errors_by_chance(self.concepts, _BY_CHANCE) * self.error
        gain = self.trained - self.untrained if self.concepts >= _FEWEST else 0.0
        return "better" if gain > bound else "worse" if gain < -bound else "undecided"


def pages_of(documents: Iterable[Document], concepts: Collection[str]) -> list[Document]:
    """The documents of concepts that have pages in several languages, one a language; at most about ``PAGES``."""
    by_concept: dict[str, dict[str, Document]] = defaultdict(dict)
    for document in documents:
        concept = document.fields.get("concept")
        if concept is not None and str(concept) in concepts and document.content.strip():
            by_concept[str(concept)].setdefault(document.lang, document)
    pages: list[Document] = []
    for concept in sorted(by_concept):
        if len(by_concept[concept]) > 1 and len(pages) < PAGES:
            pages += by_concept[concept].values()
    return pages


def compare(pages: Sequence[Document], trained: Encoder, untrained: Encoder, console: Console) -> Comparison | None:
    """Compare two encoders on pages of unseen concepts; none if fewer than two concepts are there."""
    concepts = np.unique([str(page.fields["concept"]) for page in pages], return_inverse=True)[1]
    count = int(concepts.max(initial=-1)) + 1
    if count < 2:
        return None
    with console.progress("searching for what was held out", 2 * len(pages), "pages") as advance:
        values = [_precisions(pages, encoder, advance) for encoder in (trained, untrained)]
    of_concepts = [np.bincount(concepts, of_encoder) / np.bincount(concepts) for of_encoder in values]
    gains = of_concepts[0] - of_concepts[1]
    error = float(gains.std(ddof=1) / count**0.5)
    return Comparison(float(of_concepts[0].mean()), float(of_concepts[1].mean()), error, count, len(pages))


def _precisions(pages: Sequence[Document], encoder: Encoder, advance: Progress) -> FloatArray:
    """(pages,) average precision of each page's query among the pages in other languages."""
    from ir_measures import AP, Qrel  # noqa: PLC0415 - half a second

    model = encoder.spec.model
    with tempfile.TemporaryDirectory() as folder, closing(EmbeddedStore(Path(folder), "unseen")) as store:
        store.create(model, encoder.spec.dim)
        for batch, encoded in encode_in_batches(encoder, pages, _BATCH, advance):
            store.put(model, [StoredDocument.of(page, encoded, row) for row, page in enumerate(batch)])
        calibration = fit_statistics(draw_samples(store, encoder), model).with_choice(DEFAULT)
        choice = replace(SearchChoice.of(calibration), lift=0.0, second_look=False)
        ranker = FairRanker(store, calibration, choice)
        found: dict[str, list[tuple[str, float]]] = {}
        for lang in sorted({page.lang for page in pages}):
            asking = [page for page in pages if page.lang == lang]
            targets = sorted({page.lang for page in pages} - {lang})
            rankings = ranker.rank(encoder.encode_queries(list(map(_query, asking))), lang, targets, _DEPTH)
            for page, ranking in zip(asking, rankings, strict=True):
                found[page.doc_id] = list(zip(ranking.doc_ids, map(float, ranking.scores), strict=True))
    qrels = [
        Qrel(page.doc_id, other.doc_id, 1)
        for page in pages
        for other in pages
        if other.lang != page.lang and str(other.fields["concept"]) == str(page.fields["concept"])
    ]
    topics = score(Run("unseen", found), qrels, [AP], found.keys()).topics
    return np.array([topics[page.doc_id][str(AP)] for page in pages], dtype=np.float32)


def _query(page: Document) -> Document:
    """What asks for a page's counterparts."""
    return Document(page.doc_id, page.lang, page.title or first_sentence(page))
