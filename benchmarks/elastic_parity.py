"""One collection on both stores: the same MAP, and how much longer a search takes than the server itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from elasticsearch import Elasticsearch
from ir_measures import Qrel

from benchmarks import harness
from benchmarks.elastic import CalibratedStore, copy_to
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

_BY_HAND = "`_msearch` by hand, ids as a column"


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
    ways, many = by_ranking(searcher), candidates_of_a_language(len(searcher.languages), many=False)
    watches = harness.Stopwatches(_WARMING * len(texts))
    with Elasticsearch(store.address.server) as client:
        for text in [*(list(texts) * _WARMING), *texts]:
            query = Document("query", "en", text)
            vector = watches.step("encoding", partial(searcher.encoder.encode_queries, [query]))
            targets = dict.fromkeys(searcher.languages, vector)
            nearest = VectorQuery(searcher.spec.model, targets, many, with_vectors=True)
            searches = [part for body in store.bodies(nearest) for part in ({"index": store.index}, body)]
            watches.step(_BY_HAND, partial(client.msearch, searches=searches))
            for name, way in ways.items():
                watches.step(name, partial(way.search, text, lang="en"))
    medians = watches.medians()
    least = medians["encoding"] + medians[_BY_HAND]
    rows = [f"| {name} | {ms:.1f} | {f'{ms - least:.1f}' if name in ways else ''} |" for name, ms in medians.items()]
    heading = f"| warm query, ten hits with title and passage, p50 | ms | over encoding + {_BY_HAND} |"
    return [heading, "|---|---:|---:|", *rows]


def main() -> None:
    """Measure, and write the section; the home has the collection, calibrated; every n-th topic is asked."""
    arguments = harness.options(__doc__, home=Path, collection="lohelp", every=8)
    name = arguments.collection
    with (
        CalibratedStore.open(arguments.home, name) as source,
        running() as server,
        closing(copy_to(f"{server.url}/bench?replicas=0", "parity", source)) as store,
        harness.open_searcher(name, arguments.home) as embedded,
    ):
        elastic = replace(embedded, store=store)
        topics, judgements = harness.topics(name, list(embedded.languages))
        asked = harness.every_nth(topics, arguments.every)
        lines = parity({"embedded": embedded, "Elasticsearch": elastic}, asked, judgements)
        texts = [topic.title for topic in topics if topic.lang == "en"][:_TIMED]
        lines += ["", *latency(elastic, store, texts)]
    harness.write(f"Elasticsearch beside the embedded store, {name}", lines)


if __name__ == "__main__":
    main()
