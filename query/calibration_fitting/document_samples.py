"""Bounded random samples of a collection's documents, by language."""

from collections.abc import Mapping

from indexer.stores.contract import VectorStore


def draw_each(store: VectorStore, model: str, count: int, *, seed: int = 0) -> dict[str, list[str]]:
    """Ids of up to ``count`` documents of each language that have vectors of a model."""
    return {lang: store.sample(model, lang, count, seed=seed) for lang in store.count()}


def draw(store: VectorStore, model: str, count: int, *, seed: int = 0) -> dict[str, list[str]]:
    """Ids of ``count`` documents with vectors of a model, by language; at least one of each language."""
    return {
        lang: store.sample(model, lang, share, seed=seed) for lang, share in shares(store.count(model), count).items()
    }


def shares(documents: Mapping[str, int], count: int) -> dict[str, int]:
    """Numbers of documents to draw, ``count`` in all: equal, at least one; what small languages lack, larger supply."""
    numbers, remaining = dict(documents), count
    for done, lang in enumerate(sorted(documents, key=lambda code: (documents[code], code))):
        numbers[lang] = min(documents[lang], max(1, remaining // (len(documents) - done)))
        remaining -= numbers[lang]
    return numbers
