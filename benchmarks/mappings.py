"""Maps between spaces, measured: mates elsewhere, mapped search on unseen concepts, migration against re-encoding."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import harness
from encoders.console import Console
from encoders.document import Document, EncoderSpec, FloatArray
from encoders.maps.lca import LCA
from encoders.maps.mates import mates, mean_mates
from encoders.maps.parallel import ConceptSplit, Parallel
from encoders.maps.space import SpaceMaps
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import connect
from indexer.training.aligned_documents import ByConcept, stored_by_concept
from indexer.training.mapping import MappingPlan, learn
from indexer.training.nca import learn_networks
from query.calibration import loading
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.mapped_calibration import MappedCalibration
from query.ranking.choice import RankingOptions
from query.ranking.fair_ranker import FairRanker
from query.ranking.hits import Ranking
from query.ranking.searcher import Searcher

if TYPE_CHECKING:
    from ir_measures import Qrel

_TIMED = 60
LANGS = ("en", "de", "fr", "it", "es", "ru", "ja", "zh")
DEPTH = 50


def stored(home: Path, name: str, langs: Sequence[str]) -> ByConcept:
    """Vectors of a collection by language and concept."""
    settings = Settings.read(home=home)
    engine = connect(settings.database)
    found = collections.require(engine, name)
    store = found.open_store(settings)
    try:
        return stored_by_concept(store, found.model, langs, Console(quiet=True)).only(langs)
    finally:
        store.close()
        engine.dispose()


def shown(documents: ByConcept, maps: SpaceMaps | None, means: Mapping[str, FloatArray]) -> str:
    """Rate and MRR over ordered pairs, the collection's own means taken out."""
    found = []
    for lang, other in permutations(documents.vectors, 2):
        shared = sorted(documents.vectors[lang].keys() & documents.vectors[other].keys())
        asked, answers = (
            np.stack([documents.vectors[one][concept] for concept in shared]) - means[one] for one in (lang, other)
        )
        found.append(mates(*(maps.compared(lang, other, asked, answers) if maps else (asked, answers))))
    one = mean_mates(found)
    return f"{one.rate:.3f} | {one.mrr:.3f}"


PLANS = {
    "LCA a pair, shrunk towards itself": MappingPlan(),
    "LCA a pair, shrunk towards nothing": MappingPlan(stay=False),
    "LCA a pair, pseudo-inverse": MappingPlan(stay=False, ridge=0.0),
    "LCA through en, shrunk towards itself": MappingPlan(pivot="en"),
    "LCC, 200 codes": MappingPlan(method="lcc"),
}


def elsewhere(home: Path, other_home: Path, other: str) -> list[str]:
    """Maps of lohelp on another collection."""
    spec = spec_of(home)
    learning, asked = stored(home, "lohelp", LANGS), stored(other_home, other, LANGS)
    means = {lang: np.mean(list(some.values()), axis=0) for lang, some in asked.vectors.items()}
    nothing = {lang: np.zeros_like(one) for lang, one in means.items()}
    lines = ["| | rate | MRR |", "|---|---:|---:|"]
    lines.append(f"| raw | {shown(asked, None, nothing)} |")
    lines.append(f"| centred | {shown(asked, None, means)} |")
    for name, plan in PLANS.items():
        learnt = learn(learning, spec, plan)
        lines.append(f"| {name} (ridge {learnt.ridge:g}) | {shown(asked, learnt.maps, means)} |")
        print(lines[-1], flush=True)
    return lines


def spec_of(home: Path, name: str = "lohelp") -> EncoderSpec:
    """What encoded a collection."""
    engine = connect(Settings.read(home=home).database)
    found = collections.require(engine, name)
    engine.dispose()
    return EncoderSpec(found.encoder, found.method, found.dim, (), found.model, "")


def topics(langs: Sequence[str]) -> tuple[list[Document], list[Qrel], dict[str, set[str]]]:
    """Queries named topic.language, qrels for them, and the relevant documents by topic."""
    asked, qrels = harness.topics("lohelp", "index", langs)
    judged = [qrel for qrel in qrels if qrel.relevance > 0]
    relevant: dict[str, set[str]] = {}
    for qrel in judged:
        relevant.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    return harness.queries(asked), harness.judgements(judged, langs), relevant


def precision(
    searcher: Searcher,
    calibration: Calibration,
    queries: Sequence[Document],
    vectors: FloatArray,
    qrels: Iterable[Qrel],
) -> dict[str, float]:
    """Average precision of each query, to a depth of fifty."""
    ranker = FairRanker(searcher.store, calibration, searcher.choice, max(searcher.languages.values()))
    rankings: dict[int, Ranking] = {}
    for lang in sorted({query.lang for query in queries}):
        rows = [row for row, query in enumerate(queries) if query.lang == lang]
        for start in range(0, len(rows), 64):
            block = rows[start : start + 64]
            ranked = ranker.rank(vectors[block], lang, sorted(searcher.languages), DEPTH)
            rankings |= dict(zip(block, ranked, strict=True))
    names = {query.doc_id for query in queries}
    own = [qrel for qrel in qrels if qrel.query_id in names]
    return harness.average_precisions(queries, [rankings[row] for row in range(len(queries))], own)


def search_rows(home: Path, folds: int, share: float) -> list[str]:
    """Topics of a fold, ranked with maps learnt from the concepts that none of its topics asks for."""
    searcher = Searcher.open("lohelp", Settings.read(home=home), device="cpu")
    statistics = searcher.calibration
    assert statistics is not None
    learning, spec = stored(home, "lohelp", LANGS), spec_of(home)
    queries, qrels, relevant = topics(LANGS)
    names = sorted(relevant)
    order = np.random.default_rng(0).permutation(names).tolist()[: int(len(names) * share)]
    concept = {
        item.document.doc_id: str(item.document.fields.get("concept"))
        for page in searcher.store.scan(searcher.model)
        for item in page
    }
    found: dict[str, dict[str, float]] = {}
    for fold in range(folds):
        tested = set(order[fold::folds])
        away = {concept[doc_id] for name in tested for doc_id in relevant[name] if doc_id in concept}
        seen = ByConcept(
            {
                lang: {name: vector for name, vector in some.items() if name not in away}
                for lang, some in learning.vectors.items()
            }
        )
        asked = [query for query in queries if query.doc_id.rsplit(".", 1)[0] in tested]
        vectors = searcher.encoder.encode_queries(asked)
        print(f"fold {fold}: {len(away)} concepts away, {len(asked)} queries", flush=True)
        variants: dict[str, Calibration] = {"without a map": statistics}
        for name, plan in PLANS.items():
            variants[name] = MappedCalibration.on(statistics, learn(seen, spec, plan).maps)
        networks = learn_networks(seen, spec, 0, Console(quiet=True)).networks
        variants["NCA, rescoring what is found without a map"] = MappedCalibration.on(statistics, networks)
        for name, calibration in variants.items():
            with harness.Stopwatch() as watch:
                found.setdefault(name, {}).update(precision(searcher, calibration, asked, vectors, qrels))
            print(name, harness.mean(found[name]), f"{watch.seconds:.0f} s", flush=True)
    base = found["without a map"]
    lines = [
        f"{len(base):,} queries ({len(order)} topics in {len(LANGS)} languages), {folds} folds, balance "
        f"{searcher.choice.balance:g}, documents and passages, depth {DEPTH}.",
        "",
        "| ranking | MAP | difference (± standard error over topics) |",
        "|---|---:|---:|",
    ]
    for name, values in found.items():
        by_topic: dict[str, list[float]] = {}
        for query, value in values.items():
            by_topic.setdefault(query.rsplit(".", 1)[0], []).append(value - base[query])
        gains = np.array([np.mean(some) for some in by_topic.values()])
        lines.append(
            f"| {name} | {np.mean(list(values.values())):.3f} | "
            f"{gains.mean():+.3f} ± {gains.std() / len(gains) ** 0.5:.3f} |"
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
    """One query at a time: encoding it, and ranking with and without maps, in turn."""
    with Searcher.open("lohelp", Settings.read(home=home), device="cpu") as searcher:
        statistics = searcher.calibration
        assert statistics is not None
        maps = learn(stored(home, "lohelp", LANGS), spec_of(home), MappingPlan(ridge=1.0)).maps
        asked = topics(LANGS)[0]
        asked = asked[:: max(1, len(asked) // _TIMED)]
        targets = sorted(searcher.languages)
        vectors = [searcher.encoder.encode_queries([query]) for query in asked]

        def ranking(calibration: Calibration) -> Callable[[], object]:
            ranker = FairRanker(searcher.store, calibration, searcher.choice, max(searcher.languages.values()))
            return lambda: [
                ranker.rank(vector, query.lang, targets, 10) for query, vector in zip(asked, vectors, strict=True)
            ]

        def asking(calibration: Calibration) -> Callable[[], object]:
            towards = {query.lang: calibration.for_queries_in(query.lang) for query in asked}

            def ask() -> None:
                for query, vector in zip(asked, vectors, strict=True):
                    corrected = towards[query.lang].correct_queries(vector, query.lang)
                    for target in targets:
                        towards[query.lang].queries_for_store(corrected, target)

            return ask

        seconds = harness.in_turn(
            {
                "encoding": lambda: [searcher.encoder.encode_queries([query]) for query in asked],
                "what kNN is asked without a map": asking(statistics),
                "what kNN is asked with maps": asking(MappedCalibration.on(statistics, maps)),
                "ranking without a map": ranking(statistics),
                "ranking with maps": ranking(MappedCalibration.on(statistics, maps)),
            },
            rounds=5,
        )
    each = {name: 1000 * np.median(some) / len(asked) for name, some in seconds.items()}
    more = each["ranking with maps"] - each["ranking without a map"]
    own = each["what kNN is asked with maps"] - each["what kNN is asked without a map"]
    return [
        f"{len(asked)} queries, one at a time, {len(targets)} languages, documents and passages, medians of five "
        f"rounds; a map makes a query {more:.1f} ms slower, {more / each['encoding']:.0%} of its encoding; mapping the "
        f"query itself for each language takes {own:.2f} ms of them, {own / each['encoding']:.1%}.",
        "",
        "| | ms a query |",
        "|---|---:|",
        *(f"| {name} | {value:.2f} |" for name, value in each.items()),
    ]


def title_rows(home: Path, splits: int) -> list[str]:
    """Titles as queries: is the page of the same concept in another language the first of its language's?"""
    pages: dict[str, dict[str, tuple[str, FloatArray]]] = {lang: {} for lang in LANGS}
    plain = RankingOptions(calibration=calibration_table.NONE)
    with Searcher.open("lohelp", Settings.read(home=home), device="cpu", ranking=plain) as searcher:
        for some in searcher.store.scan(searcher.model):
            for item in some:
                one, concept = item.document, str(item.document.fields.get("concept", ""))
                if one.lang in pages and concept and one.title.strip():
                    pages[one.lang].setdefault(concept, (one.title, item.vector))
        concepts = sorted(set.intersection(*(set(held) for held in pages.values())))
        asked = {}
        for lang, held in pages.items():
            titles = [Document(concept, lang, held[concept][0]) for concept in concepts]
            parts = [searcher.encoder.encode_queries(titles[at : at + 64]) for at in range(0, len(titles), 64)]
            asked[lang] = np.concatenate(parts)
            print(lang, len(titles), flush=True)
    queries = Parallel(concepts, asked)
    stacked = {lang: np.stack([held[one][1] for one in concepts]) for lang, held in pages.items()}
    documents = Parallel(concepts, stacked)
    found: dict[str, list[float]] = {}
    for seed in range(splits):
        of_queries, of_documents = ConceptSplit.of(queries, seed), ConceptSplit.of(documents, seed)
        taught = of_documents.training
        seen = ByConcept({lang: dict(zip(taught.concepts, rows, strict=True)) for lang, rows in taught.rows.items()})
        maps = {name: learn(seen, spec_of(home), plan).maps for name, plan in PLANS.items()}
        means = [
            {lang: rows.mean(axis=0) for lang, rows in one.training.rows.items()} for one in (of_queries, of_documents)
        ]
        ways = {"raw": (None, 0), "centred": (None, 1), **{name: (one, 1) for name, one in maps.items()}}
        for name, (map_, share) in ways.items():
            rates = []
            for lang, other in permutations(LANGS, 2):
                left = of_queries.test.rows[lang] - share * means[0][lang]
                right = of_documents.test.rows[other] - share * means[1][other]
                rates.append(mates(*(map_.compared(lang, other, left, right) if map_ else (left, right))).rate)
            found.setdefault(name, []).append(float(np.mean(rates)))
            print(seed, name, found[name][-1], flush=True)
    return [
        f"{len(concepts)} concepts in {len(LANGS)} languages, {splits} splits by concept, a fifth tested; "
        "share of titles whose page in the other language is the first, mean over 56 ordered pairs (± over splits).",
        "",
        "| documents' map | titles |",
        "|---|---:|",
        *(f"| {name} | {np.mean(some):.3f} ± {np.std(some):.3f} |" for name, some in found.items()),
    ]


def migration_rows(old_home: Path, new_home: Path, encoder: str, sizes: Sequence[int], share: float) -> list[str]:
    """MAP of the old encoder, of the new one with everything encoded again, and of the new one through maps."""
    import shutil
    import tempfile

    from query.migration.migrate import migrate

    queries, qrels, relevant = topics(LANGS)
    names = set(np.random.default_rng(0).permutation(sorted(relevant)).tolist()[: int(len(relevant) * share)])
    asked = [query for query in queries if query.doc_id.rsplit(".", 1)[0] in names]

    def measured(home: Path, balance: float | None = None) -> float:
        with Searcher.open("lohelp", Settings.read(home=home), device="cpu") as searcher:
            assert searcher.calibration is not None
            if balance is not None:
                searcher.choice = replace(searcher.choice, balance=balance)
            vectors = searcher.encoder.encode_queries(asked)
            return harness.mean(precision(searcher, searcher.calibration, asked, vectors, qrels))

    old, again = measured(old_home), measured(new_home)
    lines = [
        f"{len(asked):,} queries, depth {DEPTH}.",
        "",
        "| | MAP | of re-encoding | the sample's advice: old, new, mapped |",
        "|---|---:|---:|---|",
        f"| old encoder | {old:.3f} | {old / again:.0%} | |",
        f"| new encoder, all encoded again | {again:.3f} | 100 % | |",
    ]
    print("\n".join(lines), flush=True)
    for size in sizes:
        with tempfile.TemporaryDirectory() as place:
            home = Path(place) / "home"
            shutil.copytree(old_home, home)
            settings = Settings.read(home=home)
            with harness.Stopwatch() as watch:
                report = migrate("lohelp", encoder, None, settings, sample=size, anyway=True, device="cpu")
            value, worth = measured(home), report.worth
        said = f"{worth.old:.3f}, {worth.new:.3f}, {worth.mapped:.3f}"
        lines.append(
            f"| new encoder, map of {size:,} documents ({watch.seconds:.0f} s) | {value:.3f} | {value / again:.0%} "
            f"| {said} |"
        )
        print(lines[-1], flush=True)
    return lines


def reencoding_rows(old_home: Path, new_home: Path, encoder: str, shares: Sequence[float], share: float) -> list[str]:
    """MAP while a migrated collection is encoded again: a random share of its documents has the new vector."""
    import shutil
    import tempfile

    from query.migration.finish import calibrate_second_field
    from query.migration.migrate import migrate

    queries, qrels, relevant = topics(LANGS)
    names = set(np.random.default_rng(0).permutation(sorted(relevant)).tolist()[: int(len(relevant) * share)])
    asked = [query for query in queries if query.doc_id.rsplit(".", 1)[0] in names]
    lines = [f"{len(asked):,} queries, depth {DEPTH}.", "", "| encoded again | MAP |", "|---:|---:|"]
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        shutil.copytree(old_home, home)
        settings = Settings.read(home=home)
        migrate("lohelp", encoder, None, settings, anyway=True, device="cpu")
        engine = connect(settings.database)
        found = collections.require(engine, "lohelp")
        other = collections.require(connect(Settings.read(home=new_home).database), "lohelp")
        again = other.open_store(Settings.read(home=new_home))
        made = [item for page in again.scan(other.model) for item in page]
        order = np.random.default_rng(0).permutation(len(made))
        store, done = found.open_store(settings), 0
        store.create(other.model, other.dim)
        for part in shares:
            upto = round(part * len(made))
            store.put(other.model, [made[at] for at in order[done:upto]])
            done = upto
            with Searcher.open("lohelp", settings, device="cpu") as searcher:
                assert searcher.calibration is not None
                calibration = searcher.calibration
                if done:
                    calibrate_second_field(engine, found, store, searcher.encoder, calibration, Console(quiet=True))
                    loaded = loading.load(engine, found)
                    assert loaded is not None
                    calibration = loaded
                vectors = searcher.encoder.encode_queries(asked)
                value = harness.mean(precision(searcher, calibration, asked, vectors, qrels))
            lines.append(f"| {part:.0%} | {value:.3f} |")
            print(lines[-1], flush=True)
        store.close()
    return lines


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part", choices=["fitting", "speed", "titles", "elsewhere", "search", "migration", "reencoding"]
    )
    parser.add_argument("--home", type=Path, help="Home of a collection lohelp, indexed and calibrated.")
    parser.add_argument("--other-home", type=Path, help="Home of the other collection, or of the one encoded again.")
    parser.add_argument("--other", default="ntrex")
    parser.add_argument("--encoder", default="", help="Of a migration.")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="Of the topics.")
    parser.add_argument("--sizes", default="500,2000")
    parser.add_argument("--encoded", default="0,0.02,0.1,0.25,0.5,0.75,0.9,1", help="Shares of documents.")
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
    elif arguments.part == "reencoding":
        name = "Encoding again"
        shares = [float(part) for part in arguments.encoded.split(",")]
        lines = reencoding_rows(arguments.home, arguments.other_home, arguments.encoder, shares, arguments.share)
    else:
        name, lines = "Mapped search", search_rows(arguments.home, arguments.folds, arguments.share)
    print("\n".join(lines))
    harness.write(name, _command(sys.argv[1:]), lines)


_PLACES = {"--home": "HOME", "--other-home": "OTHER", "--encoder": "FOLDER"}


def _command(words: Sequence[str]) -> str:
    """What was typed, without the places of this machine."""
    said = [_PLACES.get(before, word) for before, word in zip(("", *words), words, strict=False)]
    return " ".join(["python -m benchmarks.mappings", *said])


if __name__ == "__main__":
    main()
