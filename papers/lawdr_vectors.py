"""Documents' vectors by LAWDR's algorithm 1: subspaces and densities are of the task's own sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from encoders.document import Document, Encoder, FloatArray, unit_rows
from encoders.methods.density import DensityWeights
from encoders.methods.moments import Moments
from papers.cached_encoder import SentenceVectors
from papers.lawdr_paper import Variant

SAMPLE = 20_000
"""Greatest number of sentences that the density of a language is estimated from."""
_BATCH = 64


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
    """The sentences of one language in a task.

    Attributes:
        moments: of all sentences.
        sample: of the sentences.
    """

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
    """Weighted sums of sentences' vectors: (documents, dim), and the sums of the weights, (documents,)."""

    vectors: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, documents: Sequence[FloatArray], dim: int, density: DensityWeights | None = None) -> Sums:
        """Sum each document's (sentences, dim) vectors, by the density's weights or by equal weights (eq. 3)."""
        vectors, totals = np.zeros((len(documents), dim), np.float32), np.zeros(len(documents), np.float32)
        for row, sentences in enumerate(documents):
            weights = density.weights(sentences) if density else np.ones(len(sentences), np.float32)
            vectors[row], totals[row] = weights @ sentences, weights.sum()
        return cls(vectors, totals)

    @classmethod
    def joined(cls, parts: Sequence[Sums], dim: int) -> Sums:
        """The sums of all parts."""
        return cls(
            np.concatenate([np.zeros((0, dim), np.float32), *(part.vectors for part in parts)]),
            np.concatenate([np.zeros(0, np.float32), *(part.weights for part in parts)]),
        )


@dataclass(frozen=True)
class Group:
    """Documents of one language."""

    lang: str
    read: Callable[[], Sequence[Document]]  # reads the documents; they are read twice and not kept
    name: Callable[[Document], str]  # a name of a document that its translations share


@dataclass(frozen=True)
class SummedGroup:
    """The documents of a group that have a sentence.

    Attributes:
        doc_ids: ids of the documents.
        names: names of the documents.
        mean, weighted: sums of their sentences with equal weights, and with the density's weights.
    """

    lang: str
    doc_ids: Sequence[str]
    names: Sequence[str]
    corpus: LanguageCorpus
    mean: Sums
    weighted: Sums

    def vectors(self, variant: Variant, rank: int) -> FloatArray:
        """(documents, dim) unit rows of a row of tables 3 and 4."""
        sums = self.weighted if variant.weighted else self.mean
        return unit_rows(self.corpus.without_language(sums, rank) if variant.debiased else sums.vectors)


def count_sentences(
    groups: Sequence[Group], sentences: SentenceVectors, dim: int, progress: Callable[[int], None], seed: int = 0
) -> dict[str, LanguageCorpus]:
    """The sentences of each language, over all of its groups.

    Args:
        groups: several may be of one language.
        sentences: makes the vectors.
        dim: width of the vectors.
        progress: called with numbers of encoded documents.
        seed: of the samples.
    """
    corpora: dict[str, LanguageCorpus] = {}
    for group in groups:
        corpus = corpora.setdefault(group.lang, LanguageCorpus(dim, seed))
        documents = iter(group.read())
        while batch := list(islice(documents, _BATCH)):
            for document, rows in zip(batch, sentences(batch), strict=True):
                corpus.add(group.name(document), rows)
            progress(len(batch))
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
        corpus, known_names, mean, weighted = corpora[group.lang], list[tuple[str, str]](), list[Sums](), list[Sums]()
        documents = iter(group.read())
        while batch := list(islice(documents, _BATCH)):
            vectors = sentences(batch)
            known = [rows for rows in vectors if len(rows)]
            known_names += [
                (document.doc_id, group.name(document))
                for document, rows in zip(batch, vectors, strict=True)
                if len(rows)
            ]
            mean.append(Sums.of(known, corpus.dim))
            weighted.append(Sums.of(known, corpus.dim, densities.get(group.lang)))
            progress(len(batch))
        sums = (Sums.joined(parts, corpus.dim) for parts in (mean, weighted))
        doc_ids, names = [doc_id for doc_id, _ in known_names], [name for _, name in known_names]
        summed.append(SummedGroup(group.lang, doc_ids, names, corpus, *sums))
    return summed
