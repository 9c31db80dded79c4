"""What benchmarks share: open collections, rankings and their precision, time and memory, and the page of results.

A benchmark writes its own section of ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from shlex import quote
from time import perf_counter, process_time
from typing import Any, Self

import numpy as np
from ir_measures import Qrel

from encoders.document import Document, Encoded, Encoder, FloatArray
from encoders.wording import counted
from indexer.stores.contract import VectorStore
from query.measures.fairness import own_language_share
from query.measures.quality_measures import parse_measures, score
from query.ranking.search_hits import Ranking
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import Topic, read_topics
from query.trec_files.trec_run import Run

PAGE = Path(__file__).parent / "RESULTS.md"
DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
LANGUAGES = ("en", "de", "fr", "it", "es", "ru", "fi", "ja", "zh")
"""Nine languages of which each open collection has documents or topics."""

TESTED = ("en", "de", "fr", "it", "es", "ru", "ja", "zh")
"""The eight of them in which encoders and maps are tested on unseen concepts."""

KINDS = {"lohelp": "index", "ntrex": "headline"}
"""The kind of topics that a collection has."""

Record = dict[str, str]
_HEAD = """\
# Results

Written by the benchmarks themselves (`make bench`, or one at a time: `python -m benchmarks.NAME`). Absolute times are
of the machine named under each heading, while others used it; the ratios are of one run and are what counts.
"""


def write(name: str, command: str, lines: Sequence[str]) -> None:
    """Write a section to the page; it replaces the section of the same name.

    Args:
        name: the section's heading.
        command: the benchmark's module in ``benchmarks``, with its options.
        lines: the section's text.
    """
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else _HEAD
    section = f"## {name}\n\n`python -m benchmarks.{command}`, on {machine()}.\n\n" + "\n".join(lines) + "\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    old = pattern.search(page)
    page = page[: old.start()] + section + "\n" + page[old.end() :] if old else f"{page}\n{section}"
    PAGE.write_text(page.rstrip() + "\n", encoding="utf-8")
    print(section)


def command(benchmark: str, options: Namespace, *names: str) -> str:
    """A benchmark's command with the values of some of its options, as ``write`` takes it."""
    return " ".join([benchmark, *(f"--{name} {quote(str(getattr(options, name)))}" for name in names)])


class Table(list[str]):
    """The lines of a section."""

    def add(self, line: str) -> None:
        """Append a line that was just measured, and print it."""
        self.append(line)
        print(line, flush=True)


def machine() -> str:
    """Processor, cores, and the versions of Python and of the packages that decide speed."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = re.findall(r"model name\s*: (.+)", cpuinfo.read_text(encoding="utf-8"))
        processor = names[0] if names else processor
    parts = [f"{processor}, {counted(len(os.sched_getaffinity(0)), 'core')}", f"Python {platform.python_version()}"]
    for package in ("onnxruntime", "onnxruntime-gpu", "torch", "numpy"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)


def instructions() -> str:
    """The instructions for int8 and bf16 that the processor has, as Linux names them."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = (
        re.search(r"^flags\s*: (.+)", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE) if cpuinfo.is_file() else None
    )
    wanted = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
    return ", ".join(flag for flag in wanted if flags and flag in flags[1].split()) or "unknown"


class Stopwatch:
    """Time of a ``with`` block.

    Attributes:
        seconds: wall time.
        cpu: processor time of this process, in seconds.
    """

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
        """Run a job and time it; returns the job's result."""
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


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def mean_and_range(values: Sequence[float] | FloatArray) -> str:
    """Mean of percentages, and in brackets the least and the most."""
    return f"{np.mean(values):.1f} ({min(values):.1f} … {max(values):.1f})"


def peak_memory() -> float:
    """Peak resident memory of this process, in MB; that of ``getrusage`` begins at the peak of the parent process."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def measure_apart(benchmark: str, *options: str) -> Any:
    """Run a benchmark in its own process, so that its memory can be measured; returns the JSON that it prints last."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{benchmark}", *options],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def file_of(collection: str, lang: str) -> Path:
    """The file of an open collection's documents in one language."""
    return DATA / collection / f"docs.{lang}.jsonl.gz"


def read(collection: str, lang: str, limit: int | None = None) -> Iterator[Record]:
    """The first ``limit`` records, or all, of an open collection in one language."""
    with gzip.open(file_of(collection, lang), "rt", encoding="utf-8") as lines:
        yield from map(json.loads, islice(lines, limit))


def read_all(collection: str) -> Iterator[Record]:
    """Every record of an open collection, language by language."""
    for file in sorted((DATA / collection).glob("docs.*.jsonl.gz")):
        yield from read(collection, file.name.split(".")[1])


def write_records(records: Iterable[Mapping[str, object]], file: Path) -> str:
    """Write records to a file of JSON lines; returns its name."""
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return str(file)


def documents(records: Iterable[Record], lang: str) -> list[Document]:
    """Records of one language as documents; ``concept`` and ``label`` are their fields."""
    return [
        Document(
            record["id"],
            lang,
            record["text"],
            record["title"],
            {name: record[name] for name in ("concept", "label") if name in record},
        )
        for record in records
    ]


def tsv(file: str) -> Iterator[list[str]]:
    """Columns of each line of a gzipped TSV file of the open data, without its header."""
    with gzip.open(DATA / file, "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            yield line.rstrip("\n").split("\t")


def topics(collection: str, kind: str, langs: Sequence[str]) -> tuple[list[Topic], list[Qrel]]:
    """An open collection's topics in some languages, and the judgements of these languages' documents."""
    folder = DATA / collection
    all_topics = read_topics(folder / f"topics.{kind}.tsv")
    qrels = read_qrels([folder / f"qrels.{kind}.{lang}.txt" for lang in langs])
    return [topic for topic in all_topics if topic.lang in langs], qrels


def every_nth(topics: Sequence[Topic], every: int) -> list[Topic]:
    """Every n-th topic, in all its languages."""
    qids = set(sorted({topic.qid for topic in topics})[::every])
    return [topic for topic in topics if topic.qid in qids]


def queries(topics: Iterable[Topic]) -> list[Document]:
    """Topics as queries named ``qid.lang``, of title and description."""
    return [Document(f"{topic.qid}.{topic.lang}", topic.lang, topic.text(("title", "description"))) for topic in topics]


def topic_of(query_id: str) -> str:
    """The topic of the query ``qid.lang``."""
    return query_id.rpartition(".")[0]


def judgements(qrels: Sequence[Qrel], langs: Iterable[str]) -> list[Qrel]:
    """Judgements of topics as judgements of the queries ``qid.lang``."""
    return [qrel._replace(query_id=f"{qrel.query_id}.{lang}") for lang in langs for qrel in qrels]


def answerable(
    queries: Iterable[Document], qrels: Iterable[Qrel], doc_ids: set[str]
) -> tuple[list[Document], list[Qrel]]:
    """The judgements of indexed documents, and the queries with a relevant document among them."""
    indexed = [qrel for qrel in qrels if qrel.doc_id in doc_ids]
    answered = {qrel.query_id for qrel in indexed if qrel.relevance > 0}
    return [query for query in queries if query.doc_id in answered], indexed


def average_precisions(
    queries: Sequence[Document], rankings: Sequence[Ranking], qrels: Sequence[Qrel]
) -> dict[str, float]:
    """Average precision of each query's ranking; queries without a relevant document are left out."""
    run = Run(
        "run",
        {
            query.doc_id: list(zip(ranking.doc_ids, map(float, ranking.scores), strict=True))
            for query, ranking in zip(queries, rankings, strict=True)
        },
    )
    return score(run, qrels, parse_measures(["AP"]), {query.doc_id for query in queries}).values("AP")


def scores(
    queries: Sequence[Document], rankings: Sequence[Ranking], qrels: Sequence[Qrel], depth: int
) -> tuple[float, float]:
    """MAP, and the mean share of the query's own language among a ranking's first ``depth`` hits."""
    shares = [
        own_language_share(ranking.langs, query.lang, depth) for query, ranking in zip(queries, rankings, strict=True)
    ]
    return mean(average_precisions(queries, rankings, qrels)), float(np.mean(shares))


def mean(values: Mapping[str, float]) -> float:
    """The mean over topics."""
    return float(np.mean(list(values.values())))


class StoredEncoder:
    """An encoder that encodes each query once and takes the vectors of documents from a store that has them."""

    def __init__(
        self,
        encoder: Encoder,
        store: VectorStore | None = None,
        memory: dict[tuple[str, str], FloatArray] | None = None,
    ) -> None:
        """Use an encoder, without a store for documents too; ``memory`` holds vectors of queries already encoded."""
        self.spec = encoder.spec
        self._encoder = encoder
        self._store = store
        self._memory = {} if memory is None else memory

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """The vectors that the store has, or the encoder's."""
        if self._store is None:
            return self._encoder.encode_documents(documents)
        doc_ids = [document.doc_id for document in documents]
        vectors = self._store.vectors(self.spec.model, doc_ids)
        return Encoded(vectors, self._store.passages(self.spec.model, doc_ids), np.ones((len(doc_ids), 1), np.bool_))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """The encoder's vectors of the queries, (queries, dim)."""
        keys = [(query.lang, query.content) for query in queries]
        new = {key: query for key, query in zip(keys, queries, strict=True) if key not in self._memory}
        if new:
            self._memory |= dict(zip(new, self._encoder.encode_queries(list(new.values())), strict=True))
        return np.stack([self._memory[key] for key in keys])
