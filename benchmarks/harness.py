"""What benchmarks share: the open collections, rankings and their precision, seconds, and the page of results.

A benchmark writes its own section of ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Self

import numpy as np
from ir_measures import Qrel

from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray
from indexer.stores.contract import VectorStore
from query.evaluation.fairness import own_language_share
from query.evaluation.measures import evaluate, parse_measures
from query.evaluation.qrels import read_qrels
from query.evaluation.topics import Topic, read_topics
from query.evaluation.trec_run import Run
from query.ranking.hits import Ranking

PAGE = Path(__file__).parent / "RESULTS.md"
DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
LANGUAGES = ("en", "de", "fr", "it", "es", "ru", "fi", "ja", "zh")
"""Nine languages of which each open collection has documents or topics."""

KINDS = {"lohelp": "index", "ntrex": "headline"}
"""The kind of topics that a collection has."""

Record = dict[str, str]
_HEAD = """\
# Results

Written by the benchmarks themselves (`make bench`, or one at a time: `python -m benchmarks.NAME`). Absolute times are
of the machine named under each heading, while others used it; the ratios are of one run and are what counts.
"""


def write(name: str, command: str, lines: Sequence[str]) -> None:
    """Write a section to the page; it replaces the section of the same name."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else _HEAD
    section = f"## {name}\n\n`{command}`, on {machine()}.\n\n" + "\n".join(lines) + "\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    old = pattern.search(page)
    page = page[: old.start()] + section + "\n" + page[old.end() :] if old else f"{page}\n{section}"
    PAGE.write_text(page.rstrip() + "\n", encoding="utf-8")
    print(section)


def machine() -> str:
    """Processor, cores, Python and the versions that decide speed."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = re.findall(r"model name\s*: (.+)", cpuinfo.read_text(encoding="utf-8"))
        processor = names[0] if names else processor
    parts = [f"{processor}, {len(os.sched_getaffinity(0))} cores", f"Python {platform.python_version()}"]
    for package in ("onnxruntime", "torch", "numpy"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)


class Stopwatch:
    """Time of a ``with`` block.

    Attributes:
        seconds: by the clock.
        cpu: of this process's processors, in seconds.
    """

    def __enter__(self) -> Self:
        self.seconds, self.cpu = -perf_counter(), -process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += perf_counter()
        self.cpu += process_time()


class Stopwatches:
    """Milliseconds of several steps of one query, over many queries; the first queries are not counted."""

    def __init__(self, uncounted: int) -> None:
        self._uncounted = uncounted
        self._seconds: dict[str, list[float]] = {}

    def step(self, name: str, job: Callable[[], Any]) -> Any:
        """Do a job and time it; returns the job's result."""
        with Stopwatch() as watch:
            result = job()
        self._seconds.setdefault(name, []).append(watch.seconds)
        return result

    def medians(self) -> dict[str, float]:
        """Median of each step in ms, in the order of the first query."""
        return {name: 1000 * statistics.median(values[self._uncounted :]) for name, values in self._seconds.items()}


def in_turn(jobs: Mapping[str, Callable[[], object]], rounds: int = 3) -> dict[str, list[float]]:
    """Seconds of each job in each round, the jobs taking turns, after one uncounted run of each."""
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
    """How many times faster, round by round: median, and the span of the rounds."""
    ratios = sorted(a / b for a, b in zip(slow, fast, strict=True))
    return f"{statistics.median(ratios):.2f} (rounds {ratios[0]:.2f} … {ratios[-1]:.2f})"


def read(collection: str, lang: str, limit: int | None = None) -> Iterator[Record]:
    """The first ``limit`` records, or all, of an open collection in one language."""
    with gzip.open(DATA / collection / f"docs.{lang}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, islice(lines, limit))


def read_all(collection: str) -> Iterator[Record]:
    """Every record of an open collection, language by language."""
    for file in sorted((DATA / collection).glob("docs.*.jsonl.gz")):
        yield from read(collection, file.name.split(".")[1])


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
    """Columns of each line of a packed TSV file of the open data, without its header."""
    with gzip.open(DATA / file, "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            yield line.rstrip("\n").split("\t")


def topics(collection: str, kind: str, langs: Sequence[str]) -> tuple[list[Topic], list[Qrel]]:
    """An open collection's topics in some languages, and the judgements of these languages' documents."""
    folder = DATA / collection
    every = read_topics(folder / f"topics.{kind}.tsv")
    qrels = read_qrels([folder / f"qrels.{kind}.{lang}.txt" for lang in langs])
    return [topic for topic in every if topic.lang in langs], qrels


def queries(topics: Iterable[Topic]) -> list[Document]:
    """Topics as queries named ``qid.lang``, of title and description."""
    return [Document(f"{topic.qid}.{topic.lang}", topic.lang, topic.text(("title", "description"))) for topic in topics]


def judgements(qrels: Iterable[Qrel], langs: Iterable[str]) -> list[Qrel]:
    """Judgements of topics as judgements of the queries ``qid.lang``."""
    judged = list(qrels)
    return [qrel._replace(query_id=f"{qrel.query_id}.{lang}") for lang in langs for qrel in judged]


def answerable(
    queries: Iterable[Document], qrels: Iterable[Qrel], doc_ids: set[str]
) -> tuple[list[Document], list[Qrel]]:
    """The judgements of indexed documents, and the queries with a relevant document among them."""
    present = [qrel for qrel in qrels if qrel.doc_id in doc_ids]
    answered = {qrel.query_id for qrel in present if qrel.relevance > 0}
    return [query for query in queries if query.doc_id in answered], present


def average_precisions(
    queries: Sequence[Document], rankings: Sequence[Ranking], qrels: Sequence[Qrel]
) -> dict[str, float]:
    """Average precision of each query's ranking; a query that lacks a relevant document has none."""
    run = Run(
        "run",
        {
            query.doc_id: list(zip(ranking.doc_ids, map(float, ranking.scores), strict=True))
            for query, ranking in zip(queries, rankings, strict=True)
        },
    )
    return evaluate(run, qrels, parse_measures(["AP"]), {query.doc_id for query in queries}).values("AP")


def scores(
    queries: Sequence[Document], rankings: Sequence[Ranking], qrels: Sequence[Qrel], depth: int
) -> tuple[float, float]:
    """MAP, and the mean share of the query's own language among a ranking's first ``depth`` hits."""
    own = [
        own_language_share(ranking.langs, query.lang, depth) for query, ranking in zip(queries, rankings, strict=True)
    ]
    return mean(average_precisions(queries, rankings, qrels)), float(np.mean(own))


def mean(values: Mapping[str, float]) -> float:
    """The mean over topics."""
    return float(np.mean(list(values.values())))


class StoredEncoder:
    """An encoder that encodes each query once and takes the vectors of documents from a store that has them.

    Attributes:
        spec: the encoder's.
    """

    def __init__(
        self,
        encoder: Encoder,
        store: VectorStore | None = None,
        memory: dict[tuple[str, str], FloatArray] | None = None,
    ) -> None:
        """Take over an encoder; without a store it encodes documents too. ``memory`` holds queries of other runs."""
        self.spec: EncoderSpec = encoder.spec
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
