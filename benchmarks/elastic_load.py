"""Putting documents into Elasticsearch: the store against the client's own bulk helper, and a whole index run."""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections import deque
from contextlib import closing
from pathlib import Path

from elasticsearch import Elasticsearch, helpers

from benchmarks import harness
from benchmarks.elastic import CalibratedStore
from indexer import index_sources as indexing
from indexer.cluster.cluster_address import Address, Credentials
from indexer.collection.settings import Settings
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument
from trials.servers.elastic import running

_PUT = 512
_THREADS = 4


def by_store(server: str, source: CalibratedStore, documents: list[StoredDocument], name: str) -> float:
    """Seconds of putting documents through the store."""
    with closing(_empty_store(server, source, name)) as store:
        with harness.Stopwatch() as watch:
            for start in range(0, len(documents), _PUT):
                store.put(source.model, documents[start : start + _PUT])
            store.publish()
        return watch.seconds


def by_helper(server: str, source: CalibratedStore, documents: list[StoredDocument], name: str) -> float:
    """Seconds of sending the same bodies, made while they are sent, by ``helpers.parallel_bulk``."""
    layout = Layout()
    with closing(_empty_store(server, source, name)) as store:
        # a document of each language maps all fields of words
        store.put(source.model, list({item.document.lang: item for item in documents}.values()))
        index = store.index
    with Elasticsearch(server, request_timeout=120) as client, harness.Stopwatch() as watch:
        actions = (
            {"_index": index, "_id": item.document.doc_id, "_source": layout.source(source.model, item)}
            for item in documents
        )
        deque(helpers.parallel_bulk(client, actions, thread_count=_THREADS, chunk_size=_PUT), maxlen=0)
        client.indices.refresh(index=index)
    return watch.seconds


def _empty_store(server: str, source: CalibratedStore, name: str) -> ElasticStore:
    store = ElasticStore(Address.parse(f"{server}/load?replicas=0"), name, Credentials())
    store.create(source.model, source.dim)
    return store


def index_run(store: str | None, file: str) -> float:
    """Seconds of a whole index run, its encoder included."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings.read(home=home, store=store)
        with harness.Stopwatch() as watch:
            indexing.index([file], "run", settings=settings, device="cpu")
        return watch.seconds


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where lohelp is indexed and calibrated.")
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--encoded", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with (
        CalibratedStore.open(arguments.home, "lohelp") as source,
        running() as server,
        tempfile.TemporaryDirectory() as scratch,
    ):
        items = itertools.chain.from_iterable(source.store.scan(source.model))
        documents = list(itertools.islice(items, arguments.documents))
        by_helper(server.url, source, documents[:500], "warm")
        ours, theirs = [], []
        for number in range(arguments.rounds):
            ours.append(by_store(server.url, source, documents, f"s{number}"))
            theirs.append(by_helper(server.url, source, documents, f"h{number}"))
        file = harness.write_records(harness.read("lohelp", "en", arguments.encoded), Path(scratch) / "docs.jsonl")
        embedded, elastic = [], []
        for _ in range(arguments.rounds):
            embedded.append(index_run(None, file))
            elastic.append(index_run(f"{server.url}/run?replicas=0", file))
            with Elasticsearch(server.url) as client:
                client.indices.delete(index="run-run-000001")
    ratios = [helper / store for store, helper in zip(ours, theirs, strict=True)]
    runs = [far / near for near, far in zip(embedded, elastic, strict=True)]
    harness.write(
        "Putting documents into Elasticsearch",
        harness.command("elastic_load --home HOME", arguments, "documents"),
        [
            f"| {arguments.documents:,} pages with vectors and passages | s |",
            "|---|---:|",
            f"| through the store, {_PUT} at a time | {statistics.median(ours):.1f} |",
            f"| `helpers.parallel_bulk`, {_THREADS} threads, the same bodies | {statistics.median(theirs):.1f} |",
            "",
            f"The store's rate is **{statistics.median(ratios):.2f}** times the helper's "
            f"(rounds {min(ratios):.2f} … {max(ratios):.2f}).",
            "",
            f"| `dragoman index` of {arguments.encoded} pages, encoder included | s |",
            "|---|---:|",
            f"| embedded store | {statistics.median(embedded):.1f} |",
            f"| Elasticsearch on the same machine | {statistics.median(elastic):.1f} |",
            "",
            f"**{statistics.median(runs):.2f}** times as long (rounds {min(runs):.2f} … {max(runs):.2f}).",
        ],
    )


if __name__ == "__main__":
    main()
