"""Whether a trained encoder helps a user: both encoders rank pages of held-out concepts.

No triple of these concepts taught, but they chose the step that is kept, so the trained encoder is a little favoured.
The pages are a collection of their own, ranked as a search ranks (by document, title, opening and best passage, by
margin), without mates and without a common space, which a collection learns for itself. A page's title asks for the
pages about the same concept in other languages; without a title, its first sentence does.
"""

import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from encoders.console import Console, Progress
from encoders.document import Document, Encoder, FloatArray, encode_in_batches
from encoders.text.segmentation import first_sentence
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.calibration_fitting.ranking_trial import FEWEST, Question, Trial
from query.measures.significance import ALPHA, errors_by_chance

PAGES = 512
"""Maximum pages; whole concepts are taken until so many are reached."""
_BATCH = 64
_DEPTH = 100


@dataclass(frozen=True)
class Comparison:
    """MAP of a trained and an untrained encoder over the same queries."""

    trained: float
    untrained: float
    error: float  # standard error of the mean difference over concepts
    concepts: int
    pages: int

    @property
    def verdict(self) -> Literal["better", "worse", "undecided"]:
        """Whether the training helped, or did harm."""
        bound = errors_by_chance(self.concepts, ALPHA) * self.error
        gain = self.trained - self.untrained if self.concepts >= FEWEST else 0.0
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
    count = len({str(page.fields["concept"]) for page in pages})
    if count < 2:
        return None
    with console.progress("searching for what was held out", 2 * len(pages), "pages") as advance:
        of_trained, of_untrained = (_precisions(pages, encoder, advance) for encoder in (trained, untrained))
    error = float((of_trained - of_untrained).std(ddof=1) / count**0.5)
    return Comparison(float(of_trained.mean()), float(of_untrained.mean()), error, count, len(pages))


def _precisions(pages: Sequence[Document], encoder: Encoder, advance: Progress) -> FloatArray:
    """(concepts,) mean average precision of a concept's pages, each of which asks the pages in other languages."""
    model = encoder.spec.model
    by_concept: dict[str, dict[str, str]] = defaultdict(dict)
    for page in pages:
        by_concept[str(page.fields["concept"])][page.lang] = page.doc_id
    langs = sorted({page.lang for page in pages})
    asking = [Document(page.doc_id, page.lang, page.title or first_sentence(page)) for page in pages]
    with tempfile.TemporaryDirectory() as folder, closing(EmbeddedStore(Path(folder), "unseen")) as store:
        store.create(model, encoder.spec.dim)
        for batch, encoded in encode_in_batches(encoder, pages, _BATCH, advance):
            store.put(model, [StoredDocument.of(page, encoded, row) for row, page in enumerate(batch)])
        questions = []
        for page, vector in zip(pages, encoder.encode_queries(asking), strict=True):
            concept, others = str(page.fields["concept"]), tuple(lang for lang in langs if lang != page.lang)
            answers = {by_concept[concept][lang] for lang in others if lang in by_concept[concept]}
            questions.append(Question(vector, page.lang, concept, answers, targets=others))
        calibration = fit_statistics(draw_samples(store, encoder), model)
        return Trial(store, model, questions, _DEPTH).values([calibration])[0].astype(np.float64)
