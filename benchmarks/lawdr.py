"""The parts of LAWDR, measured by mates in four languages: mean of sentences, density weights, language subspaces."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from benchmarks import harness
from encoders.console import Console
from encoders.document import Document, FloatArray, unit_rows
from encoders.methods.density import DensityWeights
from encoders.methods.moments import Moments
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from onnx_export.models import DEFAULT, find_model

LANGUAGES = ("en", "de", "ru", "ja")


def documents(count: int, seed: int) -> list[Document]:
    """Help pages of the same concepts in each language: language after language, with concepts in the same order."""
    pages: dict[str, dict[str, Document]] = {}
    for lang in LANGUAGES:
        of_lang = harness.documents(harness.read("lohelp", lang), lang)
        pages[lang] = {str(page.fields["concept"]): page for page in of_lang}
    shared = sorted(set.intersection(*(set(by_concept) for by_concept in pages.values())))
    chosen = np.random.default_rng(seed).permutation(shared)[:count]
    return [pages[lang][concept] for lang in LANGUAGES for concept in chosen]


def encode(pages: Sequence[Document]) -> list[FloatArray]:
    """Each page's sentences, (sentences, dim) unit rows."""
    encoder = Sentences(SentenceEncoder(find_model(DEFAULT, Console(quiet=True)), device="cpu"))
    rows: list[FloatArray] = []
    for start in range(0, len(pages), 32):
        rows += [passages.unit_vectors() for passages in encoder.encode_documents(pages[start : start + 32]).passages]
    return rows


def means(sentences: Sequence[FloatArray], langs: Sequence[str]) -> dict[str, FloatArray]:
    """The mean of each language's sentences."""
    return {
        lang: np.concatenate(
            [of_page for of_page, page_lang in zip(sentences, langs, strict=True) if page_lang == lang]
        ).mean(axis=0)
        for lang in dict.fromkeys(langs)
    }


def weighted(sentences: Sequence[FloatArray], langs: Sequence[str], centres: Mapping[str, FloatArray]) -> FloatArray:
    """Documents as means of sentences by density weights; the density is that of sentences minus their centre."""
    centred = [of_page - centres[lang] for of_page, lang in zip(sentences, langs, strict=True)]
    density = DensityWeights.fit(np.concatenate(centred))
    rows = [density.weights(points) @ of_page for points, of_page in zip(centred, sentences, strict=True)]
    return unit_rows(np.stack(rows).astype(np.float32))


def without(vectors: FloatArray, langs: Sequence[str], rank: int) -> FloatArray:
    """Documents without their language's mean (rank 0) or subspace."""
    corrected = vectors.copy()
    for lang in dict.fromkeys(langs):
        rows = np.array([page_lang == lang for page_lang in langs])
        moments = Moments(vectors.shape[1])
        moments.add(vectors[rows])
        if rank:
            subspace = moments.subspace(rank)
            corrected[rows] -= vectors[rows] @ subspace.T @ subspace
        else:
            corrected[rows] -= moments.mean.astype(np.float32)
    return unit_rows(corrected)


def average_precision(vectors: FloatArray, count: int) -> np.ndarray:
    """(concepts,) AP of finding a page's mates among all other pages, the mean over its languages."""
    concepts = np.arange(len(vectors)) % count
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    values = []
    for row, scores in enumerate(cosines):
        ranks = np.flatnonzero(concepts[np.argsort(-scores)][:-1] == concepts[row]) + 1
        values.append(float(((np.arange(len(ranks)) + 1) / ranks).mean()))
    return np.asarray(np.array(values).reshape(-1, count).mean(axis=0))


def first_mates(vectors: FloatArray, count: int) -> float:
    """Share of pages whose mate is first among another language's pages, over all ordered pairs of languages."""
    by_lang = vectors.reshape(-1, count, vectors.shape[1])
    shares = [
        ((queries @ candidates.T).argmax(axis=1) == np.arange(count)).mean()
        for queries, candidates in permutations(by_lang, 2)
    ]
    return float(np.mean(shares))


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="Pages of each language.")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pages = documents(arguments.count, arguments.seed)
    langs = [page.lang for page in pages]
    sentences = encode(pages)
    dim = sentences[0].shape[1]
    encoded = {
        "mean of the sentences": unit_rows(np.stack([of_page.mean(axis=0) for of_page in sentences])),
        "density weights, all languages' sentences as they are": weighted(
            sentences, langs, dict.fromkeys(langs, np.zeros(dim, np.float32))
        ),
        "density weights, each language's sentences centred": weighted(sentences, langs, means(sentences, langs)),
    }
    base: dict[str, np.ndarray] = {}
    table = harness.Table(
        ["| documents | taken out | MAP | against the mean of sentences | P@1 pairwise |", "|---|---|---:|---:|---:|"]
    )
    for name, vectors in encoded.items():
        for removed, rank in (("nothing", None), ("mean", 0), ("subspace, m = 1", 1), ("m = 4", 4)):
            corrected = vectors if rank is None else without(vectors, langs, rank)
            values = average_precision(corrected, arguments.count)
            gain = values - base.setdefault(removed, values)
            error = gain.std() / len(gain) ** 0.5
            against = f"{gain.mean():+.4f} ± {error:.4f}" if gain.any() else ""
            mates = first_mates(corrected, arguments.count)
            table.add(f"| {name} | {removed} | {values.mean():.4f} | {against} | {mates:.4f} |")
    harness.write("LAWDR's parts", harness.command("lawdr", arguments, "count"), table)


if __name__ == "__main__":
    main()
