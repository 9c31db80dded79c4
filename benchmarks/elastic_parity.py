"""One collection on both stores: the same MAP, and how much longer a search takes than the server itself."""

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
from benchmarks.elastic import CalibratedStore, copy_to, searches
from benchmarks.fairness import Row, encode_topics, judged, scores
from benchmarks.searchers import open_searcher
from encoders.document import Document
from indexer.stores.contract import VectorQuery
from indexer.stores.elastic.store import ElasticStore
from query.ranking.fair_ranker import STRETCHES
from query.ranking.search_choice import PLAIN, SearchChoice
from query.ranking.searcher import Searcher
from trials.servers.elastic import running

_WARMING, _TIMED = 5, 60
"""Rounds of the queries before they are timed (a server compiles what runs often), and the number of queries."""

_WITH_IDS, _BY_HAND = "`_msearch` by hand", "the same with ids as a column"


def parity(searchers: Mapping[str, Searcher], every: int) -> list[str]:
    """MAP on each store, by ranking."""
    first = next(iter(searchers.values()))
    topics, judgements = judged(first.collection, first)
    queries, qrels = encode_topics(first, harness.every_nth(topics, every), judgements)
    calibration = first.calibration
    rows = [
        Row("plain cosine", None, PLAIN),
        Row("calibrated, without passages", calibration, replace(first.choice, passages=False)),
        Row("calibrated", calibration, first.choice),
        Row("calibrated, --hybrid", calibration, replace(first.choice, hybrid=True)),
    ]
    table = harness.Table(
        [f"| MAP, {len(queries)} queries | {' | '.join(searchers)} | difference |", "|---|---:|---:|---:|"]
    )
    for row in rows:
        means = [
            scores(replace(searcher, encoder=first.encoder), row, queries, qrels)[0] for searcher in searchers.values()
        ]
        table.add(f"| {row.name} | {' | '.join(f'{mean:.4f}' for mean in means)} | {means[1] - means[0]:+.4f} |")
    return table


def latency(searcher: Searcher, store: ElasticStore, texts: Sequence[str]) -> list[str]:
    """Time of a warm query beyond its encoding and one ``_msearch`` by hand, p50 in ms."""
    choices: dict[str, SearchChoice] = {
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
            targets = dict.fromkeys(searcher.languages, vector)
            bodies = searches(store, VectorQuery(searcher.spec.model, targets, STRETCHES[0], with_vectors=True))
            for name, sent in ((_WITH_IDS, _with_ids(bodies)), (_BY_HAND, bodies)):
                watches.step(name, partial(client.msearch, searches=sent))
            for name, choice in choices.items():
                watches.step(name, partial(searcher.search, text, lang="en", choice=choice))
    medians = watches.medians()
    usual, ours = (medians["encoding"] + medians[name] for name in (_WITH_IDS, _BY_HAND))
    table = [
        f"| warm query, ten hits with title and passage, p50 | ms | over encoding + {_WITH_IDS} | over encoding + "
        f"{_BY_HAND} |",
        "|---|---:|---:|---:|",
    ]
    for name, ms in medians.items():
        over = f"{ms - usual:.1f} | {ms - ours:.1f}" if name in choices else " | "
        table.append(f"| {name} | {ms:.1f} | {over} |")
    return table


def _with_ids(bodies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same searches as somebody writes them who does not know that reading ``_id`` is slow."""
    replaced = {"stored_fields", "docvalue_fields"}
    return [
        {name: value for name, value in body.items() if name not in replaced}
        | ({"_source": False, "docvalue_fields": body["docvalue_fields"][1:]} if "stored_fields" in body else {})
        for body in bodies
    ]


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where the collection is indexed and calibrated.")
    parser.add_argument("--collection", default="lohelp")
    parser.add_argument("--every", type=int, default=8, help="Take every n-th topic.")
    arguments = parser.parse_args()
    with (
        CalibratedStore.open(arguments.home, arguments.collection) as source,
        running() as server,
        closing(copy_to(f"{server.url}/bench?replicas=0", "parity", source)) as store,
        open_searcher(arguments.collection, arguments.home) as embedded,
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
        harness.command("elastic_parity --home HOME", arguments, "every"),
        lines,
    )


if __name__ == "__main__":
    main()
