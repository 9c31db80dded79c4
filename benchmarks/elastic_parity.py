"""How much longer a search on Elasticsearch takes than the server itself."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from elasticsearch import Elasticsearch

from benchmarks import harness
from benchmarks.elastic import CalibratedStore, copy_to
from encoders.document import Document
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import VectorQuery
from query.ranking.fair_ranker import candidates_of_a_language
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from trials.servers.elastic import running

_WARMING, _TIMED = 5, 60
"""Rounds of the queries before they are timed (a server compiles what runs often), and the number of queries."""

_BY_HAND = "`_msearch` by hand, ids as a column"


def by_ranking(searcher: Searcher) -> dict[str, Searcher]:
    return {
        "plain cosine": replace(searcher, calibration=None, ranking=RankingOptions()),
        "calibrated": searcher,
        "calibrated, --hybrid": replace(searcher, ranking=RankingOptions(hybrid=True)),
    }


def latency(searcher: Searcher, store: ElasticStore, texts: Sequence[str]) -> list[str]:
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
    rows = ([name, f"{ms:.1f}", f"{ms - least:.1f}" if name in ways else ""] for name, ms in medians.items())
    return harness.table(f"warm query, ten hits with title and passage, p50 | ms | over encoding + {_BY_HAND}", rows)


@harness.benchmark("A search on Elasticsearch", home=Path)
def measure(arguments: Namespace) -> list[str]:
    with (
        CalibratedStore.open(arguments.home, "lohelp") as source,
        running() as server,
        closing(copy_to(f"{server.url}/bench?replicas=0", "parity", source)) as store,
        harness.open_searcher("lohelp", arguments.home) as embedded,
    ):
        texts = [topic.title for topic in harness.topics("lohelp", ["en"])[0]][:_TIMED]
        return latency(replace(embedded, store=store), store, texts)
