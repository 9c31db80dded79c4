"""The Elasticsearch store beside the embedded store: recall of kNN, time and size, by type of index."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from elasticsearch import Elasticsearch
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks import harness
from encoders.document import FloatArray, Passages, unit_rows
from indexer.cluster.cluster_address import Address, Credentials
from indexer.collection.settings import Settings
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument, VectorQuery, VectorStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.fair_ranker import STRETCHES
from trials.servers.elastic import running

TYPES = ("flat", "hnsw", "int8_hnsw", "int4_hnsw", "bbq_hnsw")
_BATCH = 512
_WARM = 20
_QUERIES = 24
"""Pseudo-queries of each language whose candidates are compared."""
_KS = (STRETCHES[0].candidates, 2 * STRETCHES[0].candidates)
CorrectedVectors = tuple[list[str], FloatArray]
"""Ids of documents, and their debiased vectors."""


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
        """Open a calibrated collection."""
        with OpenCollection.open(name, Settings.read(home=home)) as opened:
            calibration = calibration_table.load(opened.engine, opened.collection)
            if calibration is None:
                raise SystemExit(f"{name} in {home} has no calibration; make one with dragoman calibrate")
            yield cls(opened.store, opened.collection.model, opened.collection.dim, calibration)

    def for_passages(self) -> CalibratedStore:
        """The same store with a calibration that takes the passages' statistics for the documents'."""
        languages = {
            lang: replace(statistics, means={**statistics.means, "document": statistics.means["passage"]})
            for lang, statistics in self.calibration.languages.items()
        }
        return replace(self, calibration=replace(self.calibration, languages=languages))


def copy_to(url: str, name: str, source: CalibratedStore, *, longest: int = 0) -> ElasticStore:
    """Copy documents into a store on a server, and publish it.

    Args:
        url: URL of the server.
        name: name of the collection there.
        source: the documents.
        longest: 0, or instead of documents each run of up to so many of their passages, with its mean as its vector.
    """
    store = ElasticStore(Address.parse(url), name, Credentials())
    store.create(source.model, source.dim)
    for page in source.store.scan(source.model, batch=_BATCH):
        documents = [run for item in page for run in _runs(item, longest)] if longest else page
        for start in range(0, len(documents), _BATCH):
            store.put(source.model, documents[start : start + _BATCH])
    store.publish()
    return store


def _runs(item: StoredDocument, longest: int) -> Iterator[StoredDocument]:
    """A document for each run of up to ``longest`` consecutive passages."""
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
        queries = {target: calibration.queries_for_store(corrected, target) for target in exact}
        candidates = store.search(VectorQuery(calibration.model, queries, k))
        for target, (doc_ids, vectors) in exact.items():
            best = np.argsort(-(corrected @ vectors.T), axis=1, kind="stable")[:, :10]
            for rows, of_query in zip(best, candidates[target], strict=True):
                best_ids = {doc_ids[row] for row in rows}
                hits += len(best_ids & set(of_query.doc_ids))
                total += len(best_ids)
    return hits / total


def corrected_vectors(calibration: Calibration, store: VectorStore) -> dict[str, CorrectedVectors]:
    """Ids and debiased vectors of a store's documents by language."""
    by_lang = {}
    for lang in store.count():
        items = [item for page in store.scan(calibration.model, lang=lang, batch=_BATCH) for item in page]
        vectors = np.stack([item.vector for item in items])
        corrected = calibration.correct_documents(vectors, {lang: slice(0, len(vectors))})
        by_lang[lang] = ([item.document.doc_id for item in items], corrected)
    return by_lang


def searches(store: ElasticStore, query: VectorQuery) -> list[dict[str, Any]]:
    """The searches of a query, as ``_msearch`` takes them."""
    return [part for body in store.bodies(query) for part in ({"index": store.index}, body)]


def latency(calibration: Calibration, store: ElasticStore, client: Elasticsearch) -> tuple[float, float]:
    """p50 in ms of all languages' candidates with their vectors: through the store, and one ``_msearch`` by hand."""
    lang = next(iter(calibration.languages))
    bank = unit_rows(calibration.languages[lang].bank.astype(np.float32))
    corrected = [calibration.correct_queries(bank[row : row + 1], lang) for row in range(len(bank))]
    queries = [
        {target: calibration.queries_for_store(vector, target) for target in store.count()} for vector in corrected
    ]
    watches = harness.Stopwatches(_WARM)
    for vectors in [*queries[:_WARM], *queries]:
        query = VectorQuery(calibration.model, vectors, _KS[0], with_vectors=True)
        watches.step("store", partial(store.search, query))
        watches.step("by hand", partial(client.msearch, searches=searches(store, query)))
    medians = watches.medians()
    return medians["store"], medians["by hand"]


def by_type(source: CalibratedStore, server: str, longest: int, types: Sequence[str]) -> list[str]:
    """A table of what each type of index finds and costs."""
    if longest:
        source = source.for_passages()
    calibration = source.calibration
    table = harness.Table()
    exact: dict[str, CorrectedVectors] = {}
    with Elasticsearch(server) as client:
        for index_type in types:
            url = f"{server}/bench?vectors={index_type}&replicas=0"
            with harness.Stopwatch() as watch:
                copy = copy_to(url, index_type.replace("_", "-"), source, longest=longest)
            with closing(copy) as store:
                if not table:
                    exact = corrected_vectors(calibration, store)
                    documents = sum(len(doc_ids) for doc_ids, _ in exact.values())
                    recalls = " | ".join(f"exact ten best among {k}" for k in _KS)
                    table.add(
                        f"| {documents:,} vectors in {len(exact)} languages, index type | {recalls} "
                        "| all languages, p50 ms | the same `_msearch` by hand | load, s | disk, MB "
                        "| vectors kNN walks through, MB |"
                    )
                    table.add(f"|---|{'---:|' * (len(_KS) + 5)}")
                shares = " | ".join(f"{recall(calibration, store, exact, k):.1%}" for k in _KS)
                through, by_hand = latency(calibration, store, client)
                primaries: Any = client.indices.stats(index=store.index)["_all"]["primaries"]
                disk = primaries["store"]["size_in_bytes"] / 1e6
                walked = _walked(primaries["dense_vector"]["off_heap"]) / 1e6
                times_ms = f"{through:.1f} | {by_hand:.1f}"
                table.add(f"| {index_type} | {shares} | {times_ms} | {watch.seconds:.0f} | {disk:.0f} | {walked:.0f} |")
                store.drop()
    return table


def _walked(off_heap: dict[str, int]) -> int:
    """Bytes that every search reads: the graph and the quantised vectors, or the vectors if none are quantised."""
    quantised = off_heap["total_veq_size_bytes"] + off_heap["total_veb_size_bytes"]
    return off_heap["total_vex_size_bytes"] + (quantised or off_heap["total_vec_size_bytes"])


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where lohelp is indexed and calibrated.")
    parser.add_argument("--collection", default="lohelp")
    parser.add_argument("--runs", type=int, default=0, help="Not documents: up to so many of their passages.")
    parser.add_argument("--types", default=",".join(TYPES), help="Types of index to try.")
    arguments = parser.parse_args()
    with CalibratedStore.open(arguments.home, arguments.collection) as source, running() as server:
        table = by_type(source, server.url, arguments.runs, arguments.types.split(","))
    name = f"Elasticsearch by type of index, {arguments.collection}"
    if arguments.runs:
        name += f", runs of up to {arguments.runs} passages"
    harness.write(name, harness.command("elastic --home HOME", arguments, "runs", "types"), table)


if __name__ == "__main__":
    main()
