"""Cr5: topics of concepts never seen, alone and with the default encoder; encoding; training at the paper's size."""

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from benchmarks import harness
from benchmarks.harness import LANGUAGES, TESTED, spread
from encoders.cr5.algebra.solver import Block, solve
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.word_vocabulary import fit_vocabulary
from encoders.document import Document, Encoder
from encoders.folder.model_folder import ModelFolder
from encoders.methods.combined_encoder import Combined
from encoders.methods.method_registry import open_encoder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.source_documents import Sources
from indexer.training.cr5_training import train_cr5
from trials.documents import write_records

TRAINED = (*LANGUAGES, "nl", "pl", "cs", "pt", "hu")
_E5, _CR5, _BOTH = "multilingual-E5-small", "Cr5", "both"
_LAM, _DIMENSIONS = 0.3, 300


def shuffled_concepts(pages: Sequence[Document], seed: int) -> list[str]:
    concepts = sorted({str(page.fields["concept"]) for page in pages})
    return list(np.random.default_rng(seed).permutation(concepts).tolist())


def read(langs: Sequence[str]) -> list[Document]:
    return [page for lang in langs for page in harness.documents(harness.read("lohelp", lang), lang)]


def only(pages: Sequence[Document], langs: Sequence[str], concepts: Sequence[str]) -> list[Document]:
    chosen = set(concepts)
    return [page for page in pages if page.lang in langs and page.fields["concept"] in chosen]


@contextmanager
def trained(pages: Sequence[Document], ridge: float | None = None) -> Iterator[ModelFolder]:
    """Train Cr5 on pages; the model's folder is temporary."""
    with tempfile.TemporaryDirectory() as scratch:
        records = (
            {"id": page.doc_id, "lang": page.lang, "title": page.title, "text": page.text, **page.fields}
            for page in pages
        )
        source = write_records(records, Path(scratch) / "training.jsonl")
        (report,) = train_cr5(Sources([source]), Path(scratch) / "cr5", settings=Cr5Settings(ridge=ridge))
        print(f"  {report.concepts} concepts, ridge {report.ridge:g}", flush=True)
        yield report.folder


def topics_lines(splits: int, home: Path) -> list[str]:
    """MAP of topics over unseen pages: each encoder and both; the home has the default encoder's vectors."""
    pages = read(TRAINED)
    by_encoder: dict[str, list[dict[str, float]]] = {}
    with harness.open_searcher("lohelp", home, harness.UNCALIBRATED) as searcher:
        stored, indexed = harness.StoredEncoder(searcher.encoder, searcher.store), set(searcher.store.ids())
        for seed in range(splits):
            order = shuffled_concepts(pages, seed)
            half = len(order) // 2
            unseen = [page for page in only(pages, TESTED, order[:half]) if page.doc_id in indexed]
            with trained(only(pages, TRAINED, order[half:])) as folder:
                words = open_encoder(folder)
                for name, encoder in ((_E5, stored), (_CR5, words), (_BOTH, Combined([stored, words]))):
                    by_encoder.setdefault(name, []).append(harness.means(encoder, unseen, "lohelp"))
                    print(f"  {name}: {by_encoder[name][-1]}", flush=True)
    rows = []
    for ranking in by_encoder[_BOTH][0]:
        e5, cr5, both = ([of_split[ranking] for of_split in by_encoder[name]] for name in (_E5, _CR5, _BOTH))
        gain = float(np.mean(np.array(both) / np.maximum(e5, cr5)))
        rows.append([ranking, *map(spread, (e5, cr5, both)), f"{gain:.2f}"])
    return [
        f"lohelp, {splits} splits by concept, mean ± standard deviation of MAP: Cr5 trained on one half in "
        f"{len(TRAINED)} languages, index topics in {len(TESTED)} languages over the pages of the other half, those "
        "with a page left.",
        "",
        *harness.table(f"ranking | {_E5} | {_CR5} | both | both ÷ the better", rows),
    ]


def synthetic(each: int, vocabulary: int, length: int) -> Iterator[tuple[str, Block]]:
    """Yield the documents of two languages: words by Zipf's law, two thirds from the 60 words of their concept."""
    chance = np.random.default_rng(0)
    concept_words = _zipf(chance, (each, 60), vocabulary)
    for number in range(2):
        translation = chance.permutation(vocabulary)
        picked = np.take_along_axis(concept_words, chance.integers(0, 60, (each, 2 * length // 3)), axis=1)
        drawn = translation[np.concatenate([picked, _zipf(chance, (each, length // 3), vocabulary)], axis=1)]
        ends = np.arange(each + 1) * drawn.shape[1]
        counts = csr_array((np.ones(drawn.size, np.float32), drawn.ravel(), ends), shape=(each, vocabulary))
        counts.sum_duplicates()
        _, matrix = fit_vocabulary(counts, [str(word) for word in range(vocabulary)], 200_000, 3)
        yield str(number), Block(matrix, np.arange(each))


def on_disk(blocks: Iterable[tuple[str, Block]], folder: Path) -> dict[str, Block]:
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


def train_synthetic() -> list[str]:
    """Row of a table: words, non-zeros, CPU seconds, seconds, and GB of memory at most."""
    with tempfile.TemporaryDirectory() as scratch:
        blocks = on_disk(synthetic(100_000, 200_000, 300), Path(scratch))
        entries = sum(block.matrix.nnz for block in blocks.values())
        with harness.Stopwatch() as watch:
            solution = solve(blocks, _DIMENSIONS, _LAM)
            words = sum(len(solution.columns[lang]) for lang in blocks)
    figures = words, entries, watch.cpu, watch.seconds
    return [*(f"{figure:,.0f}" for figure in figures), f"{harness.peak_memory() / 1024:.1f}"]


def growth_lines() -> list[str]:
    with get_context("spawn").Pool(1) as pool:
        row = pool.apply(train_synthetic)
    return [
        f"r = {_DIMENSIONS}, λ = {_LAM}; two languages of 100,000 documents and 200,000 words, matrices read from disk "
        "where they are used. Memory is what was resident at most, mapped files and making the data included.",
        "",
        *harness.table("words | non-zeros | CPU s | s | GB", [row]),
    ]


def count_words(texts: Sequence[Document]) -> int:
    """Number of words between blanks; 1.7 characters of Chinese or Japanese count as a word."""
    return sum(
        int(len(text.content) / 1.7) if text.lang in {"ja", "zh"} else len(text.content.split()) for text in texts
    )


class Job:
    """An encoder and its texts, in a process that encodes."""

    encoder: Encoder
    batches: Sequence[Sequence[Document]]

    @classmethod
    def begin(cls, folder: Path) -> None:
        texts = harness.help_pages(300)
        cls.encoder = open_encoder(ModelFolder.open(folder))
        cls.batches = [texts[start : start + harness.BATCH] for start in range(0, len(texts), harness.BATCH)]

    @classmethod
    def run(cls, part: tuple[bool, int]) -> int:
        """Encode a batch, with passages or without; returns how many batches there are."""
        with_passages, number = part
        encode = cls.encoder.encode_documents if with_passages else cls.encoder.encode_queries
        encode(cls.batches[number])
        return len(cls.batches)


def encoding_lines(rounds: int) -> list[str]:
    """Words a second, tokenised, by one process and by two that share the batches; documents indexed a second."""
    size, few = count_words(harness.help_pages(300)), harness.help_pages(12)
    rows: dict[str, list[str]] = {"documents' vectors": [], "vectors and passages": []}
    with trained(read(LANGUAGES), _LAM) as folder, tempfile.TemporaryDirectory() as scratch:
        for processes in (1, 2):
            with get_context("spawn").Pool(processes, Job.begin, (folder.path,)) as pool:
                for with_passages, cells in enumerate(rows.values()):
                    (batches, *_) = pool.map(Job.run, [(bool(with_passages), number) for number in range(4)], 1)
                    parts = [(bool(with_passages), number) for number in range(batches)]
                    seconds = harness.in_turn({"": partial(pool.map, Job.run, parts, 1)}, rounds)[""]
                    cells.append(f"{size / min(seconds):,.0f}")
        records = ({"id": page.doc_id, "lang": page.lang, "title": page.title, "text": page.text} for page in few)
        source, indexed = write_records(records, Path(scratch) / "pages.jsonl"), []
        for name, reference in ((_E5, None), (_CR5, str(folder.path))):
            settings = Settings.read(home=Path(scratch) / name)
            with harness.Stopwatch() as watch:
                index([source], "c", settings=settings, encoder=reference, device="cpu")
            indexed.append([name, f"{len(few) / watch.seconds:,.1f}"])
    header = "encoded, tokenisation included | one process, words/s | two, words/s"
    return [
        *harness.table(header, ([name, *cells] for name, cells in rows.items())),
        "",
        *harness.table("indexing, stored too | documents/s", indexed),
    ]


@harness.benchmark("Cr5: {part}", ("topics", "encoding", "growth"), home=Path(), splits=3, rounds=3)
def measure(arguments: Namespace) -> list[str]:
    if arguments.part == "topics":
        return topics_lines(arguments.splits, arguments.home)
    return encoding_lines(arguments.rounds) if arguments.part == "encoding" else growth_lines()
