"""How a collection grows: indexing, disk, memory, calibration and search by its documents.

Each vector is mixed of those of two pages of help in its language, and noise; languages have 15 to 1 % of the documents
each. Only the pages are encoded, once, so a search is timed without its encoding. The store, the calibration and the
searcher are the product's; what searches runs in a process of its own.
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
from functools import lru_cache, partial
from importlib import import_module
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
from query.calibration_fitting.calibration_fit import calibrate_open
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.fair_ranker import candidates_of_a_language
from query.ranking.searcher import Searcher
from trials.servers.elastic import client_of, running

DIM = 384
_OF_PAGES = "en de fr it es ru fi ja zh cs da el hu id ko nl pl pt sv tr".split()  # noqa: SIM905 - shorter to read
_MORE_LANGUAGES = (
    "vi nb uk ro bg hr sk sl et lv lt ga cy mt sq mk sr bs is eu ca gl af sw zu xh am ha yo ig so mg ms ar tl th lo km "
    "my mn ka hy az kk ky uz tk tg fa ps ur hi bn pa gu mr ne si ta te"
)
_PAGES, _PASSAGES = 280, 8  # maximum pages of a language, and passages of each, that vectors are mixed of
_BATCH = 1_000  # documents made at once; each size is a multiple
_PUT = 500
_LARGER = 1 / 0.87  # times that a language has more documents than the next, down to the twentieth
_NOISE, _QUERY_NOISE, _LANGUAGE = 0.15, 0.1, 0.3  # lengths; the last of what tells languages without pages apart
_VOCABULARY, _WORDS = 30_000, 60
_CHECKED = 16  # queries of each of three languages whose candidates are compared with the exact ten best
_WARM, _ROUNDS = 40, 60
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


def encode_pages(file: Path) -> None:
    """Write vectors and passages of pages in each language, ordered by concept, and of their titles as queries."""
    encoder, arrays = open_encoder(find_model(DEFAULT, Console()), device="cpu"), {}
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
    """Documents, vectors and queries of a shape; as an encoder it encodes the queries of its documents."""

    def __init__(self, shape: Shape, pages: Path) -> None:
        self.shape, chance = shape, np.random.default_rng(0)
        self.langs = [*_OF_PAGES, *_MORE_LANGUAGES.split()][: shape.languages]
        self.spec = EncoderSpec(DEFAULT, "segments", DIM, (), "synthetic", "synthetic")
        with np.load(pages) as arrays:
            names = {lang: arrays[f"{lang} concepts"] for lang in _OF_PAGES}
            self._pages = {name: arrays[name] for name in arrays.files}
        concepts = np.unique(np.concatenate(list(names.values())))
        near = {lang: np.searchsorted(of_lang, concepts) for lang, of_lang in names.items()}
        self._near = {lang: np.minimum(rows, len(names[lang]) - 1) for lang, rows in near.items()}
        more = _rows(chance.standard_normal((len(self.langs), DIM))) * _LANGUAGE
        self._of_language = np.where(np.arange(len(self.langs))[:, None] < len(_OF_PAGES), 0, more).astype(np.float32)
        shares = _LARGER ** -np.minimum(np.arange(len(self.langs)), 19)
        counts = np.rint(_BATCH * shares / shares.sum()).astype(int)
        counts[0] += _BATCH - counts.sum()
        by_turns = np.arange(_BATCH) % len(self.langs)
        languages = by_turns if shape.counterparts else chance.permutation(np.repeat(np.arange(len(counts)), counts))
        self._languages = languages  # of the documents of a batch
        self._words = np.array([f"{_syllables(number)}" for number in range(_VOCABULARY)])
        self._chances = lru_cache(_BATCH)(lambda block: np.random.default_rng((7, block)).random((_BATCH, 3)))

    def _mixed(self, kind: str, number: int, language: int) -> FloatArray:
        """What the two pages of a document's subject have of a kind, mixed."""
        subject = number // len(self.langs) if self.shape.counterparts else number
        first, second, share = self._chances(subject // _BATCH)[subject % _BATCH]
        lang, weight = _OF_PAGES[language % len(_OF_PAGES)], np.float32(0.6 + 0.4 * share)
        pages, rows = self._pages[f"{lang} {kind}"], self._near[lang]  # by concept the page, or the next
        mixed = weight * unit_rows(np.atleast_2d(pages[rows[int(first * len(rows))]]))
        mixed += (1 - weight) * unit_rows(np.atleast_2d(pages[rows[int(second * len(rows))]]))
        return np.asarray((mixed + self._of_language[language]).squeeze())

    def languages(self, start: int) -> Any:
        """(batch,) languages, by number, of the documents from a number on."""
        return (start + np.arange(_BATCH)) % len(self.langs) if self.shape.counterparts else self._languages

    def vectors(self, start: int) -> FloatArray:
        """(batch, dim) vectors of the documents from a number on."""
        pairs = zip(range(start, start + _BATCH), self.languages(start), strict=True)
        vectors = np.stack([self._mixed("document", number, language) for number, language in pairs])
        return unit_rows(vectors + _noise((3, start), vectors.shape, _NOISE))

    def batch(self, start: int) -> list[StoredDocument]:
        """Documents from a number on."""
        chance, vectors, count = np.random.default_rng((4, start)), self.vectors(start), self.shape.passages
        pairs = list(zip(range(start, start + _BATCH), self.languages(start), strict=True))
        passages = np.stack([self._mixed("passage", number, language) for number, language in pairs])
        passages = unit_rows(np.resize(passages.swapaxes(0, 1), (count, _BATCH, DIM)).swapaxes(0, 1).reshape(-1, DIM))
        rows = int8_rows(passages + _noise((5, start), passages.shape, _NOISE)).reshape(_BATCH, count, DIM)
        ranks = (_VOCABULARY ** chance.random((_BATCH, _WORDS))).astype(np.intp)  # Zipf's law
        return [
            self._stored(number, self.langs[language], vectors[row], rows[row], " ".join(self._words[ranks[row]]))
            for row, (number, language) in enumerate(pairs)
        ]

    def _stored(self, number: int, lang: str, vector: FloatArray, passages: Any, words: str) -> StoredDocument:
        text = f"Beginning of {number}. {words}."
        borders = np.arange(len(passages) + 1, dtype=np.int32) * (len(text) // len(passages))
        document = Document(f"d{number:09}", lang, text, f"Page {number}")
        return StoredDocument(document, vector, Passages(passages, np.stack([borders[:-1], borders[1:]], axis=1)))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        numbers = [int(re.findall(r"\d+", query.content)[0]) for query in queries]
        pairs = zip(numbers, (self.langs.index(query.lang) for query in queries), strict=True)
        vectors = np.stack([self._mixed("query", number, language) for number, language in pairs])
        return unit_rows(vectors + _noise(numbers, vectors.shape, _QUERY_NOISE))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        raise NotImplementedError


def _rows(matrix: Any) -> Any:
    return matrix / np.linalg.norm(matrix, axis=-1, keepdims=True)


def _noise(seed: Any, shape: tuple[int, ...], length: float) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)) * np.float32(length)


def _syllables(number: int) -> str:
    digits = np.base_repr(number + 20, 20)
    return "".join("bdfglmnprstvkhjzcxwq"[int(digit, 20)] + "aeiou"[int(digit, 20) % 5] for digit in digits)


def exact_ten_found(searcher: Searcher, mixed: Mixed) -> Figures:
    """Shares of the ten documents of each language nearest to queries, without means, that are candidates."""
    calibration, count = searcher.calibration, candidates_of_a_language(len(mixed.langs))
    assert calibration is not None
    numbers = [number * 7919 % mixed.shape.documents for number in range(_CHECKED)]
    best: dict[str, tuple[list[str], FloatArray]] = {}
    near: dict[str, list[FloatArray]] = {lang: [] for lang in mixed.langs}
    exact: dict[str, list[FloatArray]] = {lang: [] for lang in mixed.langs}
    for lang in (mixed.langs[0], mixed.langs[len(mixed.langs) // 3], mixed.langs[-1]):
        queries = mixed.encode_queries([Document("query", lang, f"Page {number}") for number in numbers])
        corrected = calibration.correct_queries(queries, lang)
        compared = calibration.compared(corrected, lang)
        for target in mixed.langs:
            exact[target].append(compared.toward(target))
            near[target].append(calibration.candidate_queries(compared.toward(target), target, lang=lang))
    for start in range(0, mixed.shape.documents, _BATCH):
        vectors, languages = mixed.vectors(start), mixed.languages(start)
        for number in np.unique(languages).tolist():
            rows, lang = np.flatnonzero(languages == number), mixed.langs[number]
            documents = calibration.correct_documents(vectors[rows], {lang: slice(0, len(rows))})
            ids, scores = best.get(lang, ([], np.zeros((3 * _CHECKED, 0), np.float32)))
            ids = ids + [f"d{start + row:09}" for row in rows.tolist()]
            scores = np.hstack([scores, np.concatenate(exact[lang]) @ documents.T])
            needed = np.unique(np.argpartition(-scores, min(9, len(ids) - 1), axis=1)[:, :10])
            best[lang] = [ids[column] for column in needed], scores[:, needed]
    shares = {}
    for lang, (ids, scores) in best.items():
        query = VectorQuery(mixed.spec.model, {lang: np.concatenate(near[lang])}, count)
        pairs = zip(scores, searcher.store.search(query)[lang], strict=True)
        found = [len({ids[column] for column in largest(row, 10)} & set(nearest.doc_ids)) for row, nearest in pairs]
        shares[lang] = 100 * float(np.mean(found)) / min(10, len(ids))
    return {
        "exact ten best among the candidates, %": float(np.mean(list(shares.values()))),
        "the same of the largest language": shares[mixed.langs[0]],
        "the same of the smallest language": shares[mixed.langs[-1]],
    }


class CpuTime:
    """Processor time of a ``with`` block in seconds: of this process and, if there is one, of the store's server.

    On a busy machine it says more than the time of day.
    """

    def __init__(self, store: VectorStore) -> None:
        self._client = client_of(store.address.server) if isinstance(store, ElasticStore) else None
        self.client = self.server = 0.0

    def _add(self, sign: int) -> None:
        if self._client is not None:
            time.sleep(_STATISTICS_INTERVAL)
            (node,) = self._client.nodes.stats(metric="process")["nodes"].values()
            self.server += sign * float(node["process"]["cpu"]["total_in_millis"]) / 1000
        self.client += sign * time.process_time()

    def __enter__(self) -> Self:
        self._add(-1)
        return self

    def __exit__(self, *_: object) -> None:
        self._add(1)

    @property
    def seconds(self) -> float:
        return self.client + self.server


_SEARCHED = """
import json, sys
from benchmarks.growth import Shape, searched
shape, *rest = json.loads(sys.argv[1])
print(json.dumps(searched(Shape(**shape), *rest)))
"""


def searched(shape: Shape, pages: str, store_url: str, home: str) -> Figures:
    """Search a filled store with the calibration in a home, which is made if there is none."""
    mixed = Mixed(shape, Path(pages))
    for module in _SLOW_IMPORTS:
        import_module(module)
    settings = Settings.read(home, store_url)
    figures = {} if any(Path(home).iterdir()) else calibrated(settings, mixed)
    with harness.Stopwatch() as first:
        searcher = Searcher.open(_COLLECTION, settings, encoder=mixed)
        searcher.search("Page 0", lang="en")
    texts = [f"Page {number * 997 % shape.documents}" for number in range(1, _WARM + 2 * _ROUNDS)]
    with searcher:
        watches = harness.Stopwatches(_WARM)
        for text in texts[: _WARM + _ROUNDS]:
            watches.step("search", partial(searcher.search, text, lang="en"))
        figures |= {
            "opening and first search, s": first.seconds,
            "search in all languages, p50 ms": watches.medians()["search"],
            **of_searches(searcher, mixed, texts[_WARM + _ROUNDS :]),
            "peak memory of the searching process, MB": harness.peak_memory(),
        }
        return figures | (exact_ten_found(searcher, mixed) if isinstance(searcher.store, ElasticStore) else {})


def of_searches(searcher: Searcher, mixed: Mixed, texts: Sequence[str]) -> Figures:
    """Processor time of searches, and of the server for their kNN alone, of which it returns a hit a language."""
    with CpuTime(searcher.store) as cpu:
        for text in texts:
            searcher.search(text, lang="en")
    figures = {"processor time of a search, ms": 1000 * cpu.seconds / len(texts)}
    if isinstance(searcher.store, ElasticStore):
        store, client = searcher.store, client_of(searcher.store.address.server)
        count, searches = candidates_of_a_language(len(mixed.langs)), []
        for text in texts:
            vector = mixed.encode_queries([Document("query", "en", text)])
            bodies = store.bodies(VectorQuery(mixed.spec.model, dict.fromkeys(mixed.langs, vector), count))
            searches.append([part for body in bodies for part in ({"index": store.index}, {**body, "size": 1})])
        with CpuTime(store) as knn:
            for of_text in searches:
                client.msearch(searches=of_text)
        figures["of it the server, ms"] = 1000 * cpu.server / len(texts)
        figures["of that its kNN, ms"] = 1000 * knn.server / len(texts)
    return figures


def calibrated(settings: Settings, mixed: Mixed) -> Figures:
    with open_database(settings.database) as engine:
        collections.register(engine, _COLLECTION, settings, DEFAULT, mixed.spec)
    with OpenCollection.open(_COLLECTION, settings) as opened:
        opened.encoder = mixed
        with harness.Stopwatch() as watch, CpuTime(opened.store) as cpu:
            calibrate_open(opened, CalibrationRequest())
    return {"first calibration, s": watch.seconds, "its processor time, s": cpu.seconds}


def fill(store: VectorStore, mixed: Mixed, start: int) -> float:
    """Put the documents from a number up to the shape's size; seconds of the store alone."""
    seconds = 0.0
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(mixed.batch, start)
        for number in range(start, mixed.shape.documents, _BATCH):
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


def grown(
    shape: Shape, pages: Path, sizes: Sequence[int], calibrate_at: Collection[int], *, elastic: bool
) -> Iterator[Figures]:
    """The figures of a store that grows to each of the sizes.

    At sizes that are not in ``calibrate_at``, unless it is empty, the calibration of the size before is searched with.
    """
    with ExitStack() as stack:
        new_folder = partial(tempfile.TemporaryDirectory, prefix="dragoman-growth-")
        os.environ.setdefault("ES_JAVA_OPTS", "-Xms4g -Xmx4g")
        place = stack.enter_context(running()).url if elastic else Path(stack.enter_context(new_folder())).as_uri()
        url = f"{place}/growth?replicas=0&shards={shape.shards}" if elastic else f"{place}/growth"
        start, home = 0, ""
        for documents in sizes:
            mixed = Mixed(replace(shape, documents=documents), pages)
            if not (home and calibrate_at) or documents in calibrate_at:
                home = stack.enter_context(new_folder())
            with closing(StoreLocation(url, _COLLECTION).open()) as store:
                store.create(mixed.spec.model, DIM)
                with CpuTime(store) as cpu:
                    put_s = fill(store, mixed, start)
                    store.publish()
                put, start = documents - start, documents
                figures = {"documents": documents, "put, documents/s": put / put_s}
                figures["processor time of a document, which is made meanwhile, ms"] = 1000 * cpu.seconds / put
                figures |= of_server(store, documents) if isinstance(store, ElasticStore) else {}
            figures |= harness.measure_apart(_SEARCHED, json.dumps([asdict(mixed.shape), str(pages), url, home]))
            if isinstance(store, EmbeddedStore):
                figures["disk, kB a document"] = store.path.stat().st_size / documents / 1000
            print(json.dumps(figures), flush=True)
            yield figures


@harness.benchmark(
    "",
    pages=Path,
    store="elastic",
    values="10000,20000",
    calibrate="",
    languages=20,
    passages=3,
    shards=1,
    counterparts=0,
)
def measure(arguments: Namespace) -> None:
    """``values`` are numbers of documents, ``calibrate`` those at which to calibrate anew (at each, unless given).

    ``pages`` is a file for the encoded pages, with the suffix .npz, which is made if it is missing.
    """
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of what searches: threads that wait actively take the server's time
    if not arguments.pages.is_file():
        encode_pages(arguments.pages)
    sizes, calibrate_at = (
        [int(value) for value in values.split(",") if value] for values in (arguments.values, arguments.calibrate)
    )
    shape = Shape(sizes[0], arguments.languages, arguments.passages, arguments.shards, arguments.counterparts)
    by_size: list[Figures] = []
    for figures in grown(shape, arguments.pages, sizes, calibrate_at, elastic=arguments.store == "elastic"):
        by_size.append(figures)
        names = list(dict.fromkeys(name for of_size in by_size for name in of_size))
        cells = ([name, *(f"{of_size.get(name, np.nan):,.2f}" for of_size in by_size)] for name in names)
        harness.write(f"Growth, {arguments.store} store", harness.table("figure" + " | " * len(by_size), cells))
