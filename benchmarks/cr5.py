"""Cr5's speed: training against the published algorithm and as it grows, encoding and indexing against E5-small."""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from scipy.sparse import csr_array
from scipy.sparse import vstack as stacked
from scipy.sparse.linalg import LinearOperator, cg, eigsh
from threadpoolctl import threadpool_limits

from benchmarks import harness
from benchmarks.encoding import documents
from encoders.cr5.algebra.ridge_choice import mate_rank, split
from encoders.cr5.algebra.solver import Block, Solution, solve
from encoders.cr5.corpus import Corpus
from encoders.cr5.encoder import load_model
from encoders.cr5.settings import Cr5Settings
from encoders.cr5.vocabulary import fit_vocabulary
from encoders.document import Document, Encoder, FloatArray
from encoders.folder import ModelFolder
from encoders.methods.registry import open_encoder
from encoders.text.words import words
from indexer.collection.settings import Settings
from indexer.index import index
from indexer.readers.documents import Sources
from indexer.training.cr5 import Cr5Report, train_cr5

Vector = npt.NDArray[np.float64]
LAM = 0.3
DIMENSIONS = 300


def published(blocks: Mapping[str, Block], dimensions: int) -> Solution:
    """The published algorithm: ARPACK over conjugate gradients, one vector at a time, in float64 (ε 0.1 and 0.01)."""
    wide = sum(block.matrix.shape[1] for block in blocks.values())
    parts, start = [], 0
    for block in blocks.values():
        rows, columns = block.matrix.shape
        moved = block.matrix.indices + start, block.matrix.indptr
        parts.append(csr_array((block.matrix.data.astype(np.float64), *moved), shape=(rows, wide)))
        start += columns
    z = csr_array(stacked(parts))
    across = csr_array(z.T)
    labels = np.concatenate([block.concepts for block in blocks.values()])
    concepts = int(labels.max()) + 1
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(concepts, len(labels)))

    def system_by(v: Vector) -> Vector:
        seen: Vector = np.asarray(z @ v)
        return np.asarray(across @ (seen - seen.mean()) + LAM * v)

    system = LinearOperator((wide, wide), matvec=system_by, dtype=np.float64)

    def solved(right: Vector) -> Vector:
        return np.asarray(cg(system, right, rtol=0.01, maxiter=500)[0])

    def seen_by(v: Vector) -> Vector:
        targets = v.ravel()[labels]
        found: Vector = np.asarray(z @ solved(across @ (targets - targets.mean())))
        return np.asarray(members @ (found - found.mean()))

    operator = LinearOperator((concepts, concepts), matvec=seen_by, dtype=np.float64)
    top: Vector
    first = np.random.default_rng(0).standard_normal(concepts)
    _, top = eigsh(operator, k=dimensions, maxiter=250, tol=0.1, v0=first)
    targets = top[labels]
    targets -= targets.mean(axis=0)
    raw: Vector = np.stack([solved(across @ targets[:, column]) for column in range(dimensions)])
    variances, turn = np.linalg.eigh(raw @ raw.T)
    learnt = np.asarray(raw.T @ (turn / np.sqrt(variances)), dtype=np.float32)
    borders = np.cumsum([block.matrix.shape[1] for block in blocks.values()])[:-1]
    return Solution(dict(zip(blocks, np.split(learnt, borders), strict=True)), dimensions, variances)


def synthetic(each: int, vocabulary: int, langs: int = 2, length: int = 150) -> Iterator[tuple[str, Block]]:
    """Documents of each language in turn: words drawn by Zipf's law, two thirds of them a concept's own."""
    chance = np.random.default_rng(0)
    own = _zipf(chance, (each, 60), vocabulary)
    for number in range(langs):
        turned = chance.permutation(vocabulary)
        picked = np.take_along_axis(own, chance.integers(0, 60, (each, 2 * length // 3)), axis=1)
        drawn = turned[np.concatenate([picked, _zipf(chance, (each, length // 3), vocabulary)], axis=1)]
        ends = np.arange(each + 1) * drawn.shape[1]
        counts = csr_array((np.ones(drawn.size, np.float32), drawn.ravel(), ends), shape=(each, vocabulary))
        counts.sum_duplicates()
        _, matrix = fit_vocabulary(counts, [str(word) for word in range(vocabulary)], 200_000, 3)
        yield str(number), Block(matrix, np.arange(each))


def on_disk(blocks: Iterable[tuple[str, Block]], folder: Path) -> dict[str, Block]:
    """The same, read from files where they are used."""
    found = {}
    for lang, block in blocks:
        parts = {"data": block.matrix.data, "indices": block.matrix.indices, "indptr": block.matrix.indptr}
        for name, values in parts.items():
            np.save(folder / f"{lang}.{name}.npy", values)
        mapped = [np.load(folder / f"{lang}.{name}.npy", mmap_mode="r") for name in parts]
        found[lang] = Block(csr_array(tuple(mapped), shape=block.matrix.shape), block.concepts)
    return found


def _zipf(chance: np.random.Generator, shape: tuple[int, int], vocabulary: int) -> npt.NDArray[np.int64]:
    drawn: npt.NDArray[np.int64] = np.exp(chance.random(shape) * np.log(vocabulary)).astype(np.int64)
    return drawn


def lohelp(langs: tuple[str, str]) -> dict[str, Block]:
    """Two languages' help pages."""
    corpus = Corpus()
    for lang in langs:
        for record in harness.read("lohelp", lang):
            corpus.count(lang, record["concept"], words(f"{record['title']}\n{record['text']}", lang))
    return {
        lang: Block(fit_vocabulary(one.matrix, one.words, 200_000, 3)[1], one.concepts)
        for lang, one in corpus.counts().items()
    }


def training() -> list[str]:
    """Against the published algorithm on the same matrices, in the same run."""
    lines = [
        f"r = {DIMENSIONS}, λ = {LAM}. The published algorithm is one thread's work, BLAS's other threads but slow it "
        "down; ours runs languages side by side. Mates: reciprocal rank of a tenth of the concepts, held out.",
        "",
        "| matrix | published, s (CPU s) | ours, s (CPU s) | times faster (CPU) | mates, published | mates, ours |",
        "|---|---:|---:|---:|---:|---:|",
    ]
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
        with harness.Stopwatch() as ours:
            solution = columns_of(solve(trained, DIMENSIONS, LAM, direct=direct, small=size))
        with threadpool_limits(1), harness.Stopwatch() as theirs:
            published_solution = columns_of(published(trained, DIMENSIONS))
        ranks = [mate_rank(columns, held_out) for columns in (published_solution, solution)]
        lines.append(
            f"| {name} | {theirs.seconds:.1f} ({theirs.cpu:.1f}) | {ours.seconds:.2f} ({ours.cpu:.2f}) | "
            f"{theirs.seconds / ours.seconds:.1f} ({theirs.cpu / ours.cpu:.1f}) | {ranks[0]:.3f} | {ranks[1]:.3f} |"
        )
        print(lines[-1], flush=True)
    return lines


def columns_of(solution: Solution) -> dict[str, FloatArray]:
    """Each language's columns; a solution computes them when they are read."""
    return {lang: solution.columns[lang] for lang in solution.columns}


def grown(share: float, langs: int, dimensions: int) -> tuple[int, int, float, float, float]:
    """Words, non-zeros, CPU seconds, seconds, and gigabytes resident at most, of a share of the paper's size."""
    with tempfile.TemporaryDirectory() as place:
        sizes = int(100_000 * share), int(200_000 * share)
        blocks = on_disk(synthetic(*sizes, langs, length=300), Path(place))
        entries = sum(block.matrix.nnz for block in blocks.values())
        with harness.Stopwatch() as watch:
            solution = solve(blocks, dimensions, LAM)
            words_learnt = sum(len(solution.columns[lang]) for lang in blocks)
    return words_learnt, entries, watch.cpu, watch.seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def growth(cases: Sequence[str], dimensions: int) -> list[str]:
    """Seconds and memory by words × documents and by languages, each case in a process of its own."""
    lines = [
        f"r = {dimensions}, λ = {LAM}; the whole is 100,000 documents and 200,000 words a language, matrices read from "
        "disk where they are used. Memory is what was resident at most, mapped files and making the data included.",
        "",
        "| share × languages | words | non-zeros | CPU s | s | GB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for case in cases:
        share, langs = case.split("x")
        with get_context("spawn").Pool(1) as pool:
            vocabulary, entries, spent, seconds, peak = pool.apply(
                grown, (float(Fraction(share)), int(langs), dimensions)
            )
        row = f"| {share} × {langs} | {vocabulary:,} | {entries:,} | {spent:,.0f} | {seconds:,.0f} | {peak:.1f} |"
        lines.append(row)
        print(row, flush=True)
    return lines


def counted(texts: list[Document]) -> int:
    """Words: between blanks, 1.7 characters of Chinese and Japanese for one."""
    return sum(
        int(len(text.content) / 1.7) if text.lang in {"ja", "zh"} else len(text.content.split()) for text in texts
    )


_AT_ONCE = 64
_WAYS = ("documents' vectors", "vectors and passages")


class Job:
    """Encoding in a process: what it encodes with, and what."""

    encoder: Encoder
    batches: Sequence[Sequence[Document]]

    @classmethod
    def begin(cls, folder: Path) -> None:
        """Open the model and read the pages."""
        texts = documents(300)
        cls.encoder = open_encoder(ModelFolder.open(folder))
        cls.batches = [texts[at : at + _AT_ONCE] for at in range(0, len(texts), _AT_ONCE)]

    @classmethod
    def run(cls, part: tuple[str, int]) -> int:
        """Encode a batch in one of the ways; returns how many batches there are."""
        way, number = part
        if way == _WAYS[0]:
            cls.encoder.encode_queries(cls.batches[number])
        else:
            cls.encoder.encode_documents(cls.batches[number])
        return len(cls.batches)


def encoding_rows(folder: Path, rounds: int) -> list[str]:
    """Words a second, tokenised, by one process and by two that share the batches."""
    size = counted(documents(300))
    lines = ["| encoded, tokenisation included | one process, words/s | two, words/s |", "|---|---:|---:|"]
    rates: dict[tuple[str, int], float] = {}
    for processes in (1, 2):
        with get_context("spawn").Pool(processes, Job.begin, (folder,)) as pool:
            for way in _WAYS:
                (batches, *_) = pool.map(Job.run, [(way, number) for number in range(4)], chunksize=1)
                every = [(way, number) for number in range(batches)]
                times = harness.in_turn({way: partial(pool.map, Job.run, every, 1)}, rounds)
                rates[way, processes] = size / min(times[way])
    lines += [f"| {way} | {rates[way, 1]:,.0f} | {rates[way, 2]:,.0f} |" for way in _WAYS]
    return [
        *lines,
        "",
        "2,700 help pages in nine languages, two ninths of them without blanks (ja, zh: 1.7 characters a word).",
    ]


def rates(folder: ModelFolder, rounds: int) -> list[str]:
    """Words a CPU second, tokenised, on one thread: what is left of a measure on a machine that others use."""
    encoder = open_encoder(folder)
    lines = [
        "| words a CPU second, one thread | documents' vectors | vectors and passages | vectors by ONNX Runtime |",
        "|---|---:|---:|---:|",
    ]
    texts = documents(80)
    latin = [text for text in texts if text.lang not in {"ja", "zh"}]
    for name, some in (("all nine languages", texts), ("without Chinese and Japanese", latin)):
        batches = [some[at : at + _AT_ONCE] for at in range(0, len(some), _AT_ONCE)]
        found = []
        for encode in (encoder.encode_queries, encoder.encode_documents, by_graph(folder)):
            spent = []
            for _ in range(1 + rounds):
                with harness.Stopwatch() as watch:
                    for batch in batches:
                        encode(batch)
                spent.append(watch.cpu)
            found.append(counted(some) / min(spent[1:]))
        lines.append(f"| {name} | {' | '.join(f'{value:,.0f}' for value in found)} |")
    return lines


def by_graph(folder: ModelFolder) -> Callable[[Sequence[Document]], FloatArray]:
    """Documents' vectors by the folder's graph, tokenised as the encoder does: what others would run."""
    model = load_model(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder.graph), options, providers=["CPUExecutionProvider"])

    def encode(texts: Sequence[Document]) -> FloatArray:
        bags = [np.unique(model.ids(words(one.content, one.lang), one.lang), return_counts=True) for one in texts]
        ids, counts = np.zeros((2, len(texts), max(len(bag[0]) for bag in bags)), dtype=np.int64)
        for row, (some, often) in enumerate(bags):
            ids[row, : len(some)], counts[row, : len(some)] = some, often
        (vectors,) = session.run(["vectors"], {"input_ids": ids, "attention_mask": counts})
        return np.asarray(vectors)

    return encode


def rate(rounds: int) -> list[str]:
    """The same of a model of help pages in nine languages."""
    with tempfile.TemporaryDirectory() as place:
        report = trained(Path(place))
        with threadpool_limits(1):
            return rates(report.folder, rounds)


def trained(folder: Path) -> Cr5Report:
    """Train a model of help pages in nine languages."""
    sources = [str(harness.DATA / "lohelp" / f"docs.{lang}.jsonl.gz") for lang in harness.LANGUAGES]
    (report,) = train_cr5(Sources(sources), folder / "cr5", settings=Cr5Settings(ridge=LAM))
    return report


def encoding(rounds: int) -> list[str]:
    """Words a second, and documents a second through the whole of indexing, beside E5-small."""
    with tempfile.TemporaryDirectory() as place:
        with harness.Stopwatch() as watch:
            report = trained(Path(place))
        few = documents(12)
        lines = [
            f"Trained on {report.read:,} help pages in nine languages, reading included, in {watch.seconds:.1f} s.",
            "",
        ]
        lines += encoding_rows(report.folder.path, rounds)
        source = Path(place) / "some.jsonl"
        records = ({"id": text.doc_id, "lang": text.lang, "title": text.title, "text": text.text} for text in few)
        source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        indexed = {}
        for name, reference in (("multilingual-E5-small", None), ("Cr5", str(report.folder.path))):
            settings = Settings.read(home=Path(place) / name)
            with harness.Stopwatch() as watch:
                index([str(source)], "c", settings=settings, encoder=reference, device="cpu")
            indexed[name] = watch.seconds
    lines += ["", "| indexing, stored too | documents/s |", "|---|---:|"]
    lines += [f"| {name} | {len(few) / value:,.1f} |" for name, value in indexed.items()]
    return lines


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["training", "growth", "rate", "encoding"])
    parser.add_argument("--cases", default="1/16x2,1/16x8,1/16x28,1/4x2,1/4x8,1x2")
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    command = f"python -m benchmarks.cr5 {arguments.part}"
    if arguments.part == "training":
        harness.write("Cr5: training against the published algorithm", command, training())
    elif arguments.part == "growth":
        lines = growth(arguments.cases.split(","), arguments.dimensions)
        command += f" --cases {arguments.cases} --dimensions {arguments.dimensions}"
        harness.write("Cr5: training as it grows", command, lines)
    elif arguments.part == "rate":
        harness.write("Cr5: words a CPU second", f"{command} --rounds {arguments.rounds}", rate(arguments.rounds))
    else:
        harness.write("Cr5: encoding", f"{command} --rounds {arguments.rounds}", encoding(arguments.rounds))


if __name__ == "__main__":
    main()
