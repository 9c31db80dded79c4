"""One collection on both stores: the same MAP, and what a search costs over the server's own time."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from elasticsearch import Elasticsearch

from benchmarks import harness
from benchmarks.elastic import Place, copied
from benchmarks.fairness import Row, asked, judged, scored
from encoders.document import Document, FloatArray
from indexer.collection.settings import Settings
from indexer.stores.contract import VectorQuery
from indexer.stores.elastic.store import ElasticStore
from query.ranking.choice import PLAIN, Choice
from query.ranking.fair_ranker import STRETCHES
from query.ranking.searcher import Searcher
from trials.servers.elastic import running

_WARMING, _TIMED = 5, 60
"""How often the queries are asked before they are timed (a server compiles what runs often), and how many there are."""

_WITH_IDS, _BY_HAND = "`_msearch` by hand", "the same with ids as a column"


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
    watches = harness.Stopwatches(_WARMING * len(texts))
    with Elasticsearch(store.address.server) as client:
        for text in [*(list(texts) * _WARMING), *texts]:
            query = Document("query", "en", text)
            vector = watches.step("encoding", partial(searcher.encoder.encode_queries, [query]))
            bodies = _bodies(searcher, store, vector)
            for name, searches in ((_WITH_IDS, _with_ids(bodies)), (_BY_HAND, bodies)):
                watches.step(name, partial(client.msearch, searches=searches))
            for name, choice in ways.items():
                watches.step(name, partial(searcher.search, text, lang="en", choice=choice))
    medians = watches.medians()
    usual, ours = (medians["encoding"] + medians[name] for name in (_WITH_IDS, _BY_HAND))
    table = [
        f"| warm query, ten hits with title and passage, p50 | ms | over encoding + {_WITH_IDS} | over encoding + "
        f"{_BY_HAND} |",
        "|---|---:|---:|---:|",
    ]
    for name, ms in medians.items():
        over = f"{ms - usual:.1f} | {ms - ours:.1f}" if name in ways else " | "
        table.append(f"| {name} | {ms:.1f} | {over} |")
    return table


def _with_ids(bodies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same searches as one writes them who does not know what reading ``_id`` costs."""
    ours = {"stored_fields", "docvalue_fields"}
    return [
        {name: value for name, value in body.items() if name not in ours}
        | ({"_source": False, "docvalue_fields": body["docvalue_fields"][1:]} if "stored_fields" in body else {})
        for body in bodies
    ]


def _bodies(searcher: Searcher, store: ElasticStore, vector: FloatArray) -> list[dict[str, Any]]:
    query = VectorQuery(searcher.spec.model, dict.fromkeys(searcher.languages, vector), STRETCHES[0], with_vectors=True)
    return [part for body in store.bodies(query) for part in ({"index": store.index}, body)]


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
    harness.write(
        f"Elasticsearch beside the embedded store, {arguments.collection}",
        f"python -m benchmarks.elastic_parity --home HOME --every {arguments.every}",
        lines,
    )


if __name__ == "__main__":
    main()
