"""Make a calibration: the languages' statistics from a sample of what is stored, and a bank of pseudo-queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, Int8Array, int8_rows, unit_rows
from encoders.moments import Float64Array, Moments
from encoders.segmentation import sentences
from indexer.stores.contract import VectorStore
from query.calibration import Calibration, LanguageStatistics

SAMPLE = 2000
"""Documents a language that its statistics are taken of, at most."""
BANK = 256
"""Pseudo-queries a language, at most."""
_LONGEST = 300
_BEGINNING = 2000
_FEW = 32


@dataclass
class Samples:
    """What a calibration is made from; kept while a probe tries several ways.

    Attributes:
        documents: moments of the documents' vectors, by language.
        passages: moments of passages' vectors, by language.
        queries: moments of the pseudo-queries' vectors, by language.
        bank: (n, dim) int8 pseudo-queries, by language.
        sources: (n,) the document each comes from, by language.
    """

    documents: dict[str, Moments] = field(default_factory=dict)
    passages: dict[str, Moments] = field(default_factory=dict)
    queries: dict[str, Moments] = field(default_factory=dict)
    bank: dict[str, Int8Array] = field(default_factory=dict)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def few(self) -> dict[str, int]:
        """Languages with few documents, and how many: their means are drawn towards the pooled one."""
        return {lang: one.count for lang, one in self.documents.items() if one.count < _FEW}


def draw(
    store: VectorStore,
    encoder: Encoder,
    *,
    log: Sequence[Document] = (),
    sample: int = SAMPLE,
    bank: int = BANK,
    seed: int = 0,
    console: Console | None = None,
) -> Samples:
    """Draw a bounded random sample of each language's vectors, and encode pseudo-queries.

    Args:
        store: holds the documents.
        encoder: encodes the pseudo-queries, as queries.
        log: queries that were really asked; a language's come before titles and first sentences.
        sample: documents a language at most.
        bank: pseudo-queries a language at most.
        seed: of the draw.
        console: where progress goes.
    """
    model = encoder.spec.model
    samples = Samples()
    pseudo: list[Document] = []
    for lang in store.count():
        doc_ids = store.sample(model, lang, sample, seed=seed)
        samples.documents[lang] = document_moments(store, model, encoder.spec.dim, doc_ids)
        passages = [one.unit_vectors() for one in store.passages(model, doc_ids[:bank])]
        samples.passages[lang] = Moments(encoder.spec.dim)
        samples.passages[lang].add(np.concatenate([np.zeros((0, encoder.spec.dim), np.float32), *passages]))
        asked = [Document("", lang, query.content) for query in log if query.lang == lang][:bank]
        pseudo += asked + _pseudo_queries(store.get(doc_ids[:bank]))[: bank - len(asked)]
    vectors = _encoded(encoder, pseudo, console or Console(quiet=True))
    known = np.any(vectors, axis=1).tolist()
    for lang in samples.documents:
        rows = [row for row, query in enumerate(pseudo) if query.lang == lang and known[row]]
        moments = samples.queries[lang] = Moments(encoder.spec.dim)
        moments.add(vectors[rows])
        samples.bank[lang] = int8_rows(vectors[rows])
        samples.sources[lang] = tuple(pseudo[row].doc_id for row in rows)
    return samples


def document_moments(store: VectorStore, model: str, dim: int, doc_ids: Sequence[str]) -> Moments:
    """Moments of some documents' vectors."""
    moments = Moments(dim)
    if doc_ids:
        moments.add(store.vectors(model, doc_ids))
    return moments


def _pseudo_queries(documents: Sequence[Document]) -> list[Document]:
    """A title from every other document, the first sentence of the text from the rest, each once."""
    found: dict[str, Document] = {}
    for number, document in enumerate(documents):
        beginning = document.text[:_BEGINNING]
        spans = sentences(beginning, document.lang)
        first = beginning[slice(*spans[0])][:_LONGEST] if spans else ""
        text = (document.title or first) if number % 2 == 0 else (first or document.title)
        if text.strip() and text not in found:
            found[text] = Document(document.doc_id, document.lang, text)
    return list(found.values())


def _encoded(encoder: Encoder, queries: Sequence[Document], console: Console) -> FloatArray:
    vectors = [np.zeros((0, encoder.spec.dim), dtype=np.float32)]
    with console.progress("pseudo-queries", len(queries), "queries") as advance:
        for start in range(0, len(queries), 64):
            some = queries[start : start + 64]
            vectors.append(encoder.encode_queries(some))
            advance(len(some))
    return np.concatenate(vectors)


def calibration(samples: Samples, model: str, *, rank: int = 0) -> Calibration:
    """The calibration that takes out each language's mean, or ``rank`` directions of its subspace (LAWDR §3.2)."""
    means, pooled = shrunk(samples.documents)
    passage_means, pooled_passage = shrunk(samples.passages)
    query_means, pooled_query = shrunk(samples.queries)
    languages = {
        lang: LanguageStatistics(
            documents=moments.count,
            mean=means[lang],
            passage_mean=passage_means[lang],
            query_mean=query_means[lang],
            subspace=subspace(moments, rank, pooled),
            passage_subspace=subspace(samples.passages[lang], rank, pooled_passage),
            query_subspace=subspace(samples.queries[lang], rank, pooled_query),
            bank=samples.bank[lang],
            sources=samples.sources[lang],
        )
        for lang, moments in samples.documents.items()
    }
    return Calibration(model, languages, pooled, pooled_passage, pooled_query, rank=rank)


def shrunk(moments: Mapping[str, Moments]) -> tuple[dict[str, FloatArray], FloatArray]:
    """Each language's mean, drawn towards the mean over languages as far as its few vectors make it uncertain.

    The empirical Bayes estimate: n vectors count n, the pooled mean as many as the spread within languages is larger
    than the spread between them.
    """
    seen = [one for one in moments.values() if one.count]
    if not seen:
        dim = next(iter(moments.values())).dim
        return {lang: np.zeros(dim, np.float32) for lang in moments}, np.zeros(dim, np.float32)
    weights = np.array([one.count for one in seen], dtype=np.float64)
    means = np.stack([one.mean for one in seen])
    trust = weights / (weights + _FEW)
    pooled: Float64Array = (trust[:, None] * means).sum(axis=0) / trust.sum()
    within = float((weights * [one.spread for one in seen]).sum() / weights.sum())
    between = float((trust * ((means - pooled) ** 2).sum(axis=1)).sum() / trust.sum())
    prior = within / between if between > 0 else np.inf
    shrunk = {
        lang: (pooled + (one.count / (one.count + prior)) * (one.mean - pooled)).astype(np.float32)
        for lang, one in moments.items()
    }
    return shrunk, pooled.astype(np.float32)


def subspace(moments: Moments, rank: int, pooled: FloatArray) -> FloatArray:
    """As many directions as asked for; a language with fewer vectors than that gets the pooled mean's alone."""
    if not rank:
        return np.zeros((0, moments.dim), dtype=np.float32)
    if moments.count > rank:
        return moments.subspace(rank)
    return unit_rows(pooled[None]) if pooled.any() else np.zeros((0, moments.dim), dtype=np.float32)
