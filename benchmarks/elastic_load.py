"""Putting documents into Elasticsearch: the store against the client's own bulk helper, and a whole index run."""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from collections import deque
from contextlib import closing
from pathlib import Path

from elasticsearch import Elasticsearch, helpers

from benchmarks import harness
from benchmarks.elastic import Place
from indexer import index as indexing
from indexer.collection.settings import Settings
from indexer.elastic.address import Address, Credentials
from indexer.stores.contract import StoredDocument
from indexer.stores.elastic.layout import Layout
from indexer.stores.elastic.store import ElasticStore
from trials.servers.elastic import running

_PUT = 512
_THREADS = 4


def by_store(server: str, place: Place, documents: list[StoredDocument], name: str) -> float:
    """Seconds of putting them through the store."""
    with closing(ElasticStore(Address.parse(f"{server}/load?replicas=0"), name, Credentials())) as store:
        store.create(place.model, place.dim)
        with harness.Stopwatch() as watch:
            for start in range(0, len(documents), _PUT):
                store.put(place.model, documents[start : start + _PUT])
            store.publish()
        return watch.seconds


def by_helper(server: str, place: Place, documents: list[StoredDocument], name: str) -> float:
    """Seconds of sending the same bodies, made while they are sent, by ``helpers.parallel_bulk``."""
    layout = Layout()
    with closing(ElasticStore(Address.parse(f"{server}/load?replicas=0"), name, Credentials())) as store:
        store.create(place.model, place.dim)
        store.put(place.model, list({one.document.lang: one for one in documents}.values()))  # all words are mapped
        index = store.index
    with Elasticsearch(server, request_timeout=120) as client, harness.Stopwatch() as watch:
        actions = (
            {"_index": index, "_id": one.document.doc_id, "_source": layout.source(place.model, one)}
            for one in documents
        )
        deque(helpers.parallel_bulk(client, actions, thread_count=_THREADS, chunk_size=_PUT), maxlen=0)
        client.indices.refresh(index=index)
    return watch.seconds


def indexed(store: str | None, source: Path) -> float:
    """Seconds of a whole index run, its encoder included."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings.read(home=home, store=store)
        with harness.Stopwatch() as watch:
            indexing.index([str(source)], "run", settings=settings, device="cpu")
        return watch.seconds


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where lohelp is indexed and calibrated.")
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--encoded", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with Place.opened(arguments.home, "lohelp") as place, running() as server, tempfile.TemporaryDirectory() as scratch:
        pages = itertools.chain.from_iterable(place.store.scan(place.model))
        documents = list(itertools.islice(pages, arguments.documents))
        by_helper(server.url, place, documents[:500], "warm")
        ours, theirs = [], []
        for number in range(arguments.rounds):
            ours.append(by_store(server.url, place, documents, f"s{number}"))
            theirs.append(by_helper(server.url, place, documents, f"h{number}"))
        source = Path(scratch) / "docs.jsonl"
        records = harness.read("lohelp", "en", arguments.encoded)
        source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        embedded, elastic = [], []
        for _ in range(arguments.rounds):
            embedded.append(indexed(None, source))
            elastic.append(indexed(f"{server.url}/run?replicas=0", source))
            with Elasticsearch(server.url) as client:
                client.indices.delete(index="run-run-000001")
    ratios = [helper / store for store, helper in zip(ours, theirs, strict=True)]
    runs = [far / near for near, far in zip(embedded, elastic, strict=True)]
    harness.write(
        "Putting documents into Elasticsearch",
        f"python -m benchmarks.elastic_load --home HOME --documents {arguments.documents}",
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
