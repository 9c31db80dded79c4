"""A bounded random sample of a collection's documents, as evenly over its languages as there are documents."""

from __future__ import annotations

from collections.abc import Mapping

from indexer.stores.contract import VectorStore


def drawn(store: VectorStore, model: str, count: int, *, seed: int = 0) -> dict[str, list[str]]:
    """Ids of documents with vectors of a model, by language, ``count`` in all; one a language at least."""
    return {
        lang: store.sample(model, lang, share, seed=seed) for lang, share in shares(store.count(model), count).items()
    }


def shares(documents: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of each language make ``count`` in all: as many of each, and what small ones leave goes to the others.

    Args:
        documents: that there are, by language.
        count: that are wanted; each language gives one at least.
    """
    found, left = dict(documents), count
    for done, lang in enumerate(sorted(documents, key=lambda one: (documents[one], one))):
        found[lang] = min(documents[lang], max(1, left // (len(documents) - done)))
        left -= found[lang]
    return found
