"""The Elasticsearch store beside the embedded one: what kNN finds, what it costs, by type of index."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
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
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.elastic.address import Address, Credentials
from indexer.ledger.database import connect
from indexer.stores.contract import StoredDocument, VectorQuery, VectorStore
from indexer.stores.elastic.store import ElasticStore
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.ranking.fair_ranker import STRETCHES
from trials.servers.elastic import running

TYPES = ("flat", "hnsw", "int8_hnsw", "int4_hnsw", "bbq_hnsw")
_BATCH = 512
_WARM = 20
_ASKED = 24
"""Pseudo-queries of each language that are asked."""
_KS = (STRETCHES[0], 2 * STRETCHES[0])


@dataclass(frozen=True)
class Place:
    """A collection in a home's embedded store, with the calibration it is searched with."""

    store: VectorStore
    model: str
    dim: int
    calibration: Calibration

    @classmethod
    @contextmanager
    def opened(cls, home: Path, name: str) -> Iterator[Place]:
        settings = Settings.read(home=home)
        engine = connect(settings.database)
        found = collections.require(engine, name)
        calibration = calibration_table.load(engine, found)
        engine.dispose()
        if calibration is None:
            raise SystemExit(f"{name} in {home} has no calibration; make one with dragoman calibrate")
        with closing(found.open_store(settings)) as store:
            yield cls(store, found.model, found.dim, calibration)

    def of_passages(self) -> Place:
        """The same, its documents expected where its passages lie."""
        known = self.calibration.languages
        languages = {
            lang: replace(one, components={**one.components, "document": one.components["passage"]})
            for lang, one in known.items()
        }
        return replace(self, calibration=replace(self.calibration, languages=languages))


def copied(place: Place, url: str, name: str, *, longest: int = 0) -> ElasticStore:
    """The documents in a store on the server, published.

    Args:
        place: where they are.
        url: of the server.
        name: of the collection there.
        longest: not documents but each run of so many of their passages, and of fewer, with its mean as its vector.
    """
    store = ElasticStore(Address.parse(url), name, Credentials())
    store.create(place.model, place.dim)
    for page in place.store.scan(place.model, batch=_BATCH):
        documents = [run for item in page for run in _runs(item, longest)] if longest else page
        for at in range(0, len(documents), _BATCH):
            store.put(place.model, documents[at : at + _BATCH])
    store.publish()
    return store


def _runs(item: StoredDocument, longest: int) -> Iterator[StoredDocument]:
    """A document for each run of consecutive passages: what a part of the page would be."""
    passages = item.passages.unit_vectors()
    nothing = Passages(np.empty((0, len(item.vector)), np.int8), np.empty((0, 2), np.int32))
    for length in range(1, min(longest, len(passages)) + 1):
        for at, means in enumerate(unit_rows(sliding_window_view(passages, length, axis=0).mean(axis=2))):
            name = f"{item.document.doc_id}~{length}~{at}"
            document = replace(item.document, doc_id=name, text=item.document.title or "-", title="")
            yield StoredDocument(document, means, nothing, item.known)


def found_share(place: Place, store: VectorStore, exact: dict[str, tuple[list[str], FloatArray]], k: int) -> float:
    """Of the exact debiased first ten, by query and target language, how many are among k candidates."""
    found = wanted = 0
    for lang in place.calibration.languages:
        bank = unit_rows(place.calibration.languages[lang].bank[:_ASKED].astype(np.float32))
        corrected = place.calibration.correct_queries(bank, lang)
        asked = {target: place.calibration.queries_for_store(corrected, target) for target in exact}
        candidates = store.search(VectorQuery(place.model, asked, k))
        for target, (doc_ids, vectors) in exact.items():
            best = np.argsort(-(corrected @ vectors.T), axis=1, kind="stable")[:, :10]
            for row, one in zip(best, candidates[target], strict=True):
                ten = {doc_ids[at] for at in row}
                found += len(ten & set(one.doc_ids))
                wanted += len(ten)
    return found / wanted


def corrected_vectors(place: Place, store: VectorStore) -> dict[str, tuple[list[str], FloatArray]]:
    """Ids and debiased vectors of a store's documents by language."""
    found = {}
    for lang in store.count():
        pages = list(store.scan(place.model, lang=lang, batch=_BATCH))
        doc_ids = [item.document.doc_id for page in pages for item in page]
        vectors = np.stack([item.vector for page in pages for item in page])
        found[lang] = (doc_ids, place.calibration.correct_documents(vectors, {lang: slice(0, len(vectors))}))
    return found


def latency(place: Place, store: ElasticStore, client: Elasticsearch) -> tuple[float, float]:
    """p50 in ms of all languages' candidates with their vectors: through the store, and one ``_msearch`` by hand."""
    lang = next(iter(place.calibration.languages))
    bank = unit_rows(place.calibration.languages[lang].bank.astype(np.float32))
    queries = [place.calibration.correct_queries(bank[at : at + 1], lang) for at in range(len(bank))]
    asked = [
        {target: place.calibration.queries_for_store(query, target) for target in store.count()} for query in queries
    ]
    watches = harness.Stopwatches(_WARM)
    for vectors in [*asked[:_WARM], *asked]:
        query = VectorQuery(place.model, vectors, STRETCHES[0], with_vectors=True)
        watches.step("store", partial(store.search, query))
        bodies = [part for body in store.bodies(query) for part in ({"index": store.index}, body)]
        watches.step("by hand", partial(client.msearch, searches=bodies))
    medians = watches.medians()
    return medians["store"], medians["by hand"]


def by_type(place: Place, server: str, longest: int, kinds: Sequence[str]) -> list[str]:
    """A table: what each type of index finds and costs."""
    if longest:
        place = place.of_passages()
    table: list[str] = []
    exact: dict[str, tuple[list[str], FloatArray]] = {}
    with Elasticsearch(server) as client:
        for kind in kinds:
            url = f"{server}/bench?vectors={kind}&replicas=0"
            with harness.Stopwatch() as watch:
                copy = copied(place, url, kind.replace("_", "-"), longest=longest)
            with closing(copy) as store:
                if not table:
                    exact = corrected_vectors(place, store)
                    documents = sum(len(doc_ids) for doc_ids, _ in exact.values())
                    finds = " | ".join(f"exact ten best among {k}" for k in _KS)
                    table = [
                        f"| {documents:,} vectors in {len(exact)} languages, index type | {finds} "
                        "| all languages, p50 ms | the same `_msearch` by hand | load, s | disk, MB "
                        "| vectors kNN walks through, MB |",
                        f"|---|{'---:|' * (len(_KS) + 5)}",
                    ]
                    print("\n".join(table), flush=True)
                shares = " | ".join(f"{found_share(place, store, exact, k):.1%}" for k in _KS)
                through, by_hand = latency(place, store, client)
                primaries: Any = client.indices.stats(index=store.index)["_all"]["primaries"]
                disk = primaries["store"]["size_in_bytes"] / 1e6
                walked = _walked(primaries["dense_vector"]["off_heap"]) / 1e6
                times_ms = f"{through:.1f} | {by_hand:.1f}"
                table.append(f"| {kind} | {shares} | {times_ms} | {watch.seconds:.0f} | {disk:.0f} | {walked:.0f} |")
                print(table[-1], flush=True)
                store.drop()
    return table


def _walked(off_heap: dict[str, int]) -> int:
    """Bytes that a search reads again and again: graph and quantised vectors, or the vectors where none are."""
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
    with Place.opened(arguments.home, arguments.collection) as place, running() as server:
        table = by_type(place, server.url, arguments.runs, arguments.types.split(","))
    harness.write(
        f"Elasticsearch by type of index, {arguments.collection}"
        + (f", runs of up to {arguments.runs} passages" if arguments.runs else ""),
        f"python -m benchmarks.elastic --home HOME --runs {arguments.runs} --types {arguments.types}",
        table,
    )


if __name__ == "__main__":
    main()
