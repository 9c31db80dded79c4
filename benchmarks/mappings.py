"""Mapped search: topics about concepts that the maps were not learnt from, without a map and with one."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.harness import TESTED, mean, topic_of
from indexer.collection.settings import Settings
from indexer.training.aligned_documents import stored_by_concept
from indexer.training.mapping_training import MappingPlan, learn
from query.calibration.comparison_space import MappedSpace
from query.calibration_fitting.open_collection import OpenCollection
from query.ranking.fair_ranker import FairRanker
from query.ranking.searcher import Searcher

_DEPTH = 50
_UNMAPPED, _MAPPED = "without a map", "with a map"


def precisions(searcher: Searcher, home: Path, folds: int, share: float) -> dict[str, dict[str, float]]:
    """Average precision by ranking and query; maps are learnt from the concepts that no topic of a fold is about."""
    calibration = searcher.calibration
    assert calibration is not None
    with OpenCollection.open("lohelp", Settings.read(home=home), "cpu") as opened:
        learning = stored_by_concept(opened.store, searcher.stored_model, TESTED, opened.console).only(TESTED)
    topics, judged = harness.topics("lohelp", TESTED)
    relevant = [qrel for qrel in judged if qrel.relevance > 0]
    order = np.random.default_rng(0).permutation(sorted({qrel.query_id for qrel in relevant})).tolist()
    order = order[: int(len(order) * share)]
    pages = searcher.store.scan(searcher.stored_model)
    concepts = {item.document.doc_id: str(item.document.fields.get("concept")) for page in pages for item in page}
    by_ranking: dict[str, dict[str, float]] = {_UNMAPPED: {}, _MAPPED: {}}
    for fold in range(folds):
        qids = set(order[fold::folds])
        queries = harness.queries(topic for topic in topics if topic.qid in qids)
        qrels = harness.judgements([qrel for qrel in relevant if qrel.query_id in qids], TESTED)
        away = {concepts[qrel.doc_id] for qrel in relevant if qrel.query_id in qids and qrel.doc_id in concepts}
        maps = learn(learning.without_concepts(away), searcher.spec, MappingPlan()).maps
        vectors = searcher.encoder.encode_queries(queries)
        for name, ranked in ((_UNMAPPED, calibration), (_MAPPED, replace(calibration, space=MappedSpace(maps)))):
            ranker = FairRanker(searcher.store, ranked)
            rankings = harness.rank(ranker, queries, vectors, sorted(searcher.languages), _DEPTH)
            by_ranking[name] |= harness.average_precisions(queries, rankings, qrels)
        print(f"fold {fold}: {len(away)} concepts away, {len(queries)} queries", flush=True)
    return by_ranking


@harness.benchmark("Mapped search", home=Path, folds=2, share=1.0)
def measure(arguments: Namespace) -> list[str]:
    """The home has lohelp, calibrated; ``share`` is of the topics."""
    with harness.open_searcher("lohelp", arguments.home) as searcher:
        by_ranking = precisions(searcher, arguments.home, arguments.folds, arguments.share)
    unmapped, by_topic = by_ranking[_UNMAPPED], dict[str, list[float]]()
    for query_id, value in by_ranking[_MAPPED].items():
        by_topic.setdefault(topic_of(query_id), []).append(value - unmapped[query_id])
    gains = np.array([np.mean(of_topic) for of_topic in by_topic.values()])
    return [
        f"{len(unmapped):,} queries ({len(by_topic)} topics in {len(TESTED)} languages), {arguments.folds} folds, "
        f"documents and passages, depth {_DEPTH}; a map gains {gains.mean():+.3f} (standard error over topics "
        f"{gains.std() / len(gains) ** 0.5:.3f}).",
        "",
        *harness.table("ranking | MAP", ([name, f"{mean(values):.3f}"] for name, values in by_ranking.items())),
    ]
