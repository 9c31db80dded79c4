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
from ir_measures import Qrel

from benchmarks import harness
from benchmarks.elastic import CalibratedStore, copy_to, searches
from benchmarks.searchers import open_searcher
from encoders.document import Document
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import VectorQuery
from query.ranking.fair_ranker import candidates_of_a_language
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from query.trec_files.topics import Topic
from trials.servers.elastic import running

_WARMING, _TIMED = 5, 60
"""Rounds of the queries before they are timed (a server compiles what runs often), and the number of queries."""

_WITH_IDS, _BY_HAND = "`_msearch` by hand", "the same with ids as a column"


def by_ranking(searcher: Searcher) -> dict[str, Searcher]:
    """The same searcher for each ranking."""
    return {
        "plain cosine": replace(searcher, calibration=None, ranking=RankingOptions()),
        "calibrated": searcher,
        "calibrated, --hybrid": replace(searcher, ranking=RankingOptions(hybrid=True)),
    }


def parity(searchers: Mapping[str, Searcher], topics: Sequence[Topic], judgements: Sequence[Qrel]) -> list[str]:
    """MAP on each store, by ranking."""
    queries = harness.queries(topics)
    qrels = harness.judgements(judgements, {topic.lang for topic in topics})
    table = harness.Table(
        [f"| MAP, {len(queries)} queries | {' | '.join(searchers)} | difference |", "|---|---:|---:|---:|"]
    )
    for ways in zip(*(by_ranking(searcher).items() for searcher in searchers.values()), strict=True):
        means = [harness.mean(harness.average_precisions(queries, way.rank(queries), qrels)) for _, way in ways]
        table.add(f"| {ways[0][0]} | {' | '.join(f'{mean:.4f}' for mean in means)} | {means[1] - means[0]:+.4f} |")
    return table


def latency(searcher: Searcher, store: ElasticStore, texts: Sequence[str]) -> list[str]:
    """Time of a warm query beyond its encoding and one ``_msearch`` by hand, p50 in ms."""
    ways = by_ranking(searcher)
    watches = harness.Stopwatches(_WARMING * len(texts))
    with Elasticsearch(store.address.server) as client:
        for text in [*(list(texts) * _WARMING), *texts]:
            query = Document("query", "en", text)
            vector = watches.step("encoding", partial(searcher.encoder.encode_queries, [query]))
            targets = dict.fromkeys(searcher.languages, vector)
            nearest = VectorQuery(
                searcher.spec.model, targets, candidates_of_a_language(len(targets), many=False), with_vectors=True
            )
            bodies = searches(store, nearest)
            for name, sent in ((_WITH_IDS, _with_ids(bodies)), (_BY_HAND, bodies)):
                watches.step(name, partial(client.msearch, searches=sent))
            for name, way in ways.items():
                watches.step(name, partial(way.search, text, lang="en"))
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
    parser.add_argument("--collection", default="lohelp", choices=harness.KINDS)
    parser.add_argument("--every", type=int, default=8, help="Take every n-th topic.")
    arguments = parser.parse_args()
    with (
        CalibratedStore.open(arguments.home, arguments.collection) as source,
        running() as server,
        closing(copy_to(f"{server.url}/bench?replicas=0", "parity", source)) as store,
        open_searcher(arguments.collection, arguments.home) as embedded,
    ):
        elastic, name = replace(embedded, store=store), arguments.collection
        topics, judgements = harness.topics(name, harness.KINDS[name], list(embedded.languages))
        asked = harness.every_nth(topics, arguments.every)
        lines = parity({"embedded": embedded, "Elasticsearch": elastic}, asked, judgements)
        texts = [topic.title for topic in topics if topic.lang == "en"][:_TIMED]
        lines += ["", *latency(elastic, store, texts)]
    harness.write(
        f"Elasticsearch beside the embedded store, {arguments.collection}",
        harness.command("elastic_parity --home HOME", arguments, "every"),
        lines,
    )


if __name__ == "__main__":
    main()
