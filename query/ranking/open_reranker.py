"""Open a reranker for a collection, with its language effects: fitted once for a calibration, and kept with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from encoders.console import Console
from encoders.devices import Device
from encoders.document import Document
from encoders.errors import BadInput, StoreError
from encoders.text.segmentation import sentences
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.contract import read_existing
from onnx_export.models import open_reranker
from query.calibration import table as calibration_table
from query.ranking.hit_reranker import HitReranker
from query.ranking.hits import RERANKED
from query.ranking.language_effects import LanguageEffects, Pool
from query.ranking.search_choice import SearchChoice

if TYPE_CHECKING:
    from query.ranking.searcher import Searcher

QUERIES = 64
"""Pseudo-queries, over all languages, to whose hits the language effects are fitted."""
_BEGINNING = 2000
_LONGEST = 300


def open_hit_reranker(
    searcher: Searcher, reference: str, settings: Settings, console: Console, device: Device = "auto"
) -> HitReranker:
    """Open a reranker for a searcher's collection, by its folder or its name in the cache.

    Its language effects are read from the calibration, or fitted and kept there; without a calibration, or in a
    collection of one language, there are none.

    Raises:
        BadInput: there is no such reranker.
        MissingPart: the requested device is missing.
    """
    reranker = HitReranker(open_reranker(reference, console, device))
    if searcher.calibration is not None and len(searcher.languages) > 1:
        reranker.effects = _effects(replace(searcher, weights=()), reranker, settings, console)
    return reranker


def _effects(searcher: Searcher, reranker: HitReranker, settings: Settings, console: Console) -> LanguageEffects | None:
    """The effects that are kept with the searcher's calibration; if there are none, they are fitted and kept now.

    None if no pseudo-query finds a document.
    """
    name, calibration_id = searcher.collection, searcher.calibration.id if searcher.calibration else ""
    with open_database(settings.database) as engine:
        stored = calibration_table.reranker_effects(engine, name, calibration_id, reranker.build)
        if stored is not None:
            return LanguageEffects(**stored)
        effects = fit_effects(searcher, reranker, console)
        if effects is None:
            console.warn(f"no pseudo-query finds a document, so languages that {reranker.name} favours stay favoured")
            return None
        why_not = "the calibration itself is not stored"
        try:
            kept = calibration_table.keep_reranker_effects(
                engine, name, calibration_id, reranker.build, effects.as_json()
            )
        except StoreError as error:  # a search needs no right to write
            kept, why_not = False, str(error)
        if not kept:
            console.warn(f"how much {reranker.name} favours each language is learnt at each start: {why_not}")
        return effects


def fit_effects(searcher: Searcher, reranker: HitReranker, console: Console) -> LanguageEffects | None:
    """Fit the effects to the hits of pseudo-queries, each without its own document, as the calibration ranks them.

    None if no pseudo-query finds a document.
    """
    queries = pseudo_queries(searcher)
    pools: list[Pool] = []
    console.say(f"learning which languages {reranker.name} favours, this once")
    with console.progress("reranking", len(queries), "pseudo-queries") as advance:
        for query in queries:
            pools += _pool(searcher, reranker, query)
            advance(1)
    return LanguageEffects.fitted(pools) if pools else None


def _pool(searcher: Searcher, reranker: HitReranker, query: Document) -> Iterator[Pool]:
    """The pool of a pseudo-query; none if the encoder knows no word of it, or nothing else is found."""
    choice = SearchChoice.of(searcher.calibration) if searcher.calibration else searcher.choice
    try:
        found = searcher.search(query.text, lang=query.lang, k=RERANKED + 1, choice=choice)
    except BadInput:
        return
    hits = [hit for hit in found if hit.doc_id != query.doc_id][:RERANKED]
    if hits:
        fair = np.array([hit.score for hit in hits], dtype=np.float32)
        yield Pool(query.lang, [hit.lang for hit in hits], fair, reranker.scores(query, hits, 0.0))


def pseudo_queries(searcher: Searcher) -> list[Document]:
    """About ``QUERIES`` titles, or first sentences without a title, of documents of the calibration's bank."""
    if searcher.calibration is None:
        return []
    by_language = searcher.calibration.languages
    each = -(-QUERIES // max(1, len(by_language)))
    queries: list[Document] = []
    for lang, statistics in by_language.items():
        sources = list(dict.fromkeys(source for source in statistics.sources if source))[: 2 * each]
        documents = read_existing(searcher.store.get, sources).values()
        texts = ((document.doc_id, _short_text(document)) for document in documents)
        queries += [Document(doc_id, lang, text) for doc_id, text in texts if text.strip()][:each]
    return queries


def _short_text(document: Document) -> str:
    """A document's title, or its first sentence without a title."""
    if document.title:
        return document.title
    beginning = document.text[:_BEGINNING]
    return next((beginning[start:end][:_LONGEST] for start, end in sentences(beginning, document.lang)), "")
