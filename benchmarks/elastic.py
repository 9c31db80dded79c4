"""What Elasticsearch's kNN finds of the exact ten best, and what a search adds to the server's own time."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from elasticsearch import Elasticsearch
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import threadpool_limits

from benchmarks import harness
from encoders.document import Document, FloatArray, Passages, unit_rows
from indexer.cluster.cluster_address import Address, Credentials
from indexer.collection.settings import Settings
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument, VectorQuery, VectorStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.fair_ranker import STRETCHES, candidates_of_a_language
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from trials.servers.elastic import running

_BATCH = 512
_QUERIES = 24  # pseudo-queries of each language whose candidates are compared
_TIMED = 60  # last queries of all, never asked before
_BY_HAND = "`_msearch` by hand, ids as a column"
_KS = (STRETCHES[0].candidates, 2 * STRETCHES[0].candidates)
CorrectedVectors = tuple[list[str], FloatArray]  # ids of documents, and their debiased vectors


@dataclass(frozen=True)
class CalibratedStore:
    """A collection's store in a home, with the collection's calibration."""

    store: VectorStore
    model: str
    dim: int
    calibration: Calibration

    @classmethod
    @contextmanager
    def open(cls, home: Path, name: str) -> Iterator[CalibratedStore]:
        with OpenCollection.open(name, Settings.read(home=home)) as opened:
            calibration = calibration_table.load(opened.engine, opened.collection)
            if calibration is None:
                raise SystemExit(f"{name} in {home} has no calibration; make one with dragoman calibrate")
            yield cls(opened.store, opened.collection.model, opened.collection.dim, calibration)

    def for_passages(self) -> CalibratedStore:
        """The same store with a calibration that takes the passages' statistics for the documents'."""
        by_lang = self.calibration.languages.items()
        means = {lang: {**one.means, "document": one.means["passage"]} for lang, one in by_lang}
        languages = {lang: replace(one, means=means[lang]) for lang, one in by_lang}
        return replace(self, calibration=replace(self.calibration, languages=languages))


def copy_to(url: str, name: str, source: CalibratedStore, *, longest: int = 0) -> ElasticStore:
    store = ElasticStore(Address.parse(url), name, Credentials())
    store.create(source.model, source.dim)
    for page in source.store.scan(source.model, batch=_BATCH):
        documents = [run for item in page for run in _runs(item, longest)] if longest else page
        for start in range(0, len(documents), _BATCH):
            store.put(source.model, documents[start : start + _BATCH])
    store.publish()
    return store


def _runs(item: StoredDocument, longest: int) -> Iterator[StoredDocument]:
    passages = item.passages.unit_vectors()
    no_passages = Passages(np.empty((0, len(item.vector)), np.int8), np.empty((0, 2), np.int32))
    for length in range(1, min(longest, len(passages)) + 1):
        for start, mean in enumerate(unit_rows(sliding_window_view(passages, length, axis=0).mean(axis=2))):
            name = f"{item.document.doc_id}~{length}~{start}"
            document = replace(item.document, doc_id=name, text=item.document.title or "-", title="")
            yield StoredDocument(document, mean, no_passages, item.known)


def recall(calibration: Calibration, store: VectorStore, exact: Mapping[str, CorrectedVectors], k: int) -> float:
    """Share of the exact debiased ten best of a query in a language that are among the store's k candidates."""
    hits = total = 0
    for lang, statistics in calibration.languages.items():
        bank = unit_rows(statistics.bank[:_QUERIES].astype(np.float32))
        corrected = calibration.correct_queries(bank, lang)
        queries = {target: calibration.candidate_queries(corrected, target) for target in exact}
        candidates = store.search(VectorQuery(calibration.model, queries, k))
        for target, (doc_ids, vectors) in exact.items():
            best = np.argsort(-(corrected @ vectors.T), axis=1, kind="stable")[:, :10]
            for rows, of_query in zip(best, candidates[target], strict=True):
                best_ids = {doc_ids[row] for row in rows}
                hits += len(best_ids & set(of_query.doc_ids))
                total += len(best_ids)
    return hits / total


def corrected_vectors(calibration: Calibration, store: VectorStore) -> dict[str, CorrectedVectors]:
    by_lang = {}
    for lang in store.count():
        items = [item for page in store.scan(calibration.model, lang=lang, batch=_BATCH) for item in page]
        vectors = np.stack([item.vector for item in items])
        corrected = calibration.correct_documents(vectors, {lang: slice(0, len(vectors))})
        by_lang[lang] = ([item.document.doc_id for item in items], corrected)
    return by_lang


def by_type(source: CalibratedStore, server: str, longest: int, types: Sequence[str]) -> list[str]:
    """A table of what each type of index finds and costs."""
    source = source.for_passages() if longest else source
    exact, rows = dict[str, CorrectedVectors](), list[list[str]]()
    for index_type in types:
        url = f"{server}/bench?vectors={index_type}&replicas=0"
        with harness.Stopwatch() as watch:
            copy = copy_to(url, index_type.replace("_", "-"), source, longest=longest)
        with closing(copy) as store:
            exact = exact or corrected_vectors(source.calibration, store)
            shares = (f"{recall(source.calibration, store, exact, k):.1%}" for k in _KS)
            rows.append([index_type, *shares, f"{watch.seconds:.0f}"])
            store.drop()
    documents = sum(len(doc_ids) for doc_ids, _ in exact.values())
    recalls = " | ".join(f"exact ten best among {k}" for k in _KS)
    return harness.table(f"{documents:,} vectors in {len(exact)} languages, index type | {recalls} | load, s", rows)


def latency(searcher: Searcher, store: ElasticStore, texts: Sequence[str]) -> list[str]:
    """A table of warm searches beside the same kNN searches sent by hand; the last of the texts are timed."""
    many = candidates_of_a_language(len(searcher.languages))
    searched = {
        "plain cosine": replace(searcher, calibration=None, ranking=RankingOptions()),
        "calibrated": searcher,
        "calibrated, --hybrid": replace(searcher, ranking=RankingOptions(hybrid=True)),
    }
    watches = harness.Stopwatches(len(texts) - _TIMED)
    with Elasticsearch(store.address.server) as client, threadpool_limits(1, "blas"):  # as the command has them
        for text in texts:
            query = Document("query", "en", text)
            vector = watches.step("encoding", partial(searcher.encoder.encode_queries, [query]))
            targets = dict.fromkeys(searcher.languages, vector)
            nearest = VectorQuery(searcher.spec.model, targets, many)
            searches = [part for body in store.bodies(nearest) for part in ({"index": store.index}, body)]
            watches.step(_BY_HAND, partial(client.msearch, searches=searches))
            for name, way in searched.items():
                watches.step(name, partial(way.search, text, lang="en"))
    medians = watches.medians()
    least = medians["encoding"] + medians[_BY_HAND]
    rows = ([name, f"{ms:.1f}", f"{ms - least:.1f}" if name in searched else ""] for name, ms in medians.items())
    return harness.table(f"warm query, ten hits with title and passage, p50 | ms | over encoding + {_BY_HAND}", rows)


@harness.benchmark(
    "Elasticsearch: {part}, runs of {runs} passages", ("candidates", "latency"), home=Path, runs=0, types="int8_hnsw"
)
def measure(arguments: Namespace) -> list[str]:
    """The home has lohelp, calibrated; passages' ``runs`` may stand for documents."""
    with CalibratedStore.open(arguments.home, "lohelp") as source, running() as server:
        if arguments.part == "candidates":
            return by_type(source, server.url, arguments.runs, arguments.types.split(","))
        with (
            closing(copy_to(f"{server.url}/bench?replicas=0", "parity", source)) as store,
            harness.open_searcher("lohelp", arguments.home) as embedded,
        ):
            titles = [topic.title for topic in harness.topics("lohelp", ["en"])[0]]
            return latency(replace(embedded, store=store), store, [*titles[_TIMED:] * 2, *titles[:_TIMED]])
