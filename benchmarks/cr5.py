"""Cr5's speed: training against the published algorithm and as it grows, encoding and indexing against E5-small."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from scipy.sparse import csr_array, vstack
from scipy.sparse.linalg import LinearOperator, cg, eigsh
from threadpoolctl import threadpool_limits

from benchmarks import harness
from benchmarks.encoding import documents
from encoders.cr5.algebra.ridge_choice import mate_rank, split
from encoders.cr5.algebra.solver import Block, Solution, solve
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.bags_of_words import load_model
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.word_vocabulary import fit_vocabulary
from encoders.document import Document, Encoder, FloatArray
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import open_encoder
from encoders.text.words import words
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.source_documents import Sources
from indexer.training.cr5_training import Cr5Report, train_cr5

Vector = npt.NDArray[np.float64]
Columns = dict[str, FloatArray]
LAM = 0.3
_ROUNDS = 5
"""Trainings by our algorithm: they take a second, and a machine is slower in some seconds than in others."""
DIMENSIONS = 300


def published(blocks: Mapping[str, Block], dimensions: int) -> Solution:
    """The published algorithm: ARPACK over conjugate gradients, one vector at a time, in float64 (ε 0.1 and 0.01)."""
    width = sum(block.matrix.shape[1] for block in blocks.values())
    parts, start = [], 0
    for block in blocks.values():
        rows, columns = block.matrix.shape
        shifted = block.matrix.indices + start, block.matrix.indptr
        parts.append(csr_array((block.matrix.data.astype(np.float64), *shifted), shape=(rows, width)))
        start += columns
    z = csr_array(vstack(parts))
    transposed = csr_array(z.T)
    labels = np.concatenate([block.concepts for block in blocks.values()])
    concepts = int(labels.max()) + 1
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(concepts, len(labels)))

    def apply_ridge(v: Vector) -> Vector:
        products: Vector = np.asarray(z @ v)
        return np.asarray(transposed @ (products - products.mean()) + LAM * v)

    ridge = LinearOperator((width, width), matvec=apply_ridge, dtype=np.float64)

    def solve_ridge(right: Vector) -> Vector:
        return np.asarray(cg(ridge, right, rtol=0.01, maxiter=500)[0])

    def predict_concepts(v: Vector) -> Vector:
        targets = v.ravel()[labels]
        predicted: Vector = np.asarray(z @ solve_ridge(transposed @ (targets - targets.mean())))
        return np.asarray(members @ (predicted - predicted.mean()))

    operator = LinearOperator((concepts, concepts), matvec=predict_concepts, dtype=np.float64)
    eigenvectors: Vector
    first = np.random.default_rng(0).standard_normal(concepts)
    _, eigenvectors = eigsh(operator, k=dimensions, maxiter=250, tol=0.1, v0=first)
    targets = eigenvectors[labels]
    targets -= targets.mean(axis=0)
    raw: Vector = np.stack([solve_ridge(transposed @ targets[:, column]) for column in range(dimensions)])
    variances, rotation = np.linalg.eigh(raw @ raw.T)
    learnt = np.asarray(raw.T @ (rotation / np.sqrt(variances)), dtype=np.float32)
    borders = np.cumsum([block.matrix.shape[1] for block in blocks.values()])[:-1]
    return Solution(dict(zip(blocks, np.split(learnt, borders), strict=True)), dimensions, variances)


def synthetic(each: int, vocabulary: int, langs: int = 2, length: int = 150) -> Iterator[tuple[str, Block]]:
    """Yield each language's documents: words drawn by Zipf's law, two thirds from the 60 words of their concept."""
    chance = np.random.default_rng(0)
    concept_words = _zipf(chance, (each, 60), vocabulary)
    for number in range(langs):
        translation = chance.permutation(vocabulary)
        picked = np.take_along_axis(concept_words, chance.integers(0, 60, (each, 2 * length // 3)), axis=1)
        drawn = translation[np.concatenate([picked, _zipf(chance, (each, length // 3), vocabulary)], axis=1)]
        ends = np.arange(each + 1) * drawn.shape[1]
        counts = csr_array((np.ones(drawn.size, np.float32), drawn.ravel(), ends), shape=(each, vocabulary))
        counts.sum_duplicates()
        _, matrix = fit_vocabulary(counts, [str(word) for word in range(vocabulary)], 200_000, 3)
        yield str(number), Block(matrix, np.arange(each))


def on_disk(blocks: Iterable[tuple[str, Block]], folder: Path) -> dict[str, Block]:
    """Move blocks to files of a folder, from which they are read where they are used."""
    mapped = {}
    for lang, block in blocks:
        parts = {"data": block.matrix.data, "indices": block.matrix.indices, "indptr": block.matrix.indptr}
        for name, values in parts.items():
            np.save(folder / f"{lang}.{name}.npy", values)
        files = tuple(np.load(folder / f"{lang}.{name}.npy", mmap_mode="r") for name in parts)
        mapped[lang] = Block(csr_array(files, shape=block.matrix.shape), block.concepts)
    return mapped


def _zipf(chance: np.random.Generator, shape: tuple[int, int], vocabulary: int) -> npt.NDArray[np.int64]:
    drawn: npt.NDArray[np.int64] = np.exp(chance.random(shape) * np.log(vocabulary)).astype(np.int64)
    return drawn


def lohelp(langs: tuple[str, str]) -> dict[str, Block]:
    """Help pages in two languages."""
    corpus = Corpus()
    for lang in langs:
        for record in harness.read("lohelp", lang):
            corpus.add_words(lang, record["concept"], words(f"{record['title']}\n{record['text']}", lang))
    return {
        lang: Block(fit_vocabulary(counts.matrix, counts.words, 200_000, 3)[1], counts.concepts)
        for lang, counts in corpus.counts().items()
    }


def training() -> list[str]:
    """Our training against the published algorithm on the same matrices."""
    table = harness.Table(
        [
            f"r = {DIMENSIONS}, λ = {LAM}. The published algorithm is one thread's work, BLAS's other threads but slow "
            "it down; ours runs languages side by side (the median of five trainings). Mates: reciprocal rank of "
            "a tenth of the concepts, held out.",
            "",
            "| matrix | published, s (CPU s) | ours, s (CPU s) | times faster (CPU) | mates, published | mates, ours |",
            "|---|---:|---:|---:|---:|---:|",
        ]
    )
    small = dict(synthetic(3000, 20_000))
    cases = {
        "lohelp, English and German, factorised": (lohelp(("en", "de")), 4000, 1500),
        "synthetic, 2 × 3,000 documents, factorised": (small, 4000, 1500),
        "the same, by conjugate gradients and a Krylov space": (small, 0, 0),
    }
    for name, (blocks, direct, size) in cases.items():
        concepts = np.unique(np.concatenate([block.concepts for block in blocks.values()]))
        drawn = np.random.default_rng(0).permutation(concepts)
        trained, held_out = split(blocks, drawn, drawn[: len(drawn) // 10])
        runs = [timed_training(trained, direct, size) for _ in range(_ROUNDS)]
        ours, solution = sorted(runs, key=lambda run: run[0].seconds)[_ROUNDS // 2]
        with threadpool_limits(1), harness.Stopwatch() as theirs:
            published_solution = columns_of(published(trained, DIMENSIONS))
        ranks = [mate_rank(columns, held_out) for columns in (published_solution, solution)]
        table.add(
            f"| {name} | {theirs.seconds:.1f} ({theirs.cpu:.1f}) | {ours.seconds:.2f} ({ours.cpu:.2f}) | "
            f"{theirs.seconds / ours.seconds:.1f} ({theirs.cpu / ours.cpu:.1f}) | {ranks[0]:.3f} | {ranks[1]:.3f} |"
        )
    return table


def timed_training(blocks: Mapping[str, Block], direct: int, small: int) -> tuple[harness.Stopwatch, Columns]:
    """Train once; returns the time, and each language's columns."""
    with harness.Stopwatch() as watch:
        columns = columns_of(solve(blocks, DIMENSIONS, LAM, direct=direct, small=small))
    return watch, columns


def columns_of(solution: Solution) -> Columns:
    """Each language's columns; a solution computes them when they are read."""
    return {lang: solution.columns[lang] for lang in solution.columns}


def train_synthetic(share: float, langs: int, dimensions: int) -> tuple[int, int, float, float, float]:
    """Words, non-zeros, CPU seconds, seconds, and GB of memory at most, for a share of the paper's size."""
    with tempfile.TemporaryDirectory() as scratch:
        sizes = int(100_000 * share), int(200_000 * share)
        blocks = on_disk(synthetic(*sizes, langs, length=300), Path(scratch))
        entries = sum(block.matrix.nnz for block in blocks.values())
        with harness.Stopwatch() as watch:
            solution = solve(blocks, dimensions, LAM)
            words_learnt = sum(len(solution.columns[lang]) for lang in blocks)
    return words_learnt, entries, watch.cpu, watch.seconds, harness.peak_memory() / 1024


def growth(cases: Sequence[str], dimensions: int) -> list[str]:
    """Time and memory of training by words × documents and by languages, each case in a process of its own."""
    table = harness.Table(
        [
            f"r = {dimensions}, λ = {LAM}; the whole is 100,000 documents and 200,000 words a language, matrices read "
            "from disk where they are used. Memory is what was resident at most, mapped files and making the data "
            "included.",
            "",
            "| share × languages | words | non-zeros | CPU s | s | GB |",
            "|---:|---:|---:|---:|---:|---:|",
        ]
    )
    for case in cases:
        share, langs = case.split("x")
        with get_context("spawn").Pool(1) as pool:
            vocabulary, entries, cpu, seconds, peak = pool.apply(
                train_synthetic, (float(Fraction(share)), int(langs), dimensions)
            )
        table.add(f"| {share} × {langs} | {vocabulary:,} | {entries:,} | {cpu:,.0f} | {seconds:,.0f} | {peak:.1f} |")
    return table


def count_words(texts: Sequence[Document]) -> int:
    """Number of words between blanks; 1.7 characters of Chinese or Japanese count as a word."""
    return sum(
        int(len(text.content) / 1.7) if text.lang in {"ja", "zh"} else len(text.content.split()) for text in texts
    )


_BATCH = 64
_ENCODED = ("documents' vectors", "vectors and passages")
"""What is encoded: documents as queries are, or with their passages."""


def batches_of(texts: Sequence[Document]) -> list[Sequence[Document]]:
    """Texts in batches."""
    return [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]


class Job:
    """An encoder and its texts, in a process that encodes."""

    encoder: Encoder
    batches: Sequence[Sequence[Document]]

    @classmethod
    def begin(cls, folder: Path) -> None:
        """Open the model and read the pages."""
        cls.encoder = open_encoder(ModelFolder.open(folder))
        cls.batches = batches_of(documents(300))

    @classmethod
    def run(cls, part: tuple[str, int]) -> int:
        """Encode a batch, with passages or without; returns how many batches there are."""
        name, number = part
        if name == _ENCODED[0]:
            cls.encoder.encode_queries(cls.batches[number])
        else:
            cls.encoder.encode_documents(cls.batches[number])
        return len(cls.batches)


def encoding_rows(folder: Path, rounds: int) -> list[str]:
    """Words a second, tokenised, by one process and by two that share the batches."""
    size = count_words(documents(300))
    rates: dict[tuple[str, int], float] = {}
    for processes in (1, 2):
        with get_context("spawn").Pool(processes, Job.begin, (folder,)) as pool:
            for name in _ENCODED:
                (batches, *_) = pool.map(Job.run, [(name, number) for number in range(4)], chunksize=1)
                parts = [(name, number) for number in range(batches)]
                seconds = harness.in_turn({name: partial(pool.map, Job.run, parts, 1)}, rounds)
                rates[name, processes] = size / min(seconds[name])
    return [
        "| encoded, tokenisation included | one process, words/s | two, words/s |",
        "|---|---:|---:|",
        *(f"| {name} | {rates[name, 1]:,.0f} | {rates[name, 2]:,.0f} |" for name in _ENCODED),
        "",
        "2,700 help pages in nine languages, two ninths of them without blanks (ja, zh: 1.7 characters a word).",
    ]


def rate_rows(folder: ModelFolder, rounds: int) -> list[str]:
    """Words a CPU second, tokenised, on one thread: this figure depends least on what else the machine does."""
    encoder = open_encoder(folder)
    lines = [
        "| words a CPU second, one thread | documents' vectors | vectors and passages | vectors by ONNX Runtime |",
        "|---|---:|---:|---:|",
    ]
    all_texts = documents(80)
    with_blanks = [text for text in all_texts if text.lang not in {"ja", "zh"}]
    for name, texts in (("all nine languages", all_texts), ("without Chinese and Japanese", with_blanks)):
        batches = batches_of(texts)
        rates = []
        for encode in (encoder.encode_queries, encoder.encode_documents, by_graph(folder)):
            cpu = []
            for _ in range(1 + rounds):
                with harness.Stopwatch() as watch:
                    for batch in batches:
                        encode(batch)
                cpu.append(watch.cpu)
            rates.append(count_words(texts) / min(cpu[1:]))
        lines.append(f"| {name} | {' | '.join(f'{rate:,.0f}' for rate in rates)} |")
    return lines


def by_graph(folder: ModelFolder) -> Callable[[Sequence[Document]], FloatArray]:
    """Encode documents by the folder's graph, as other programs would run it, tokenised as the encoder does."""
    model = load_model(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder.graph), options, providers=["CPUExecutionProvider"])

    def encode(texts: Sequence[Document]) -> FloatArray:
        bags = [np.unique(model.ids(words(text.content, text.lang), text.lang), return_counts=True) for text in texts]
        ids, counts = np.zeros((2, len(texts), max(len(bag[0]) for bag in bags)), dtype=np.int64)
        for row, (bag_ids, bag_counts) in enumerate(bags):
            ids[row, : len(bag_ids)], counts[row, : len(bag_ids)] = bag_ids, bag_counts
        (vectors,) = session.run(["vectors"], {"input_ids": ids, "attention_mask": counts})
        return np.asarray(vectors)

    return encode


def rate(rounds: int) -> list[str]:
    """Words a CPU second of a model of help pages in nine languages."""
    with tempfile.TemporaryDirectory() as scratch:
        report = train(Path(scratch))
        with threadpool_limits(1):
            return rate_rows(report.folder, rounds)


def train(folder: Path) -> Cr5Report:
    """Train a model of help pages in nine languages."""
    sources = [str(harness.file_of("lohelp", lang)) for lang in harness.LANGUAGES]
    (report,) = train_cr5(Sources(sources), folder / "cr5", settings=Cr5Settings(ridge=LAM))
    return report


def encoding(rounds: int) -> list[str]:
    """Words encoded a second, and documents indexed a second, beside E5-small."""
    with tempfile.TemporaryDirectory() as scratch:
        with harness.Stopwatch() as watch:
            report = train(Path(scratch))
        lines = [
            f"Trained on {report.read:,} help pages in nine languages, reading included, in {watch.seconds:.1f} s.",
            "",
            *encoding_rows(report.folder.path, rounds),
            "",
            "| indexing, stored too | documents/s |",
            "|---|---:|",
        ]
        texts = documents(12)
        source = harness.write_records(
            ({"id": text.doc_id, "lang": text.lang, "title": text.title, "text": text.text} for text in texts),
            Path(scratch) / "pages.jsonl",
        )
        for name, reference in (("multilingual-E5-small", None), ("Cr5", str(report.folder.path))):
            settings = Settings.read(home=Path(scratch) / name)
            with harness.Stopwatch() as watch:
                index([source], "c", settings=settings, encoder=reference, device="cpu")
            lines.append(f"| {name} | {len(texts) / watch.seconds:,.1f} |")
    return lines


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["training", "growth", "rate", "encoding"])
    parser.add_argument("--cases", default="1/16x2,1/16x8,1/16x28,1/4x2,1/4x8,1x2")
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    options: tuple[str, ...] = ("rounds",)
    if arguments.part == "training":
        name, options, lines = "Cr5: training against the published algorithm", (), training()
    elif arguments.part == "growth":
        name, options = "Cr5: training as it grows", ("cases", "dimensions")
        lines = growth(arguments.cases.split(","), arguments.dimensions)
    elif arguments.part == "rate":
        name, lines = "Cr5: words a CPU second", rate(arguments.rounds)
    else:
        name, lines = "Cr5: encoding", encoding(arguments.rounds)
    harness.write(name, harness.command(f"cr5 {arguments.part}", arguments, *options), lines)


if __name__ == "__main__":
    main()
