"""What benchmarks share: options, time and memory, open collections, rankings and their precision, the page of results.

A benchmark writes its own section of ``benchmarks/RESULTS.md``, which is made and not kept.
"""

import argparse
import gzip
import json
import os
import platform
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from shlex import quote
from time import perf_counter, process_time
from typing import Any, Self

import numpy as np
from ir_measures import Qrel

from encoders.document import Document, Encoded, Encoder, FloatArray, Passages
from encoders.phrases import counted
from indexer.collection.settings import Settings
from query.calibration.calibration import NONE
from query.ranking.fair_ranker import FairRanker
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Ranking
from query.ranking.searcher import Searcher
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import Topic, read_topics

PAGE = Path(__file__).parent / "RESULTS.md"
DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
LANGUAGES = ("en", "de", "fr", "it", "es", "ru", "fi", "ja", "zh")  # each open collection has documents or topics
TESTED = ("en", "de", "fr", "it", "es", "ru", "ja", "zh")  # in which encoders and maps are tested on unseen concepts
KINDS = {"lohelp": "index", "ntrex": "headline"}  # the kind of topics that a collection has
BATCH = 64  # documents that are encoded, and queries that are ranked, at once
UNCALIBRATED = RankingOptions(calibration=NONE)
_FIELDS = ("concept", "label")
Record = dict[str, str]


def options(about: str | None, parts: Sequence[str] = (), **defaults: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    if parts:
        parser.add_argument("part", choices=parts)
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if default is Path:
            parser.add_argument(option, type=Path, required=True)
        elif isinstance(default, bool):
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=default)
        else:
            parser.add_argument(option, type=type(default), default=default)
    return parser.parse_args()


def benchmark(
    title: str, parts: Sequence[str] = (), **defaults: Any
) -> Callable[[Callable[[argparse.Namespace], Sequence[str] | None]], object]:
    """A function that measures by ``options``: if its module is the program it is run, and its lines are a section.

    It stands at the end of its module. The title may name options; no section is written of no lines.
    """

    def run(measure: Callable[[argparse.Namespace], Sequence[str] | None]) -> object:
        if measure.__module__ == "__main__":
            arguments = options(measure.__globals__["__doc__"], parts, **defaults)
            if lines := measure(arguments):
                write(title.format(**vars(arguments)), lines)
        return measure

    return run


def table(header: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """Lines of a table with ``header``, its columns between bars; all but the first are numbers."""
    columns = header.count("|")
    cells = (f"| {' | '.join(map(str, row))} |" for row in rows)
    return [f"| {header} |", f"|---|{'---:|' * columns}", *cells]


def write(name: str, lines: Sequence[str]) -> None:
    """Write a section to the page, with the command that made it; it replaces the section of the same name."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else "# Results\n"
    section = f"## {name}\n\n`{_command()}`, on {machine()}.\n\n" + "\n".join(lines) + "\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    old = pattern.search(page)
    page = page[: old.start()] + section + "\n" + page[old.end() :] if old else f"{page}\n{section}"
    PAGE.write_text(page.rstrip() + "\n", encoding="utf-8")
    print(section)


def _command() -> str:
    module, words = Path(sys.argv[0]).stem, sys.argv[1:]
    shown = [
        before.lstrip("-").upper() if "/" in word and before.startswith("--") else quote(word)
        for before, word in zip(("", *words), words, strict=False)
    ]
    return " ".join([f"python -m benchmarks.{module}", *shown])


def machine() -> str:
    names = re.findall(r"model name\s*: (.+)", _cpuinfo())
    processor = names[0] if names else platform.machine()
    parts = [f"{processor}, {counted(len(os.sched_getaffinity(0)), 'core')}", f"Python {platform.python_version()}"]
    for package in ("onnxruntime", "onnxruntime-gpu", "torch", "numpy"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)


def instructions() -> str:
    flags = re.findall(r"^flags\s*: (.+)", _cpuinfo(), re.MULTILINE)
    wanted = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
    return ", ".join(flag for flag in wanted if flags and flag in flags[0].split()) or "unknown"


def _cpuinfo() -> str:
    file = Path("/proc/cpuinfo")
    return file.read_text(encoding="utf-8") if file.is_file() else ""


class Stopwatch:
    def __enter__(self) -> Self:
        self.seconds, self.cpu = -perf_counter(), -process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += perf_counter()
        self.cpu += process_time()


class Stopwatches:
    """Times of the steps of a query, over many queries; the first queries are not counted."""

    def __init__(self, uncounted: int) -> None:
        self._uncounted = uncounted
        self._seconds: dict[str, list[float]] = {}

    def step(self, name: str, job: Callable[[], Any]) -> Any:
        with Stopwatch() as watch:
            result = job()
        self._seconds.setdefault(name, []).append(watch.seconds)
        return result

    def medians(self) -> dict[str, float]:
        """Median of each step in ms; the steps are in the order of the first query."""
        return {name: 1000 * statistics.median(values[self._uncounted :]) for name, values in self._seconds.items()}


def in_turn(jobs: Mapping[str, Callable[[], object]], rounds: int = 3) -> dict[str, list[float]]:
    """Seconds of each job in each round; the jobs take turns, after one uncounted run of each."""
    for job in jobs.values():
        job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            with Stopwatch() as watch:
                job()
            seconds[name].append(watch.seconds)
    return seconds


def ratio(slow: Sequence[float], fast: Sequence[float]) -> str:
    """How many times faster, round by round: the median, and in brackets the least and the most."""
    ratios = sorted(a / b for a, b in zip(slow, fast, strict=True))
    return f"{statistics.median(ratios):.2f} (rounds {ratios[0]:.2f} … {ratios[-1]:.2f})"


def peak_memory() -> float:
    """Peak resident memory of this process, in MB; that of ``getrusage`` begins at the peak of the parent process."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def read(collection: str, lang: str, limit: int | None = None) -> Iterator[Record]:
    with gzip.open(DATA / collection / f"docs.{lang}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, islice(lines, limit))


def documents(records: Iterable[Record], lang: str) -> list[Document]:
    """Records of one language as documents; ``concept`` and ``label`` are their fields."""
    return [
        Document(item["id"], lang, item["text"], item["title"], {name: item[name] for name in _FIELDS if name in item})
        for item in records
    ]


def help_pages(per_language: int) -> list[Document]:
    pages = []
    for lang in LANGUAGES:
        records = list(read("lohelp", lang))
        pages += documents(records[:: len(records) // per_language][:per_language], lang)
    return pages


def segments(pages: Sequence[Document], passages: Sequence[Passages]) -> list[str]:
    """The texts of the windows that passages are the vectors of, as a peer is to encode them."""
    return [
        f"passage: {document.content[start:end].strip()}"
        for document, of_page in zip(pages, passages, strict=True)
        for start, end in of_page.without_title().offsets
    ]


def tsv(file: str) -> Iterator[list[str]]:
    with gzip.open(DATA / file, "rt", encoding="utf-8") as lines:
        next(lines)
        yield from (line.rstrip("\n").split("\t") for line in lines)


def topics(collection: str, langs: Sequence[str]) -> tuple[list[Topic], list[Qrel]]:
    """An open collection's topics in some languages, and the judgements of these languages' documents."""
    folder, kind = DATA / collection, KINDS[collection]
    all_topics = read_topics(folder / f"topics.{kind}.tsv")
    qrels = read_qrels([folder / f"qrels.{kind}.{lang}.txt" for lang in langs])
    return [topic for topic in all_topics if topic.lang in langs], qrels


def open_searcher(collection: str, home: Path, ranking: RankingOptions | None = None) -> Searcher:
    """Open a home's collection; its queries are encoded on the CPU."""
    return Searcher.open(collection, Settings.read(home=home), device="cpu", ranking=ranking)


def rank(
    ranker: FairRanker, queries: Sequence[Document], vectors: FloatArray, langs: Sequence[str], k: int = 1000
) -> list[Ranking]:
    """The k best documents of the languages for each query, by the queries' (n, dim) vectors; none if that is zero."""
    rankings = [Ranking([], [], vectors[:0, 0])] * len(queries)
    known = ranker.calibration.vector_parts.comparable(vectors)
    for lang in sorted({query.lang for query in queries}):
        rows = [row for row, query in enumerate(queries) if query.lang == lang and known[row]]
        for start in range(0, len(rows), BATCH):
            block = rows[start : start + BATCH]
            for row, ranking in zip(block, ranker.rank(vectors[block], lang, langs, k), strict=True):
                rankings[row] = ranking
    return rankings


class StoredEncoder:
    """An encoder that encodes each query once."""

    def __init__(self, encoder: Encoder) -> None:
        self.spec, self._encoder = encoder.spec, encoder
        self._memory: dict[tuple[str, str], FloatArray] = {}

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        return self._encoder.encode_documents(documents)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        keys = [(query.lang, query.content) for query in queries]
        new = {key: query for key, query in zip(keys, queries, strict=True) if key not in self._memory}
        if new:
            self._memory |= dict(zip(new, self._encoder.encode_queries(list(new.values())), strict=True))
        return np.stack([self._memory[key] for key in keys])
