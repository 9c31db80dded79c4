"""How a collection grows: indexing, disk, memory, calibration and search by its documents.

Each vector is mixed of those of two pages of help in its language, and noise; each language has fewer documents than
the one before. Nothing else is encoded, so a search is timed without its encoding, in a process of its own.
"""

import json
import os
import re
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import lru_cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks import harness
from encoders.console import Console
from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from encoders.methods.method_registry import open_encoder
from encoders.top_scores import largest
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import open_database
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument, VectorQuery, VectorStore
from indexer.stores.embedded import EmbeddedStore
from onnx_export.models import DEFAULT, find_model
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import CorrectedQueries
from query.calibration_fitting.calibration_fit import calibrate_open
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.fair_ranker import candidates_of_a_language
from query.ranking.searcher import Searcher
from trials.servers.elastic import client_of, running

DIM = 384
_OF_PAGES = "en de fr it es ru fi ja zh cs da el hu id ko nl pl pt sv tr".split()  # noqa: SIM905 - shorter to read
_PAGES, _PASSAGES = 280, 8  # maximum pages of a language, and passages of each, that vectors are mixed of
_BATCH, _PUT = 1_000, 500  # documents made at once, of which each size is a multiple, and put at once
_SMALLER = 0.87  # share of a language's documents that the next language has
_NOISE, _QUERY_NOISE = 0.15, 0.1  # lengths
_VOCABULARY, _WORDS = 30_000, 60
_CHECKED = 16  # queries of each of three languages whose candidates are compared with the exact ten best
_WARM, _ROUNDS = 150, 60
_STATISTICS_INTERVAL = 1.1  # seconds: Elasticsearch counts its processor time once a second
_COLLECTION = "growth"
Figures = dict[str, Any]


def encode_pages(file: Path) -> None:
    """Write vectors and passages of pages in each language, ordered by concept, and of their titles as queries."""
    encoder, arrays = open_encoder(find_model(DEFAULT, Console()), device="cpu"), dict[str, Any]()
    for lang in _OF_PAGES:
        pages = harness.documents(list(harness.read("lohelp", lang))[::3][:_PAGES], lang)
        pages.sort(key=lambda page: str(page.fields["concept"]))
        titles = [Document("query", lang, page.title or page.content[:60]) for page in pages]
        encoded = encoder.encode_documents(pages)
        passages = [np.resize(of_page.without_title().vectors, (_PASSAGES, DIM)) for of_page in encoded.passages]
        arrays |= {f"{lang} document": encoded.vectors, f"{lang} passage": np.stack(passages)}
        arrays[f"{lang} query"] = encoder.encode_queries(titles)
        arrays[f"{lang} concepts"] = np.array([page.fields["concept"] for page in pages])
    np.savez(file, allow_pickle=False, **arrays)


class Mixed:
    """Documents with vectors; as an encoder it encodes the queries of its documents."""

    def __init__(self, pages: Path, documents: int, languages: int, passages: int) -> None:
        self.documents, self.passages, self.langs = documents, passages, _OF_PAGES[:languages]
        self.spec = EncoderSpec(DEFAULT, "segments", DIM, (), "synthetic", "synthetic")
        with np.load(pages) as arrays:
            self._pages = {name: arrays[name] for name in arrays.files}
        concepts = np.unique(np.concatenate([self._pages[f"{lang} concepts"] for lang in _OF_PAGES]))
        names = {lang: self._pages[f"{lang} concepts"] for lang in self.langs}
        self._near = {lang: np.searchsorted(names[lang][:-1], concepts) for lang in self.langs}
        shares = _SMALLER ** np.arange(len(self.langs))
        counts = np.rint(_BATCH * shares / shares.sum()).astype(int)
        counts[0] += _BATCH - counts.sum()
        order = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
        self.languages = [self.langs[number] for number in order]  # of the documents of each batch
        self._words = np.array([np.base_repr(36**4 + number, 36) for number in range(_VOCABULARY)])
        self._chances = lru_cache(_BATCH)(lambda batch: np.random.default_rng((7, batch)).random((_BATCH, 3)))

    def _mixed(self, kind: str, numbers: Sequence[int], langs: Sequence[str]) -> FloatArray:
        """What the two pages of each document's subject have of a kind, mixed."""
        mixed = []
        for number, lang in zip(numbers, langs, strict=True):
            *pair, share = self._chances(number // _BATCH)[number % _BATCH]
            pages, near = self._pages[f"{lang} {kind}"], self._near[lang]  # by concept the page, or the next
            first, second = (unit_rows(np.atleast_2d(pages[near[int(chance * len(near))]])) for chance in pair)
            mixed.append(first * np.float32(0.6 + 0.4 * share) + second * np.float32(0.4 - 0.4 * share))
        return np.stack(mixed)

    def vectors(self, start: int) -> FloatArray:
        """(batch, dim) vectors of the documents from a number on."""
        vectors = self._mixed("document", range(start, start + _BATCH), self.languages)[:, 0]
        return unit_rows(vectors + _noise((3, start), vectors.shape, _NOISE))

    def batch(self, start: int) -> list[StoredDocument]:
        numbers, vectors = range(start, start + _BATCH), self.vectors(start)
        shown = np.arange(self.passages) % _PASSAGES
        passages = unit_rows(self._mixed("passage", numbers, self.languages)[:, shown].reshape(-1, DIM))
        rows = int8_rows(passages + _noise((5, start), passages.shape, _NOISE)).reshape(_BATCH, -1, DIM)
        chance = np.random.default_rng((4, start)).random((_BATCH, _WORDS))
        words = self._words[(_VOCABULARY**chance).astype(np.intp)]  # Zipf's law
        texts = [f"Beginning of {number}. {' '.join(row)}." for number, row in zip(numbers, words, strict=True)]
        borders = np.arange(self.passages + 1, dtype=np.int32) * (len(texts[0]) // self.passages)
        offsets = np.stack([borders[:-1], borders[1:]], axis=1)
        columns = numbers, self.languages, texts, vectors, rows
        return [
            StoredDocument(Document(f"d{number:09}", lang, text, f"Page {number}"), vector, Passages(levels, offsets))
            for number, lang, text, vector, levels in zip(*columns, strict=True)
        ]

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        numbers = [int(re.findall(r"\d+", query.content)[0]) for query in queries]
        vectors = self._mixed("query", numbers, [query.lang for query in queries])[:, 0]
        return unit_rows(vectors + _noise(numbers, vectors.shape, _QUERY_NOISE))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        raise NotImplementedError


def _noise(seed: Any, shape: tuple[int, ...], length: float) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)) * np.float32(length)


def exact_ten_found(searcher: Searcher, mixed: Mixed, calibration: Calibration) -> Figures:
    """Shares of the ten documents of each language nearest to queries, without means, that are candidates."""
    documents = [
        Document("query", lang, f"Page {number * 7919 % mixed.documents}")
        for lang in (mixed.langs[0], mixed.langs[len(mixed.langs) // 3], mixed.langs[-1])
        for number in range(_CHECKED)
    ]
    vectors, compared = mixed.encode_queries(documents), dict[str, CorrectedQueries]()
    for row in range(0, len(documents), _CHECKED):
        lang = documents[row].lang
        compared[lang] = calibration.compared(calibration.correct_queries(vectors[row : row + _CHECKED], lang), lang)
    best = {lang: (np.zeros(0, np.int64), np.zeros((len(documents), 0), np.float32)) for lang in mixed.langs}
    for start in range(0, mixed.documents, _BATCH):
        batch, numbers = mixed.vectors(start), np.arange(start, start + _BATCH)
        for lang in mixed.langs:
            rows = np.flatnonzero(np.array(mixed.languages) == lang)
            of_lang = calibration.correct_documents(batch[rows], {lang: slice(0, len(rows))})
            asked = [queries.toward(lang) for queries in compared.values()]
            ids = np.concatenate((best[lang][0], numbers[rows]))
            scores = np.hstack((best[lang][1], np.concatenate(asked) @ of_lang.T))
            nearest = np.unique(np.argpartition(-scores, min(9, len(ids) - 1), axis=1)[:, :10])
            best[lang] = ids[nearest], scores[:, nearest]
    shares = {}
    for lang, (ids, scores) in best.items():
        asked = [calibration.candidate_queries(own.toward(lang), lang, lang=code) for code, own in compared.items()]
        query = VectorQuery(mixed.spec.model, {lang: np.concatenate(asked)}, candidates_of_a_language(len(mixed.langs)))
        pairs = zip(scores, searcher.store.search(query)[lang], strict=True)
        found = [{f"d{ids[column]:09}" for column in largest(row, 10)} & set(near.doc_ids) for row, near in pairs]
        shares[lang] = float(np.mean(list(map(len, found))))
    return {
        "exact ten best among the candidates, %": 10 * float(np.mean(list(shares.values()))),
        "the same of the largest language": 10 * shares[mixed.langs[0]],
        "the same of the smallest language": 10 * shares[mixed.langs[-1]],
    }


class CpuTime:
    """Processor time of a ``with`` block in seconds: of this process and, if there is one, of the store's server."""

    def __init__(self, store: VectorStore) -> None:
        self._client = client_of(store.address.server) if isinstance(store, ElasticStore) else None

    def _now(self) -> FloatArray:
        if self._client is None:
            return np.array([time.process_time(), 0.0])
        time.sleep(_STATISTICS_INTERVAL)
        (node,) = self._client.nodes.stats(metric="process")["nodes"].values()
        return np.array([time.process_time(), node["process"]["cpu"]["total_in_millis"] / 1000])

    def __enter__(self) -> Self:
        self._begun = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        client, self.server = (self._now() - self._begun).tolist()
        self.seconds = client + self.server


def searched(pages: Path, documents: int, languages: int, passages: int, store_url: str, home: str) -> Figures:
    """Calibrate a filled store in an empty home, and search it."""
    mixed, settings = Mixed(pages, documents, languages, passages), Settings.read(home, store_url)
    figures = calibrated(settings, mixed)
    with harness.Stopwatch() as first:
        searcher = Searcher.open(_COLLECTION, settings, encoder=mixed)
        searcher.search("Page 0", lang="en")
    texts = [f"Page {number * 997 % documents}" for number in range(1, _WARM + 2 * _ROUNDS)]
    with searcher:
        watches = harness.Stopwatches(_WARM)
        for text in texts[: _WARM + _ROUNDS]:
            watches.step("search", partial(searcher.search, text, lang="en"))
        return figures | {
            "opening and first search, s": first.seconds,
            "search in all languages, p50 ms": watches.medians()["search"],
            **of_searches(searcher, mixed, texts[_WARM + _ROUNDS :]),
            "peak memory of the searching process, MB": harness.peak_memory(),
        }


def of_searches(searcher: Searcher, mixed: Mixed, texts: Sequence[str]) -> Figures:
    """Processor time of searches, and of the server for their kNN alone, of which it returns a hit a language."""
    store, searches, model = searcher.store, list[list[Any]](), mixed.spec.model
    with CpuTime(store) as cpu:
        for text in texts:
            searcher.search(text, lang="en")
    figures = {"processor time of a search, ms": 1000 * cpu.seconds / len(texts)}
    if not isinstance(store, ElasticStore) or searcher.calibration is None:
        return figures
    for text in texts:
        targets = dict.fromkeys(mixed.langs, mixed.encode_queries([Document("query", "en", text)]))
        bodies = store.bodies(VectorQuery(model, targets, candidates_of_a_language(len(targets))))
        searches.append([part for body in bodies for part in ({"index": store.index}, {**body, "size": 1})])
    with client_of(store.address.server) as client, CpuTime(store) as knn:
        for of_text in searches:
            client.msearch(searches=of_text)
    return figures | {
        "of it the server, ms": 1000 * cpu.server / len(texts),
        "of that its kNN, ms": 1000 * knn.server / len(texts),
        **exact_ten_found(searcher, mixed, searcher.calibration),
    }


def calibrated(settings: Settings, mixed: Mixed) -> Figures:
    with open_database(settings.database) as engine:
        collections.register(engine, _COLLECTION, settings, DEFAULT, mixed.spec)
    with OpenCollection.open(_COLLECTION, settings) as opened:
        opened.encoder = mixed
        with harness.Stopwatch() as watch, CpuTime(opened.store) as cpu:
            calibrate_open(opened, CalibrationRequest())
    return {"first calibration, s": watch.seconds, "its processor time, s": cpu.seconds}


def fill(store: VectorStore, mixed: Mixed, start: int) -> float:
    """Put the documents from a number on; seconds of the store alone."""
    seconds = 0.0
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(mixed.batch, start)
        for number in range(start, mixed.documents, _BATCH):
            items = coming.result()
            coming = pool.submit(mixed.batch, number + _BATCH)
            with harness.Stopwatch() as watch:
                for at in range(0, len(items), _PUT):
                    store.put(mixed.spec.model, items[at : at + _PUT])
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
        "graph and int8 vectors of it, kB": walked / kilobytes,
    }


def grown(arguments: Namespace) -> Iterator[Figures]:
    """The figures of a store that grows to each of the sizes."""
    with ExitStack() as stack:
        new_folder = partial(tempfile.TemporaryDirectory, prefix="dragoman-growth-")
        os.environ.setdefault("ES_JAVA_OPTS", "-Xms4g -Xmx4g")
        elastic = arguments.store == "elastic"
        place = stack.enter_context(running()).url if elastic else Path(stack.enter_context(new_folder())).as_uri()
        url = f"{place}/growth?replicas=0&shards={arguments.shards}" if elastic else f"{place}/growth"
        for start, documents in pairwise((0, *map(int, arguments.documents.split(",")))):
            shape = documents, arguments.languages, arguments.passages
            mixed = Mixed(arguments.pages, *shape)
            with closing(StoreLocation(url, _COLLECTION).open()) as store:
                store.create(mixed.spec.model, DIM)
                with CpuTime(store) as cpu:
                    put_s = fill(store, mixed, start)
                    store.publish()
                figures = {
                    "documents": documents,
                    "put, documents/s": (documents - start) / put_s,
                    "processor time of one that is made meanwhile, ms": 1000 * cpu.seconds / (documents - start),
                    **(of_server(store, documents) if isinstance(store, ElasticStore) else {}),
                }
            home = stack.enter_context(new_folder())
            with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # its memory is its own
                figures |= apart.submit(searched, arguments.pages, *shape, url, home).result()
            if isinstance(store, EmbeddedStore):
                figures["disk, kB a document"] = store.path.stat().st_size / documents / 1000
            print(json.dumps(figures), flush=True)
            yield figures


@harness.benchmark(
    "Growth, {store} store", pages=Path, store="elastic", documents="10000,20000", languages=20, passages=3, shards=1
)
def measure(arguments: Namespace) -> list[str]:
    """``pages`` is a file, NAME.npz, with the encoded pages; it is made if it is missing."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of what searches: threads that wait actively take the server's time
    if not arguments.pages.is_file():
        encode_pages(arguments.pages)
    by_size = list(grown(arguments))
    rows = ([name, *(f"{figures[name]:,.2f}" for figures in by_size)] for name in by_size[0])
    return harness.table("figure" + " | " * len(by_size), rows)
