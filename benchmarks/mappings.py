"""Maps between spaces, measured: mates elsewhere, mapped search on unseen concepts, migration against re-encoding."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import harness
from benchmarks.harness import TESTED, Table, topic_of
from benchmarks.rankers import rank
from benchmarks.searchers import UNCALIBRATED, open_searcher
from encoders.console import Console
from encoders.document import Document, EncoderSpec, FloatArray
from encoders.maps.lca import LCA
from encoders.maps.mate_scores import mates, mean_mates
from encoders.maps.parallel import ConceptSplit, Parallel
from encoders.maps.space_maps import SpaceMaps
from indexer.collection.settings import Settings
from indexer.training.aligned_documents import AlignedVectors, stored_by_concept
from indexer.training.mapping_training import MappingPlan, learn
from indexer.training.nca_training import learn_networks
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import MappedSpace
from query.calibration_fitting.open_collection import OpenCollection
from query.migration.query_migration import migrate
from query.ranking.fair_ranker import FairRanker
from query.ranking.searcher import Searcher

if TYPE_CHECKING:
    from ir_measures import Qrel

_TIMED = 60
DEPTH = 50


def open_collection(home: Path, name: str = "lohelp") -> AbstractContextManager[OpenCollection]:
    """Open a home's collection."""
    return OpenCollection.open(name, Settings.read(home=home), "cpu")


def stored_vectors(home: Path, name: str = "lohelp") -> tuple[AlignedVectors, EncoderSpec]:
    """Vectors of a collection by language and concept, and what encoded them."""
    with open_collection(home, name) as opened:
        row = opened.collection
        vectors = stored_by_concept(opened.store, row.model, TESTED, opened.console).only(TESTED)
        return vectors, EncoderSpec(row.encoder, row.method, row.dim, (), row.model, "")


def rate_and_mrr(documents: AlignedVectors, maps: SpaceMaps | None, means: Mapping[str, FloatArray]) -> str:
    """Rate and MRR of mates, mean over ordered pairs of languages; each language's mean is subtracted."""
    pairs = []
    for lang, target in permutations(documents.vectors, 2):
        shared = sorted(documents.vectors[lang].keys() & documents.vectors[target].keys())
        queries, candidates = (
            np.stack([documents.vectors[side][concept] for concept in shared]) - means[side] for side in (lang, target)
        )
        pairs.append(mates(*(maps.compared(lang, target, queries, candidates) if maps else (queries, candidates))))
    mean = mean_mates(pairs)
    return f"{mean.rate:.3f} | {mean.mrr:.3f}"


PLANS = {
    "LCA a pair, shrunk towards itself": MappingPlan(),
    "LCA a pair, shrunk towards nothing": MappingPlan(stay=False),
    "LCA a pair, pseudo-inverse": MappingPlan(stay=False, ridge=0.0),
    "LCA through en, shrunk towards itself": MappingPlan(pivot="en"),
    "LCC, 200 codes": MappingPlan(method="lcc"),
}


def elsewhere(home: Path, other_home: Path, other: str) -> list[str]:
    """Maps of lohelp on another collection."""
    learning, spec = stored_vectors(home)
    tested, _ = stored_vectors(other_home, other)
    means = {lang: np.mean(list(by_concept.values()), axis=0) for lang, by_concept in tested.vectors.items()}
    zeros = {lang: np.zeros_like(mean) for lang, mean in means.items()}
    table = Table(["| | rate | MRR |", "|---|---:|---:|"])
    table.add(f"| raw | {rate_and_mrr(tested, None, zeros)} |")
    table.add(f"| centred | {rate_and_mrr(tested, None, means)} |")
    for name, plan in PLANS.items():
        learnt = learn(learning, spec, plan)
        table.add(f"| {name} (ridge {learnt.ridge:g}) | {rate_and_mrr(tested, learnt.maps, means)} |")
    return table


@dataclass(frozen=True)
class Topics:
    """Queries of topics and their judgements.

    Attributes:
        relevant: relevant documents by topic.
    """

    queries: list[Document]
    qrels: list[Qrel]
    relevant: dict[str, set[str]]

    @classmethod
    def read(cls) -> Topics:
        """Lohelp's index topics in all languages."""
        topics, qrels = harness.topics("lohelp", "index", TESTED)
        qrels = [qrel for qrel in qrels if qrel.relevance > 0]
        relevant: dict[str, set[str]] = {}
        for qrel in qrels:
            relevant.setdefault(qrel.query_id, set()).add(qrel.doc_id)
        return cls(harness.queries(topics), harness.judgements(qrels, TESTED), relevant)

    def sample(self, share: float) -> list[str]:
        """A random share of the topics."""
        order: list[str] = np.random.default_rng(0).permutation(sorted(self.relevant)).tolist()
        return order[: int(len(order) * share)]

    def only(self, topics: Sequence[str]) -> Topics:
        """The queries of some topics."""
        chosen = set(topics)
        queries = [query for query in self.queries if topic_of(query.doc_id) in chosen]
        query_ids = {query.doc_id for query in queries}
        return Topics(queries, [qrel for qrel in self.qrels if qrel.query_id in query_ids], self.relevant)


def precisions(searcher: Searcher, calibration: Calibration, vectors: FloatArray, topics: Topics) -> dict[str, float]:
    """Average precision of each query, to a depth of fifty."""
    ranker = FairRanker(searcher.store, calibration)
    rankings = rank(ranker, topics.queries, vectors, sorted(searcher.languages), DEPTH)
    return harness.average_precisions(topics.queries, rankings, topics.qrels)


def calibration_of(searcher: Searcher) -> Calibration:
    """The calibration of a calibrated collection."""
    assert searcher.calibration is not None
    return searcher.calibration


def search_rows(home: Path, folds: int, share: float) -> list[str]:
    """MAP of the topics of each fold, with maps learnt from the concepts that none of the fold's topics is about."""
    with open_searcher("lohelp", home) as searcher:
        return _search_rows(searcher, home, folds, share)


def _search_rows(searcher: Searcher, home: Path, folds: int, share: float) -> list[str]:
    statistics = calibration_of(searcher)
    learning, spec = stored_vectors(home)
    topics = Topics.read()
    order = topics.sample(share)
    concepts = {
        item.document.doc_id: str(item.document.fields.get("concept"))
        for page in searcher.store.scan(searcher.stored_model)
        for item in page
    }
    by_ranking: dict[str, dict[str, float]] = {}
    for fold in range(folds):
        tested = topics.only(order[fold::folds])
        kept_out = {
            concepts[doc_id] for topic in order[fold::folds] for doc_id in topics.relevant[topic] if doc_id in concepts
        }
        seen = AlignedVectors(
            {
                lang: {concept: vector for concept, vector in by_concept.items() if concept not in kept_out}
                for lang, by_concept in learning.vectors.items()
            }
        )
        vectors = searcher.encoder.encode_queries(tested.queries)
        print(f"fold {fold}: {len(kept_out)} concepts away, {len(tested.queries)} queries", flush=True)
        calibrations: dict[str, Calibration] = {"without a map": statistics}
        for name, plan in PLANS.items():
            calibrations[name] = replace(statistics, space=MappedSpace(learn(seen, spec, plan).maps))
        networks = learn_networks(seen, spec, 0, Console(quiet=True)).networks
        calibrations["NCA, rescoring what is found without a map"] = replace(statistics, space=MappedSpace(networks))
        for name, calibration in calibrations.items():
            with harness.Stopwatch() as watch:
                by_ranking.setdefault(name, {}).update(precisions(searcher, calibration, vectors, tested))
            print(name, harness.mean(by_ranking[name]), f"{watch.seconds:.0f} s", flush=True)
    unmapped = by_ranking["without a map"]
    lines = [
        f"{len(unmapped):,} queries ({len(order)} topics in {len(TESTED)} languages), {folds} folds, balance "
        f"{statistics.balance:g}, documents and passages, depth {DEPTH}.",
        "",
        "| ranking | MAP | difference (± standard error over topics) |",
        "|---|---:|---:|",
    ]
    for name, by_query in by_ranking.items():
        by_topic: dict[str, list[float]] = {}
        for query_id, value in by_query.items():
            by_topic.setdefault(topic_of(query_id), []).append(value - unmapped[query_id])
        gains = np.array([np.mean(of_topic) for of_topic in by_topic.values()])
        lines.append(
            f"| {name} | {harness.mean(by_query):.3f} | {gains.mean():+.3f} ± {gains.std() / len(gains) ** 0.5:.3f} |"
        )
    return lines


def fitting_rows() -> list[str]:
    """Fitting from 100,000 pairs of 384 numbers."""
    chance = np.random.default_rng(0)
    x = chance.standard_normal((100_000, 384), dtype=np.float32)
    y = x[:, ::-1] + chance.standard_normal((100_000, 384), dtype=np.float32)
    with harness.Stopwatch() as watch:
        LCA(0.1).fit(x, y)
    return [f"LCA of 100,000 pairs × 384: {watch.seconds:.2f} s."]


def speed_rows(home: Path) -> list[str]:
    """Time of single queries: encoding, and ranking with and without maps, in turn."""
    with open_searcher("lohelp", home) as searcher:
        statistics = calibration_of(searcher)
        maps = learn(*stored_vectors(home), MappingPlan(ridge=1.0)).maps
        mapped = replace(statistics, space=MappedSpace(maps))
        queries = Topics.read().queries
        queries = queries[:: max(1, len(queries) // _TIMED)]
        targets = sorted(searcher.languages)
        vectors = [searcher.encoder.encode_queries([query]) for query in queries]

        def ranking(calibration: Calibration) -> Callable[[], object]:
            ranker = FairRanker(searcher.store, calibration)
            return lambda: [
                ranker.rank(vector, query.lang, targets, 10) for query, vector in zip(queries, vectors, strict=True)
            ]

        def correcting(calibration: Calibration) -> Callable[[], object]:
            def correct() -> None:
                for query, vector in zip(queries, vectors, strict=True):
                    corrected = calibration.correct_queries(vector, query.lang)
                    for target in targets:
                        calibration.queries_for_store(corrected, target, lang=query.lang)

            return correct

        seconds = harness.in_turn(
            {
                "encoding": lambda: [searcher.encoder.encode_queries([query]) for query in queries],
                "what kNN is asked without a map": correcting(statistics),
                "what kNN is asked with maps": correcting(mapped),
                "ranking without a map": ranking(statistics),
                "ranking with maps": ranking(mapped),
            },
            rounds=5,
        )
    ms = {name: 1000 * np.median(rounds) / len(queries) for name, rounds in seconds.items()}
    slower = ms["ranking with maps"] - ms["ranking without a map"]
    mapping = ms["what kNN is asked with maps"] - ms["what kNN is asked without a map"]
    return [
        f"{len(queries)} queries, one at a time, {len(targets)} languages, documents and passages, medians of five "
        f"rounds; a map makes a query {slower:.1f} ms slower, {slower / ms['encoding']:.0%} of its encoding; mapping "
        f"the query itself for each language takes {mapping:.2f} ms of them, {mapping / ms['encoding']:.1%}.",
        "",
        "| | ms a query |",
        "|---|---:|",
        *(f"| {name} | {value:.2f} |" for name, value in ms.items()),
    ]


def title_rows(home: Path, splits: int) -> list[str]:
    """How often a title's first page in another language is the page of the same concept."""
    pages: dict[str, dict[str, tuple[str, FloatArray]]] = {lang: {} for lang in TESTED}
    with open_searcher("lohelp", home, UNCALIBRATED) as searcher:
        for batch in searcher.store.scan(searcher.stored_model):
            for item in batch:
                document, concept = item.document, str(item.document.fields.get("concept", ""))
                if document.lang in pages and concept and document.title.strip():
                    pages[document.lang].setdefault(concept, (document.title, item.vector))
        concepts = sorted(set.intersection(*(set(by_concept) for by_concept in pages.values())))
        encoded = {}
        for lang, by_concept in pages.items():
            titles = [Document(concept, lang, by_concept[concept][0]) for concept in concepts]
            batches = [
                searcher.encoder.encode_queries(titles[start : start + 64]) for start in range(0, len(titles), 64)
            ]
            encoded[lang] = np.concatenate(batches)
            print(lang, len(titles), flush=True)
    stacked = {lang: np.stack([by_concept[concept][1] for concept in concepts]) for lang, by_concept in pages.items()}
    _, spec = stored_vectors(home)
    rates_by_map: dict[str, list[float]] = {}
    for seed in range(splits):
        queries, documents = (ConceptSplit.of(Parallel(concepts, rows), seed) for rows in (encoded, stacked))
        training = documents.training
        seen = AlignedVectors(
            {lang: dict(zip(training.concepts, rows, strict=True)) for lang, rows in training.rows.items()}
        )
        query_means, document_means = (
            {lang: rows.mean(axis=0) for lang, rows in split.training.rows.items()} for split in (queries, documents)
        )
        maps: dict[str, tuple[SpaceMaps | None, int]] = {"raw": (None, 0), "centred": (None, 1)}
        maps |= {name: (learn(seen, spec, plan).maps, 1) for name, plan in PLANS.items()}
        for name, (space_maps, centring) in maps.items():
            rates = []
            for lang, target in permutations(TESTED, 2):
                left = queries.test.rows[lang] - centring * query_means[lang]
                right = documents.test.rows[target] - centring * document_means[target]
                compared = space_maps.compared(lang, target, left, right) if space_maps else (left, right)
                rates.append(mates(*compared).rate)
            rates_by_map.setdefault(name, []).append(float(np.mean(rates)))
            print(seed, name, rates_by_map[name][-1], flush=True)
    return [
        f"{len(concepts)} concepts in {len(TESTED)} languages, {splits} splits by concept, a fifth tested; "
        "share of titles whose page in the other language is the first, mean over 56 ordered pairs (± over splits).",
        "",
        "| documents' map | titles |",
        "|---|---:|",
        *(f"| {name} | {np.mean(rates):.3f} ± {np.std(rates):.3f} |" for name, rates in rates_by_map.items()),
    ]


@contextmanager
def copied(home: Path) -> Iterator[Settings]:
    """Copy a home to a temporary folder."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "home"
        shutil.copytree(home, copy)
        yield Settings.read(home=copy)


def migration_rows(old_home: Path, new_home: Path, encoder: str, sizes: Sequence[int], share: float) -> list[str]:
    """MAP of the old encoder, of the new one with everything encoded again, and of the new one through maps."""
    topics = Topics.read()
    topics = topics.only(topics.sample(share))

    def measure(home: Path) -> float:
        with open_searcher("lohelp", home) as searcher:
            vectors = searcher.encoder.encode_queries(topics.queries)
            return harness.mean(precisions(searcher, calibration_of(searcher), vectors, topics))

    old, new = measure(old_home), measure(new_home)
    table = Table(
        [
            f"{len(topics.queries):,} queries, depth {DEPTH}.",
            "",
            "| | MAP | of re-encoding | the sample's advice: old, new, mapped |",
            "|---|---:|---:|---|",
            f"| old encoder | {old:.3f} | {old / new:.0%} | |",
            f"| new encoder, all encoded again | {new:.3f} | 100 % | |",
        ]
    )
    print("\n".join(table), flush=True)
    for size in sizes:
        with copied(old_home) as settings:
            with harness.Stopwatch() as watch:
                report = migrate("lohelp", encoder, None, settings, sample=size, anyway=True, device="cpu")
            mapped, quality = measure(settings.home), report.quality
        table.add(
            f"| new encoder, map of {size:,} documents ({watch.seconds:.0f} s) | {mapped:.3f} | {mapped / new:.0%} "
            f"| {quality.old:.3f}, {quality.new:.3f}, {quality.mapped:.3f} |"
        )
    return table


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["fitting", "speed", "titles", "elsewhere", "search", "migration"])
    parser.add_argument("--home", type=Path, help="Home of a collection lohelp, indexed and calibrated.")
    parser.add_argument("--other-home", type=Path, help="Home of the other collection, or of the one encoded again.")
    parser.add_argument("--other", default="ntrex")
    parser.add_argument("--encoder", default="", help="Of a migration.")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="Of the topics.")
    parser.add_argument("--sizes", default="500,2000")
    arguments = parser.parse_args()
    if arguments.part == "fitting":
        name, lines = "Maps: fitting", fitting_rows()
    elif arguments.part == "speed":
        name, lines = "Maps: speed", speed_rows(arguments.home)
    elif arguments.part == "titles":
        name, lines = "Maps: titles as queries", title_rows(arguments.home, arguments.splits)
    elif arguments.part == "elsewhere":
        name = f"Maps of lohelp on {arguments.other}"
        lines = elsewhere(arguments.home, arguments.other_home, arguments.other)
    elif arguments.part == "migration":
        name = "Migration"
        sizes = [int(size) for size in arguments.sizes.split(",")]
        lines = migration_rows(arguments.home, arguments.other_home, arguments.encoder, sizes, arguments.share)
    else:
        name, lines = "Mapped search", search_rows(arguments.home, arguments.folds, arguments.share)
    print("\n".join(lines))
    harness.write(name, _command(sys.argv[1:]), lines)


_SHOWN = {"--home": "HOME", "--other-home": "OTHER", "--encoder": "FOLDER"}


def _command(words: Sequence[str]) -> str:
    """The words of the command line, without the paths of this machine."""
    shown = [_SHOWN.get(before, word) for before, word in zip(("", *words), words, strict=False)]
    return " ".join(["mappings", *shown])


if __name__ == "__main__":
    main()
