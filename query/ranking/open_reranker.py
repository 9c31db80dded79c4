"""Open a reranker for a collection, with its language effects: fitted once for a calibration, and kept with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput, StoreError
from encoders.reranker import Reranker
from encoders.text.segmentation import first_sentence
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.contract import VectorStore, read_existing
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.ranking.hit_reranker import HitReranker
from query.ranking.hits import RERANKED, Hit
from query.ranking.language_effects import LanguageEffects, Pool

Search = Callable[[Document, int], Sequence[Hit]]
"""Finds the k best hits for a query, as the calibration itself ranks them."""
QUERIES = 64
"""Pseudo-queries, over all languages, to whose hits the language effects are fitted."""


def open_hit_reranker(
    reranker: Reranker,
    collection: str,
    calibration: Calibration,
    store: VectorStore,
    search: Search,
    settings: Settings,
    console: Console,
) -> HitReranker:
    """A reranker for a calibrated collection.

    Its language effects are read from the calibration, or fitted to the hits of ``search`` and kept there.
    """
    hit_reranker = HitReranker(reranker)
    with open_database(settings.database) as engine:
        stored = calibration_table.reranker_effects(engine, collection, calibration.id, hit_reranker.build)
        if stored is not None:
            hit_reranker.effects = LanguageEffects(**stored)
            return hit_reranker
        effects = fit_effects(titles_of_bank(calibration, store), search, hit_reranker, console)
        if effects is None:
            console.warn(
                f"no pseudo-query finds a document, so languages that {hit_reranker.name} favours stay favoured"
            )
            return hit_reranker
        hit_reranker.effects = effects
        reason = "the calibration itself is not stored"
        try:
            is_stored = calibration_table.keep_reranker_effects(
                engine, collection, calibration.id, hit_reranker.build, effects.as_json()
            )
        except StoreError as error:  # a search needs no right to write
            is_stored, reason = False, str(error)
        if not is_stored:
            console.warn(f"how much {hit_reranker.name} favours each language is learnt at each start: {reason}")
        return hit_reranker


def fit_effects(
    queries: Sequence[Document], search: Search, reranker: HitReranker, console: Console
) -> LanguageEffects | None:
    """Fit the effects to the hits of pseudo-queries, each without its own document.

    None if no pseudo-query finds a document.
    """
    pools: list[Pool] = []
    console.say(f"learning which languages {reranker.name} favours, this once")
    with console.progress("reranking", len(queries), "pseudo-queries") as advance:
        for query in queries:
            pools += _pool(query, search, reranker)
            advance(1)
    return LanguageEffects.fitted(pools) if pools else None


def _pool(query: Document, search: Search, reranker: HitReranker) -> Iterator[Pool]:
    """The pool of a pseudo-query; none if the encoder knows no word of it, or nothing else is found."""
    try:
        nearest = search(query, RERANKED + 1)
    except BadInput:
        return
    hits = [hit for hit in nearest if hit.doc_id != query.doc_id][:RERANKED]
    if hits:
        fair = np.array([hit.score for hit in hits], dtype=np.float32)
        yield Pool(query.lang, [hit.lang for hit in hits], fair, reranker.scores(query, hits, 0.0))


def titles_of_bank(calibration: Calibration, store: VectorStore) -> list[Document]:
    """About ``QUERIES`` titles, or first sentences without a title, of documents of the calibration's bank."""
    by_language = calibration.languages
    each = -(-QUERIES // max(1, len(by_language)))
    queries: list[Document] = []
    for lang, statistics in by_language.items():
        sources = list(dict.fromkeys(source for source in statistics.sources if source))[: 2 * each]
        documents = read_existing(store.get, sources).values()
        texts = ((document.doc_id, document.title or first_sentence(document)) for document in documents)
        queries += [Document(doc_id, lang, text) for doc_id, text in texts if text.strip()][:each]
    return queries
