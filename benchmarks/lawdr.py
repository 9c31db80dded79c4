"""LAWDR's parts one by one: mean of sentences, density weights, language subspaces; mates in four languages."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

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
    """Help pages of the same concepts in each language, one language's after the other's, concepts in one order."""
    pages: dict[str, dict[str, Document]] = {}
    for lang in LANGUAGES:
        own = harness.documents(harness.read("lohelp", lang), lang)
        pages[lang] = {str(page.fields["concept"]): page for page in own}
    shared = sorted(set.intersection(*(set(by_concept) for by_concept in pages.values())))
    chosen = np.random.default_rng(seed).permutation(shared)[:count]
    return [pages[lang][concept] for lang in LANGUAGES for concept in chosen]


def encoded(pages: Sequence[Document]) -> list[FloatArray]:
    """Each page's sentences, (sentences, dim) unit rows."""
    encoder = Sentences(SentenceEncoder(find_model(DEFAULT, Console(quiet=True)), device="cpu"))
    rows: list[FloatArray] = []
    for start in range(0, len(pages), 32):
        rows += [one.unit_vectors() for one in encoder.encode_documents(pages[start : start + 32]).passages]
    return rows


def means(sentences: Sequence[FloatArray], langs: Sequence[str]) -> dict[str, FloatArray]:
    """The mean of each language's sentences."""
    return {
        lang: np.concatenate([one for one, other in zip(sentences, langs, strict=True) if other == lang]).mean(axis=0)
        for lang in dict.fromkeys(langs)
    }


def weighted(sentences: Sequence[FloatArray], langs: Sequence[str], centres: Mapping[str, FloatArray]) -> FloatArray:
    """Documents of sentences by density weights, the density being that of sentences less their centre."""
    moved = [one - centres[lang] for one, lang in zip(sentences, langs, strict=True)]
    density = DensityWeights.fit(np.concatenate(moved))
    return unit_rows(
        np.stack([density.weights(place) @ one for place, one in zip(moved, sentences, strict=True)]).astype(np.float32)
    )


def without(vectors: FloatArray, langs: Sequence[str], rank: int) -> FloatArray:
    """Documents without their language's mean (rank 0) or subspace."""
    left = vectors.copy()
    for lang in dict.fromkeys(langs):
        rows = np.array([other == lang for other in langs])
        moments = Moments(vectors.shape[1])
        moments.add(vectors[rows])
        if rank:
            subspace = moments.subspace(rank)
            left[rows] -= vectors[rows] @ subspace.T @ subspace
        else:
            left[rows] -= moments.mean.astype(np.float32)
    return unit_rows(left)


def average_precision(vectors: FloatArray, count: int) -> np.ndarray:
    """(concepts,) AP of finding a page's mates among all other pages, the mean over its languages."""
    concepts = np.arange(len(vectors)) % count
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    values = []
    for row, scores in enumerate(cosines):
        found = np.flatnonzero(concepts[np.argsort(-scores)][:-1] == concepts[row])
        values.append(float(((np.arange(len(found)) + 1) / (found + 1)).mean()))
    return np.asarray(np.array(values).reshape(-1, count).mean(axis=0))


def first_mates(vectors: FloatArray, count: int) -> float:
    """Share of pages whose mate is first among another language's pages, over all ordered pairs of languages."""
    parts = vectors.reshape(-1, count, vectors.shape[1])
    right = [
        ((parts[a] @ parts[b].T).argmax(axis=1) == np.arange(count)).mean()
        for a in range(len(parts))
        for b in range(len(parts))
        if a != b
    ]
    return float(np.mean(right))


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="Pages of each language.")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pages = documents(arguments.count, arguments.seed)
    langs = [page.lang for page in pages]
    sentences = encoded(pages)
    dim = sentences[0].shape[1]
    ways = {
        "mean of the sentences": unit_rows(np.stack([one.mean(axis=0) for one in sentences])),
        "density weights, all languages' sentences as they are": weighted(
            sentences, langs, dict.fromkeys(langs, np.zeros(dim, np.float32))
        ),
        "density weights, each language's sentences centred": weighted(sentences, langs, means(sentences, langs)),
    }
    base: dict[str, np.ndarray] = {}
    table = [
        "| documents | taken out | MAP | against the mean of sentences | P@1 pairwise |",
        "|---|---|---:|---:|---:|",
    ]
    for name, vectors in ways.items():
        for taken, rank in (("nothing", None), ("mean", 0), ("subspace, m = 1", 1), ("m = 4", 4)):
            left = vectors if rank is None else without(vectors, langs, rank)
            values = average_precision(left, arguments.count)
            gain = values - base.setdefault(taken, values)
            error = gain.std() / len(gain) ** 0.5
            against = f"{gain.mean():+.4f} ± {error:.4f}" if gain.any() else ""
            table.append(
                f"| {name} | {taken} | {values.mean():.4f} | {against} | {first_mates(left, arguments.count):.4f} |"
            )
            print(table[-1], flush=True)
    harness.write("LAWDR's parts", f"python -m benchmarks.lawdr --count {arguments.count}", table)


if __name__ == "__main__":
    main()
