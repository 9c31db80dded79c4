"""One collection on both stores: the same MAP, and what a search costs over the server's own time."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from elasticsearch import Elasticsearch

from benchmarks import results
from benchmarks.elastic import Place, copied
from benchmarks.fairness import Row, asked, judged, scored
from encoders.document import Document, FloatArray
from indexer.settings import Settings
from indexer.stores.elastic.store import ElasticStore
from query.ranking import PLAIN, STRETCHES, Choice
from query.searcher import Searcher
from tests.servers.elastic import running

_WARM, _TIMED = 10, 60


def parity(searchers: Mapping[str, Searcher], every: int) -> list[str]:
    """MAP on each store, by each way to rank."""
    first = next(iter(searchers.values()))
    topics, judgements = judged(first.collection, first)
    chosen = set(sorted({topic.qid for topic in topics})[::every])
    queries, qrels = asked(first, [topic for topic in topics if topic.qid in chosen], judgements)
    calibration = first.calibration
    rows = [
        Row("plain cosine", None, PLAIN),
        Row("calibrated, without passages", calibration, replace(first.choice, passages=False)),
        Row("calibrated", calibration, first.choice),
        Row("calibrated, --hybrid", calibration, replace(first.choice, hybrid=True)),
    ]
    table = [f"| MAP, {len(queries)} queries | {' | '.join(searchers)} | difference |", "|---|---:|---:|---:|"]
    for row in rows:
        means = [
            scored(replace(searcher, encoder=first.encoder), row, queries, qrels)[0] for searcher in searchers.values()
        ]
        table.append(f"| {row.name} | {' | '.join(f'{mean:.4f}' for mean in means)} | {means[1] - means[0]:+.4f} |")
        print(table[-1], flush=True)
    return table


def latency(searcher: Searcher, store: ElasticStore, texts: Sequence[str]) -> list[str]:
    """What a warm query takes beyond its encoding and one ``_msearch`` by hand, p50 in ms."""
    ways: dict[str, Choice] = {
        "plain cosine": PLAIN,
        "calibrated, without passages": replace(searcher.choice, passages=False),
        "calibrated": searcher.choice,
        "calibrated, --hybrid": replace(searcher.choice, hybrid=True),
    }
    spent: dict[str, list[float]] = {name: [] for name in ("encoding", "the `_msearch` by hand", *ways)}
    with Elasticsearch(store.address.server) as client:
        for at, text in enumerate([*texts[:_WARM], *texts]):
            taken = {}
            started = time.perf_counter()
            vector = searcher.encoder.encode_queries([Document("query", "en", text)])
            taken["encoding"] = time.perf_counter() - started
            bodies = _bodies(searcher, store, vector)
            started = time.perf_counter()
            client.msearch(searches=bodies)
            taken["the `_msearch` by hand"] = time.perf_counter() - started
            for name, choice in ways.items():
                started = time.perf_counter()
                searcher.search(text, lang="en", choice=choice)
                taken[name] = time.perf_counter() - started
            if at >= _WARM:
                for name, seconds in taken.items():
                    spent[name].append(seconds)
    medians = {name: 1000 * statistics.median(seconds) for name, seconds in spent.items()}
    beside = medians["encoding"] + medians["the `_msearch` by hand"]
    table = [
        "| warm query, ten hits with title and passage, p50 | ms | over encoding + `_msearch` |",
        "|---|---:|---:|",
    ]
    table += [f"| {name} | {ms:.1f} | {f'{ms - beside:.1f}' if name in ways else ''} |" for name, ms in medians.items()]
    return table


def _bodies(searcher: Searcher, store: ElasticStore, vector: FloatArray) -> list[dict[str, Any]]:
    return [
        part
        for lang in searcher.languages
        for part in (
            {"index": store.index},
            store.request(searcher.spec.model, lang, vector[0], STRETCHES[0], with_vectors=True),
        )
    ]


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where the collection is indexed and calibrated.")
    parser.add_argument("--collection", default="lohelp")
    parser.add_argument("--every", type=int, default=8, help="Take every n-th topic.")
    arguments = parser.parse_args()
    with (
        Place.opened(arguments.home, arguments.collection) as place,
        running() as server,
        closing(copied(place, f"{server.url}/bench?replicas=0", "parity")) as store,
        Searcher.open(arguments.collection, Settings.read(home=arguments.home), device="cpu") as embedded,
    ):
        elastic = replace(embedded, store=store)
        encoder = embedded.encoder
        lines = parity({"embedded": embedded, "Elasticsearch": elastic}, arguments.every)
        elastic.encoder = encoder
        topics, _ = judged(arguments.collection, embedded)
        texts = [topic.title for topic in topics if topic.lang == "en"][:_TIMED]
        lines += ["", *latency(elastic, store, texts)]
    results.write(
        f"Elasticsearch beside the embedded store, {arguments.collection}",
        f"python -m benchmarks.elastic_parity --home HOME --every {arguments.every}",
        lines,
    )


if __name__ == "__main__":
    main()
