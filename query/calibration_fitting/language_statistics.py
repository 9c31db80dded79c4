"""Fit a calibration: the languages' statistics from a sample of stored vectors, and a bank of pseudo-queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from encoders.console import QUIET, Console
from encoders.document import Document, Encoder, EncoderSpec, Float64Array, FloatArray, Int8Array, int8_rows
from encoders.methods.moments import PartMoments
from encoders.methods.vector_parts import VectorParts
from encoders.text.segmentation import first_sentence
from indexer.stores.contract import VectorStore, read_existing
from query.calibration.calibration import Calibration, LanguageStatistics, VectorKind, no_sample
from query.calibration_fitting.document_samples import draw_each

SAMPLE = 2000
"""Maximum documents of each language in its statistics."""
BANK = 256
"""Maximum pseudo-queries of each language."""
_SAMPLED, _OUT_OF = 512, 20
"""Maximum documents of a language in the sample, and of how many each is drawn; the nearest is about the twentieth
best. Forty candidates hold 99.9 to 100 % of the ten best, with always 512 99.5 to 99.8 (docs/decisions/0006)."""
_BATCH = 64
_FULL = 32
"""Number of vectors with which a language has half of its full weight in the pooled mean."""


class PseudoQuery(NamedTuple):
    """A pseudo-query by its language, its row in the bank, and the id of its document."""

    lang: str
    row: int
    doc_id: str


@dataclass
class CalibrationSamples:
    """The samples that a calibration is fitted to, by language."""

    documents: dict[str, PartMoments] = field(default_factory=dict)
    passages: dict[str, PartMoments] = field(default_factory=dict)
    queries: dict[str, PartMoments] = field(default_factory=dict)  # moments of the pseudo-queries' vectors
    sample: dict[str, Int8Array] = field(default_factory=dict)  # (m, dim) int8 vectors of documents
    bank: dict[str, Int8Array] = field(default_factory=dict)  # (n, dim) int8 pseudo-queries
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)  # (n,) ids of documents; empty: a logged query

    def draw(self, count: int, seed: int, langs: Sequence[str]) -> list[PseudoQuery]:
        """Draw about ``count`` pseudo-queries of documents, equally many of each language if it has so many."""
        random, each = np.random.default_rng(seed), -(-count // max(len(langs), 1))
        drawn: list[PseudoQuery] = []
        for lang in langs:
            sources = self.sources.get(lang, ())
            queries = [PseudoQuery(lang, row, doc_id) for row, doc_id in enumerate(sources) if doc_id]
            drawn += [queries[number] for number in sorted(random.permutation(len(queries))[:each])]
        return drawn


def draw_samples(
    store: VectorStore,
    encoder: Encoder,
    *,
    document_spec: EncoderSpec | None = None,
    logged_queries: Sequence[Document] = (),
    encoded_queries: Mapping[str, FloatArray] | None = None,
    seed: int = 0,
    console: Console = QUIET,
) -> CalibrationSamples:
    """Draw a bounded random sample of each language's vectors, and encode pseudo-queries.

    ``document_spec`` is the spec of the documents' encoder if that is another. Logged queries, drawn at random, fill
    half of a language's bank, and more if titles and first sentences do not fill the rest; these alone decide about
    mates. ``encoded_queries`` are logged queries, by language, (n, dim); they come first.
    """
    spec = document_spec or encoder.spec
    model, parts, samples = spec.model, VectorParts.of(spec), CalibrationSamples()
    nothing = np.zeros((0, encoder.spec.dim), dtype=np.float32)
    encoded: dict[str, FloatArray] = {}
    pseudo: list[Document] = []
    counts = store.count(model)
    for lang, doc_ids in draw_each(store, model, SAMPLE, seed=seed).items():
        stored = list(read_existing(partial(store.vectors, model), doc_ids).values())
        samples.documents[lang] = _moments(parts, [row[None] for row in stored])
        size = min(_SAMPLED, max(1, max(len(stored), counts.get(lang, 0)) // _OUT_OF))
        samples.sample[lang] = int8_rows(np.array(stored[:size], dtype=np.float32).reshape(-1, spec.dim))
        passages = read_existing(partial(store.passages, model), doc_ids[:BANK]).values()
        samples.passages[lang] = _moments(parts, [rows.without_title().unit_vectors() for rows in passages])
        of_documents = pseudo_queries(list(read_existing(store.get, doc_ids[:BANK]).values()))
        limit = max(BANK // 2, BANK - len(of_documents))
        encoded[lang] = (encoded_queries or {}).get(lang, nothing)[:limit]
        logged = [Document("", lang, query.content) for query in logged_queries if query.lang == lang]
        order = np.random.default_rng(seed).permutation(len(logged))[: limit - len(encoded[lang])]
        pseudo += [*(logged[row] for row in sorted(order)), *of_documents][: BANK - len(encoded[lang])]
    if unused := sorted({query.lang for query in logged_queries} - encoded.keys()):
        console.warn(f"queries in {', '.join(unused)} are not used: the collection has no documents in their language")
    with console.progress("calibrating", len(pseudo), "queries") as advance:
        batches = [nothing]
        for start in range(0, len(pseudo), _BATCH):
            batches.append(encoder.encode_queries(pseudo[start : start + _BATCH]))
            advance(len(batches[-1]))
    vectors = np.concatenate(batches)
    for lang, first in encoded.items():
        rows = [row for row, query in enumerate(pseudo) if query.lang == lang and vectors[row].any()]
        queries = np.concatenate([first, vectors[rows]])
        samples.queries[lang] = _moments(VectorParts.of(encoder.spec), [queries])
        samples.bank[lang] = int8_rows(queries)
        samples.sources[lang] = ("",) * len(first) + tuple(pseudo[row].doc_id for row in rows)
    return samples


def document_moments(store: VectorStore, model: str, parts: VectorParts, doc_ids: Sequence[str]) -> PartMoments:
    """Moments of the vectors of the documents that are still stored."""
    return _moments(parts, [row[None] for row in read_existing(partial(store.vectors, model), doc_ids).values()])


def _moments(parts: VectorParts, blocks: Sequence[FloatArray]) -> PartMoments:
    moments = PartMoments(parts)
    moments.add(np.concatenate([np.zeros((0, sum(parts.widths)), dtype=np.float32), *blocks]))
    return moments


def pseudo_queries(documents: Sequence[Document]) -> list[Document]:
    """Pseudo-queries: the title of every other document, the first sentence of the rest; each text once."""
    queries: dict[str, Document] = {}
    for number, document in enumerate(documents):
        first = first_sentence(document)
        text = (document.title or first) if number % 2 == 0 else (first or document.title)
        if text.strip() and text not in queries:
            queries[text] = Document(document.doc_id, document.lang, text)
    return list(queries.values())


def fit_statistics(samples: CalibrationSamples, model: str) -> Calibration:
    """The calibration that takes out each language's mean, with plain cosines of what is left."""
    parts = next(iter(samples.documents.values())).parts
    documents = ShrunkMeans(samples.documents)
    shrunk: dict[VectorKind, ShrunkMeans] = {
        "document": documents,
        "passage": ShrunkMeans(samples.passages, like=documents),
        "query": ShrunkMeans(samples.queries),
    }
    languages = {
        lang: LanguageStatistics(
            moments.count,
            {kind: of_kind.means[lang] for kind, of_kind in shrunk.items()},
            samples.bank[lang],
            samples.sources[lang],
            samples.sample.get(lang, no_sample()),
        )
        for lang, moments in samples.documents.items()
    }
    return Calibration(model, languages, {kind: of_kind.pooled for kind, of_kind in shrunk.items()}, parts)


class ShrunkMeans:
    """Languages' means, each shrunk towards that of all languages, part by part; fewer vectors shrink more.

    It is the empirical Bayes estimate: a language's mean has the weight n of its n vectors, the pooled mean the
    variance within languages over the variance between their means. Both are unbiased: the scatter within has degrees
    of freedom, the scatter between loses what few vectors cause. Without an estimate the pooled mean stands.
    """

    def __init__(self, moments: Mapping[str, PartMoments], like: "ShrunkMeans | None" = None) -> None:
        """Shrink the moments of each language, one at least; a count may be 0.

        The trust is that of ``like`` for passages: many passages of few documents say no more than the documents do.
        """
        languages = list(moments.values())
        parts = languages[0].parts
        counts = np.stack([language.counts for language in languages])
        spreads = np.stack([language.spreads for language in languages])
        means = np.stack([language.mean for language in languages])
        weights = counts / (counts + _FULL)
        weights /= np.maximum(weights.sum(axis=0), 1e-12)
        pooled = (np.repeat(weights, parts.widths, axis=1) * means).sum(axis=0)
        distances = np.add.reduceat((means - pooled) ** 2, [columns.start for columns in parts.slices], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            within = (counts * spreads).sum(axis=0) / np.maximum(counts - 1, 0).sum(axis=0)
            by_chance = within * (weights * (1 - weights) / np.maximum(counts, 1)).sum(axis=0)
            between = ((weights * distances).sum(axis=0) - by_chance) / (1 - (weights**2).sum(axis=0))
            own = counts / (counts + within / between)
        self.trust: Float64Array = np.where(counts > 0, like.trust if like else np.where(between > 0, own, 0), 0)
        shrunk = pooled + np.repeat(self.trust, parts.widths, axis=1) * (means - pooled)
        self.means: dict[str, FloatArray] = dict(zip(moments, shrunk.astype(np.float32), strict=True))
        self.pooled: FloatArray = pooled.astype(np.float32)  # (dim,) as each language's mean is
