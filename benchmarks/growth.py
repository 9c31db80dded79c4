"""How a collection grows: indexing, disk, memory, calibration and search by its documents.

Vectors are synthetic: each is the sum of a component of its language, of its subject and of noise. Nothing is encoded,
so a search is timed without its encoding. The store, the calibration and the searcher are the product's; what searches
runs in a process of its own.
"""

import json
import os
import re
import tempfile
import time
from argparse import Namespace
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks import harness
from benchmarks.search import LANGUAGES
from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Int8Array, Passages, int8_rows, unit_rows
from encoders.top_scores import largest
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import open_database
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument, VectorQuery, VectorStore
from indexer.stores.embedded import EmbeddedStore
from onnx_export.models import DEFAULT
from query.calibration_fitting.calibration_fit import calibrate_open
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.fair_ranker import candidates_of_a_language
from query.ranking.searcher import Searcher
from trials.servers.elastic import client_of, running

DIM = 384
_MORE_LANGUAGES = (
    "da nb uk ro bg hr sk sl et lv lt ga cy mt sq mk sr bs is eu ca gl af sw zu xh am ha yo ig so mg ms id tl th lo km "
    "my mn ka hy az kk ky uz tk tg fa ps ur hi bn pa gu mr ne si ta te"
)
_BATCH = 1_000  # documents made at once; each size is a multiple
_PUT = 500
_SUBJECT_DIM = 128
_COMMON, _LANGUAGE, _SUBJECT, _NOISE, _SPREAD = 1.35, 0.65, 0.7, 0.3, 0.4
_VOCABULARY, _WORDS = 30_000, 60
_CHECKED = 24  # queries whose candidates are compared with the exact ten best
_WARM, _ROUNDS = 40, 40
_STATISTICS_INTERVAL = 1.1
"""Seconds within which Elasticsearch counts its processor time anew: it does so once a second."""
_COLLECTION = "growth"
Figures = dict[str, Any]
_SLOW_IMPORTS = ("ir_measures", "pytrec_eval", "scipy.sparse.csgraph", "sklearn.svm")
"""What a calibration imports: seconds where compiled modules are not kept, whatever the size."""


@dataclass(frozen=True)
class Shape:
    """The size of a collection in each direction."""

    documents: int
    languages: int = 20
    passages: int = 3
    shards: int = 1
    counterparts: int = 0


class Synthetic:
    """Documents, vectors and queries of a shape; as an encoder it encodes the queries of its documents."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        langs = [*LANGUAGES, *_MORE_LANGUAGES.split()]
        self.langs = langs[: shape.languages]
        self.spec = EncoderSpec(DEFAULT, "segments", DIM, (), "synthetic", "synthetic")
        chance = np.random.default_rng(0)
        spectrum = 1 / np.sqrt(np.arange(1, _SUBJECT_DIM + 1))
        basis = chance.standard_normal((_SUBJECT_DIM, DIM))
        self._basis = spectrum[:, None] * basis / np.linalg.norm(basis, axis=1)[:, None] / np.linalg.norm(spectrum)
        common, own = (chance.standard_normal((2, DIM)), chance.standard_normal((2, len(langs), DIM)))
        # of documents, and of queries, which lie elsewhere
        self._components = _COMMON * _rows(common)[:, None] + _LANGUAGE * np.stack([_rows(kind) for kind in own])
        self._words = np.array([f"{_syllables(number)}" for number in range(_VOCABULARY)])

    @cached_property
    def subject_queries(self) -> FloatArray:
        """(queries, dim) unit vectors about subjects of the first documents, without a component of a language."""
        chance = np.random.default_rng(1)
        noise = _NOISE * _rows(chance.standard_normal((_CHECKED, DIM)))
        return unit_rows((_SUBJECT * self._subjects(range(_CHECKED)) + noise).astype(np.float32))

    def _subjects(self, numbers: Sequence[int]) -> FloatArray:
        each = len(self.langs) if self.shape.counterparts else 1
        seeds = [(7, number // each) for number in numbers]
        chances = np.stack([np.random.default_rng(seed).standard_normal(_SUBJECT_DIM) for seed in seeds])
        return np.asarray(chances @ self._basis, dtype=np.float32)

    def batch(self, start: int) -> list[StoredDocument]:
        """Documents from a number on; the languages take turns."""
        numbers = range(start, start + _BATCH)
        chance = np.random.default_rng((3, start))
        subjects = self._subjects(numbers)
        of_languages = self._components[0, [number % len(self.langs) for number in numbers]]
        noise = _NOISE * _rows(chance.standard_normal((_BATCH, DIM)))
        vectors = unit_rows((of_languages + _SUBJECT * subjects + noise).astype(np.float32))
        count = _BATCH * self.shape.passages
        spread = _SPREAD * chance.standard_normal((count, DIM), dtype=np.float32) / np.float32(DIM**0.5)
        passages = int8_rows(np.repeat(vectors, self.shape.passages, axis=0) + spread)
        ranks = (_VOCABULARY ** chance.random((_BATCH, _WORDS))).astype(np.intp)  # Zipf's law
        return [
            self._stored(number, vectors[row], of_document, " ".join(self._words[ranks[row]]))
            for row, (number, of_document) in enumerate(zip(numbers, passages.reshape(_BATCH, -1, DIM), strict=True))
        ]

    def _stored(self, number: int, vector: FloatArray, passages: Int8Array, words: str) -> StoredDocument:
        text = f"Beginning of {number}. {words}."
        borders = np.arange(len(passages) + 1, dtype=np.int32) * (len(text) // len(passages))
        document = Document(f"d{number:09}", self.langs[number % len(self.langs)], text, f"Page {number}")
        return StoredDocument(document, vector, Passages(passages, np.stack([borders[:-1], borders[1:]], axis=1)))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        numbers = [int(re.findall(r"\d+", query.content)[0]) for query in queries]
        subjects = self._subjects(numbers)
        of_languages = self._components[1, [self.langs.index(query.lang) for query in queries]]
        noise = _NOISE * _rows(np.random.default_rng(numbers).standard_normal((len(queries), DIM)))
        return unit_rows((of_languages + _SUBJECT * subjects + noise).astype(np.float32))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        raise NotImplementedError


def _rows(matrix: Any) -> Any:
    return matrix / np.linalg.norm(matrix, axis=-1, keepdims=True)


def _syllables(number: int) -> str:
    digits = np.base_repr(number + 20, 20)
    return "".join("bdfglmnprstvkhjzcxwq"[int(digit, 20)] + "aeiou"[int(digit, 20) % 5] for digit in digits)


class ExactTen:
    """The ten documents of each language nearest to the checked queries, among all documents put so far."""

    def __init__(self, queries: FloatArray) -> None:
        self.queries = queries
        self._best: dict[str, tuple[list[str], FloatArray]] = {}

    def add(self, items: Sequence[StoredDocument]) -> None:
        by_lang: dict[str, list[StoredDocument]] = {}
        for item in items:
            by_lang.setdefault(item.document.lang, []).append(item)
        for lang, of_lang in by_lang.items():
            ids, scores = self._best.get(lang, ([], np.zeros((len(self.queries), 0), np.float32)))
            ids = ids + [item.document.doc_id for item in of_lang]
            scores = np.hstack([scores, self.queries @ np.stack([item.vector for item in of_lang]).T])
            needed = np.unique(np.argpartition(-scores, min(9, len(ids) - 1), axis=1)[:, :10])
            self._best[lang] = [ids[column] for column in needed], scores[:, needed]

    def share_found(self, store: VectorStore, model: str, k: int) -> float:
        candidates = store.search(VectorQuery(model, dict.fromkeys(self._best, self.queries), k))
        hits = total = 0
        for lang, (ids, scores) in self._best.items():
            for row, nearest in zip(scores, candidates[lang], strict=True):
                best = {ids[column] for column in largest(row, 10)}
                hits, total = hits + len(best & set(nearest.doc_ids)), total + len(best)
        return hits / total


class CpuTime:
    """Processor time of a ``with`` block in seconds: this process and, if there is one, the store's server.

    On a busy machine it says more than the time of day.
    """

    def __init__(self, store: VectorStore) -> None:
        self._client = client_of(store.address.server) if isinstance(store, ElasticStore) else None

    def _now(self) -> float:
        if self._client is None:
            return time.process_time()
        time.sleep(_STATISTICS_INTERVAL)
        (node,) = self._client.nodes.stats(metric="process")["nodes"].values()
        return time.process_time() + float(node["process"]["cpu"]["total_in_millis"]) / 1000

    def __enter__(self) -> Self:
        self.seconds = -self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += self._now()


_SEARCHED = """
import json, sys
from benchmarks.growth import Shape, searched
shape, store_url, home = json.loads(sys.argv[1])
print(json.dumps(searched(Shape(**shape), store_url, home)))
"""


def searched(shape: Shape, store_url: str, home: str) -> Figures:
    """Search a filled store with the calibration in a home, which is made if there is none."""
    synthetic = Synthetic(shape)
    for module in _SLOW_IMPORTS:
        import_module(module)
    settings = Settings.read(home, store_url)
    figures = {} if any(Path(home).iterdir()) else calibrated(settings, synthetic)
    with harness.Stopwatch() as first:
        searcher = Searcher.open(_COLLECTION, settings, encoder=synthetic)
        searcher.search("Page 0", lang="en")
    with searcher:
        watches = harness.Stopwatches(_WARM)
        for number in range(_WARM + _ROUNDS):
            text = f"Page {number * 997 % shape.documents}"
            watches.step("search", partial(searcher.search, text, lang="en"))
        with CpuTime(searcher.store) as cpu:
            for number in range(_ROUNDS // 2):
                searcher.search(f"Page {number * 991 % shape.documents}", lang="en")
    return figures | {
        "opening and first search, s": first.seconds,
        "search in all languages, p50 ms": watches.medians()["search"],
        "processor time of a search, ms": 1000 * cpu.seconds / (_ROUNDS // 2),
        "peak memory of the searching process, MB": harness.peak_memory(),
    }


def calibrated(settings: Settings, synthetic: Synthetic) -> Figures:
    with open_database(settings.database) as engine:
        collections.register(engine, _COLLECTION, settings, DEFAULT, synthetic.spec)
    with OpenCollection.open(_COLLECTION, settings) as opened:
        opened.encoder = synthetic
        with harness.Stopwatch() as watch, CpuTime(opened.store) as cpu:
            calibrate_open(opened, CalibrationRequest())
    return {"first calibration, s": watch.seconds, "its processor time, s": cpu.seconds}


def fill(store: VectorStore, synthetic: Synthetic, start: int, exact: ExactTen) -> float:
    """Put the documents from a number up to the shape's size; seconds of the store alone."""
    seconds = 0.0
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(synthetic.batch, start)
        for number in range(start, synthetic.shape.documents, _BATCH):
            items = coming.result()
            coming = pool.submit(synthetic.batch, number + _BATCH)
            exact.add(items)
            with harness.Stopwatch() as watch:
                for at in range(0, len(items), _PUT):
                    store.put(synthetic.spec.model, items[at : at + _PUT])
            seconds += watch.seconds
    return seconds


def of_server(store: ElasticStore, documents: int) -> Figures:
    """What the index of a store takes, when the server has nothing to merge any more."""
    client = client_of(store.address.server)
    client.indices.refresh(index=store.index)
    while (primaries := client.indices.stats(index=store.index)["_all"]["primaries"])["merges"]["current"]:
        time.sleep(1)
    vectors, kilobytes = primaries["dense_vector"]["off_heap"], 1000 * documents
    walked = vectors["total_vex_size_bytes"] + vectors["total_veq_size_bytes"]
    return {
        "disk, kB a document": primaries["store"]["size_in_bytes"] / kilobytes,
        "raw vectors of it, kB": vectors["total_vec_size_bytes"] / kilobytes,
        "graph and int8 vectors of it, kB": walked / kilobytes,
    }


def grown(shape: Shape, sizes: Sequence[int], calibrate_at: Collection[int], *, elastic: bool) -> Iterator[Figures]:
    """The figures of a store that grows to each of the sizes.

    At sizes that are not in ``calibrate_at``, unless it is empty, the calibration of the size before is searched with.
    """
    with ExitStack() as stack:
        new_folder = partial(tempfile.TemporaryDirectory, prefix="dragoman-growth-")
        os.environ.setdefault("ES_JAVA_OPTS", "-Xms4g -Xmx4g")
        place = stack.enter_context(running()).url if elastic else Path(stack.enter_context(new_folder())).as_uri()
        url = f"{place}/growth?replicas=0&shards={shape.shards}" if elastic else f"{place}/growth"
        start, home, exact = 0, "", ExactTen(Synthetic(shape).subject_queries)
        for documents in sizes:
            synthetic = Synthetic(replace(shape, documents=documents))
            if not (home and calibrate_at) or documents in calibrate_at:
                home = stack.enter_context(new_folder())
            with closing(StoreLocation(url, _COLLECTION).open()) as store:
                store.create(synthetic.spec.model, DIM)
                with CpuTime(store) as cpu:
                    put_s = fill(store, synthetic, start, exact)
                    store.publish()
                put, start = documents - start, documents
                figures = {"documents": documents, "put, documents/s": put / put_s}
                figures["processor time of a document, which is made meanwhile, ms"] = 1000 * cpu.seconds / put
                if isinstance(store, ElasticStore):
                    of_language = candidates_of_a_language(shape.languages)
                    figures |= of_server(store, documents)
                    share = exact.share_found(store, synthetic.spec.model, of_language)
                    figures["exact ten best among the candidates, %"] = 100 * share
            figures |= harness.measure_apart(_SEARCHED, json.dumps([asdict(synthetic.shape), url, home]))
            if isinstance(store, EmbeddedStore):
                figures["disk, kB a document"] = store.path.stat().st_size / documents / 1000
            print(json.dumps(figures), flush=True)
            yield figures


@harness.benchmark(
    "", store="elastic", values="10000,20000", calibrate="", languages=20, passages=3, shards=1, counterparts=0
)
def measure(arguments: Namespace) -> None:
    """``values`` are numbers of documents, ``calibrate`` those at which to calibrate anew (at each, unless given)."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of what searches: threads that wait actively take the server's time
    sizes, calibrate_at = (
        [int(value) for value in values.split(",") if value] for values in (arguments.values, arguments.calibrate)
    )
    shape = Shape(sizes[0], arguments.languages, arguments.passages, arguments.shards, arguments.counterparts)
    by_size: list[Figures] = []
    for figures in grown(shape, sizes, calibrate_at, elastic=arguments.store == "elastic"):
        by_size.append(figures)
        names = list(dict.fromkeys(name for of_size in by_size for name in of_size))
        cells = ([name, *(f"{of_size.get(name, np.nan):,.2f}" for of_size in by_size)] for name in names)
        harness.write(f"Growth, {arguments.store} store", harness.table("figure" + " | " * len(by_size), cells))
