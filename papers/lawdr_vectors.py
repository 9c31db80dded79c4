"""Documents' vectors by LAWDR's algorithm 1: subspaces and densities are of the task's own sentences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, unit_rows
from encoders.methods.density import DensityWeights
from encoders.methods.moments import Moments
from papers.cached_encoder import SentenceVectors

SAMPLE = 20_000
"""Greatest number of sentences that the density of a language is estimated from."""
_BATCH = 64
_BOTH = (False, True)


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


VARIANTS = tuple(Variant(debiased, weighted, margin) for debiased in _BOTH for weighted in _BOTH for margin in _BOTH)
"""The rows in the order of tables 3 and 4."""


def unit_sentences(encoder: Encoder) -> SentenceVectors:
    """The sentences' unit vectors, by an encoder whose passages are sentences."""

    def vectors(documents: Sequence[Document]) -> list[FloatArray]:
        encoded = encoder.encode_documents(documents)
        return [passages.without_title().unit_vectors() for passages in encoded.passages]

    return vectors


class LanguageCorpus:
    """The sentences of one language in a task: their moments, and a uniform random sample of at most ``size``."""

    def __init__(self, dim: int, size: int = SAMPLE, seed: int = 0) -> None:
        """Make an empty corpus of vectors of this width."""
        self.moments = Moments(dim)
        self._size, self._seed, self._random = size, seed, np.random.default_rng(seed)
        self._rows: list[tuple[float, str, FloatArray]] = []

    def add(self, name: str, vectors: FloatArray) -> None:
        """Add a document's sentences; ``name`` is the same for translations of one document."""
        self.moments.add(vectors)
        draws = self._random.random(len(vectors)).tolist()
        self._rows += [(draw, name, row) for draw, row in zip(draws, vectors, strict=True)]
        if len(self._rows) > 2 * self._size:
            self._shorten()

    def _shorten(self) -> None:
        self._rows = sorted(self._rows, key=lambda row: row[0])[: self._size]

    def sample(self) -> tuple[FloatArray, list[str]]:
        """(sentences, dim) vectors in random order, and the names of their documents."""
        self._shorten()
        rows = np.array([row for _, _, row in self._rows], np.float32).reshape(-1, self.moments.dim)
        return rows, [name for _, name, _ in self._rows]

    def density(self) -> DensityWeights:
        """The density of the sentences, estimated from the sample (section 4.1)."""
        return DensityWeights.fit(self.sample()[0], self._seed)


@dataclass(frozen=True)
class Group:
    """Documents of one language."""

    lang: str
    read: Callable[[], Sequence[Document]]  # reads the documents; they are read twice and not kept
    name: Callable[[Document], str]  # a name of a document that its translations share


@dataclass(frozen=True)
class SummedGroup:
    """The documents of a group that have a sentence; weights are equal (False) or the density's (True)."""

    doc_ids: Sequence[str]
    names: Sequence[str]
    corpus: LanguageCorpus
    sums: Sequence[FloatArray]  # (documents, dim) weighted sums of the sentences' vectors (eq. 3)
    weights: Sequence[FloatArray]  # (documents,) sums of the weights

    def vectors(self, variant: Variant, rank: int) -> FloatArray:
        """(documents, dim) unit rows of a row of tables 3 and 4: w (v − UUᵀv) is linear in v (section 3.2).

        U is the language's subspace of this rank; with rank 0 each sentence loses the mean of the sentences.
        """
        sums, moments = self.sums[variant.weighted], self.corpus.moments
        if not variant.debiased:
            return unit_rows(sums)
        if rank:
            subspace = moments.subspace(rank)
            return unit_rows(np.asarray(sums - sums @ subspace.T @ subspace, np.float32))
        return unit_rows(np.asarray(sums - self.weights[variant.weighted][:, None] * moments.mean, np.float32))


def sum_sentences(
    task: str, groups: Sequence[Group], sentences: SentenceVectors, dim: int, console: Console
) -> tuple[Mapping[str, LanguageCorpus], list[SummedGroup]]:
    """The sentences of each language over all of its groups, and the sums of each document's sentences."""
    corpora = {group.lang: LanguageCorpus(dim) for group in groups}
    with console.progress(f"encoding {task}", None, "documents") as progress:
        for group in groups:
            for document, rows in _sentences(group, sentences, progress):
                corpora[group.lang].add(group.name(document), rows)
    densities = {lang: corpus.density() for lang, corpus in corpora.items() if corpus.moments.count}
    with console.progress(f"weighting {task}", None, "documents") as progress:
        return corpora, [
            _summed(group, corpora[group.lang], densities.get(group.lang), _sentences(group, sentences, progress))
            for group in groups
        ]


def _summed(
    group: Group,
    corpus: LanguageCorpus,
    density: DensityWeights | None,
    documents: Iterator[tuple[Document, FloatArray]],
) -> SummedGroup:
    doc_ids, names = [], []
    sums: tuple[list[FloatArray], ...] = ([], [])
    totals: tuple[list[float], ...] = ([], [])
    for document, rows in documents:
        if len(rows):
            doc_ids.append(document.doc_id)
            names.append(group.name(document))
            for is_weighted in _BOTH:
                weights = density.weights(rows) if density and is_weighted else np.ones(len(rows), np.float32)
                sums[is_weighted].append(weights @ rows)
                totals[is_weighted].append(float(weights.sum()))
    vectors = [np.array(side, np.float32).reshape(-1, corpus.moments.dim) for side in sums]
    return SummedGroup(doc_ids, names, corpus, vectors, [np.array(side, np.float32) for side in totals])


def _sentences(
    group: Group, sentences: SentenceVectors, progress: Callable[[int], None]
) -> Iterator[tuple[Document, FloatArray]]:
    """Each document of a group with its sentences' vectors; ``progress`` gets numbers of encoded documents."""
    documents = iter(group.read())
    while batch := list(islice(documents, _BATCH)):
        yield from zip(batch, sentences(batch), strict=True)
        progress(len(batch))
