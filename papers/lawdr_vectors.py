"""Documents' vectors by LAWDR's algorithm 1: subspaces and densities are of the task's own sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from encoders.document import Document, Encoder, FloatArray, unit_rows
from encoders.methods.density import DensityWeights
from encoders.methods.moments import Moments
from papers.cached_encoder import SentenceVectors

SAMPLE = 20_000
"""Greatest number of sentences that the density of a language is estimated from."""
_BATCH = 64


@dataclass(frozen=True)
class Variant:
    """A row of tables 3 and 4."""

    debiased: bool
    weighted: bool
    margin: bool

    @property
    def name(self) -> str:
        """Name of the variant."""
        bias, weights = ("debiased" if self.debiased else "biased"), ("weighted" if self.weighted else "mean")
        return f"{bias}, {weights}, {'margin' if self.margin else 'cosine'}"


_BOTH = (False, True)
VARIANTS = tuple(Variant(debiased, weighted, margin) for debiased in _BOTH for weighted in _BOTH for margin in _BOTH)
"""The rows in the order of tables 3 and 4."""


def unit_sentences(encoder: Encoder) -> SentenceVectors:
    """The sentences' unit vectors, by an encoder whose passages are sentences."""

    def vectors(documents: Sequence[Document]) -> list[FloatArray]:
        encoded = encoder.encode_documents(documents)
        return [passages.without_title().unit_vectors() for passages in encoded.passages]

    return vectors


@dataclass
class VectorSample:
    """A uniform random sample of at most ``size`` sentences, each with the name of its document."""

    size: int
    seed: int = 0
    _rows: list[tuple[float, str, FloatArray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin to draw."""
        self._random = np.random.default_rng(self.seed)

    def add(self, name: str, vectors: FloatArray) -> None:
        """Draw from a document's sentences."""
        draws = self._random.random(len(vectors)).tolist()
        self._rows += [(draw, name, row) for draw, row in zip(draws, vectors, strict=True)]
        if len(self._rows) > 2 * self.size:
            self._shorten()

    def _shorten(self) -> None:
        self._rows = sorted(self._rows, key=lambda row: row[0])[: self.size]

    def drawn(self, dim: int) -> tuple[FloatArray, list[str]]:
        """(sentences, dim) vectors in random order, and the names of their documents."""
        self._shorten()
        rows = [row for _, _, row in self._rows]
        return np.array(rows, np.float32).reshape(-1, dim), [name for _, name, _ in self._rows]


class LanguageCorpus:
    """The sentences of one language in a task: their moments, and a sample of them."""

    def __init__(self, dim: int, seed: int = 0) -> None:
        """Make an empty corpus of vectors of this width."""
        self.dim, self._seed = dim, seed
        self.moments = Moments(dim)
        self.sample = VectorSample(SAMPLE, seed)

    def add(self, name: str, vectors: FloatArray) -> None:
        """Add a document's sentences; ``name`` is the same for translations of one document."""
        self.moments.add(vectors)
        self.sample.add(name, vectors)

    def density(self) -> DensityWeights:
        """The density of the sentences, estimated from the sample (section 4.1)."""
        return DensityWeights.fit(self.sample.drawn(self.dim)[0], self._seed)

    def without_language(self, sums: Sums, rank: int) -> FloatArray:
        """(documents, dim) sums of debiased sentences: w (v − UUᵀv) is linear in v (section 3.2).

        U is the language's subspace of this rank; with rank 0 each sentence loses the mean of the sentences.
        """
        if not rank:
            return np.asarray(sums.vectors - sums.weights[:, None] * self.moments.mean, np.float32)
        subspace = self.moments.subspace(rank)
        return np.asarray(sums.vectors - sums.vectors @ subspace.T @ subspace, np.float32)


@dataclass(frozen=True)
class Sums:
    """Weighted sums of the sentences' vectors of each document, and the sums of the weights."""

    vectors: FloatArray  # (documents, dim)
    weights: FloatArray  # (documents,)

    @classmethod
    def of(cls, sums: Sequence[tuple[FloatArray, float]], dim: int) -> Sums:
        """The sums of documents, from that of each."""
        vectors = np.array([vector for vector, _ in sums], np.float32).reshape(-1, dim)
        return cls(vectors, np.array([weight for _, weight in sums], np.float32))


def _sum(sentences: FloatArray, density: DensityWeights | None = None) -> tuple[FloatArray, float]:
    """Sum a document's (sentences, dim) vectors by the density's weights or by equal weights (eq. 3)."""
    weights = density.weights(sentences) if density else np.ones(len(sentences), np.float32)
    return weights @ sentences, float(weights.sum())


@dataclass(frozen=True)
class Group:
    """Documents of one language."""

    lang: str
    read: Callable[[], Sequence[Document]]  # reads the documents; they are read twice and not kept
    name: Callable[[Document], str]  # a name of a document that its translations share


@dataclass(frozen=True)
class SummedGroup:
    """The documents of a group that have a sentence."""

    lang: str
    doc_ids: Sequence[str]
    names: Sequence[str]
    corpus: LanguageCorpus
    mean: Sums  # with equal weights
    weighted: Sums  # with the density's weights

    def vectors(self, variant: Variant, rank: int) -> FloatArray:
        """(documents, dim) unit rows of a row of tables 3 and 4."""
        sums = self.weighted if variant.weighted else self.mean
        return unit_rows(self.corpus.without_language(sums, rank) if variant.debiased else sums.vectors)


def _sentences(
    group: Group, sentences: SentenceVectors, progress: Callable[[int], None]
) -> Iterator[tuple[Document, FloatArray]]:
    """Each document of a group with its sentences' vectors; ``progress`` gets numbers of encoded documents."""
    documents = iter(group.read())
    while batch := list(islice(documents, _BATCH)):
        yield from zip(batch, sentences(batch), strict=True)
        progress(len(batch))


def count_sentences(
    groups: Sequence[Group], sentences: SentenceVectors, dim: int, progress: Callable[[int], None], seed: int = 0
) -> dict[str, LanguageCorpus]:
    """The sentences of each language, over all of its groups; ``seed`` draws the samples."""
    corpora: dict[str, LanguageCorpus] = {}
    for group in groups:
        corpus = corpora.setdefault(group.lang, LanguageCorpus(dim, seed))
        for document, rows in _sentences(group, sentences, progress):
            corpus.add(group.name(document), rows)
    return corpora


def sum_sentences(
    groups: Sequence[Group],
    corpora: Mapping[str, LanguageCorpus],
    sentences: SentenceVectors,
    progress: Callable[[int], None],
) -> list[SummedGroup]:
    """Sum the sentences of each document; the density of a language is that of its own corpus."""
    densities = {lang: corpus.density() for lang, corpus in corpora.items() if corpus.moments.count}
    summed = []
    for group in groups:
        corpus, density = corpora[group.lang], densities.get(group.lang)
        doc_ids, names, mean, weighted = [], [], [], []
        for document, rows in _sentences(group, sentences, progress):
            if len(rows):
                doc_ids.append(document.doc_id)
                names.append(group.name(document))
                mean.append(_sum(rows))
                weighted.append(_sum(rows, density))
        sums = (Sums.of(of_documents, corpus.dim) for of_documents in (mean, weighted))
        summed.append(SummedGroup(group.lang, doc_ids, names, corpus, *sums))
    return summed
