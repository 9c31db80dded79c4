"""What ranking rests on, on the development collection: candidates, wrong labels, same-language search, drift."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import harness
from benchmarks.rankers import rank
from benchmarks.searchers import UNCALIBRATED, open_searcher
from encoders.document import Document, Encoder
from encoders.methods.moments import PartMoments
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import VectorStore
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration_fitting.calibration_decision import decide
from query.calibration_fitting.drift import changed_hits, drift, with_documents
from query.calibration_fitting.language_statistics import document_moments, draw_samples, fit_statistics
from query.ranking.fair_ranker import FairRanker
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher

DEPTHS = (20, 50, 100)
NEWS = (0.0, 0.1, 0.25, 0.5)


def candidate_lines(searcher: Searcher, calibration: Calibration, queries: Sequence[Document]) -> list[str]:
    """Share of each language's exact ten best that are among its nearest by raw vectors, at several depths."""
    hits = dict.fromkeys(DEPTHS, 0)
    total = 0
    model = searcher.spec.model
    for lang in searcher.languages:
        doc_ids = searcher.store.sample(model, lang, searcher.languages[lang])
        raw = searcher.store.vectors(model, doc_ids)
        documents = calibration.correct_documents(raw, {lang: slice(0, len(raw))})
        for query_lang in searcher.languages:
            of_lang = [query for query in queries if query.lang == query_lang]
            corrected = calibration.correct_queries(searcher.encoder.encode_queries(of_lang), query_lang)
            best = np.argsort(-(corrected @ documents.T), axis=1)[:, :10]
            ranks = np.argsort(np.argsort(-(calibration.queries_for_store(corrected, lang) @ raw.T), axis=1), axis=1)
            ranks_of_best = np.take_along_axis(ranks, best, axis=1)
            total += ranks_of_best.size
            for depth in DEPTHS:
                hits[depth] += int((ranks_of_best < depth).sum())
    shares = ", ".join(f"{depth}: {hits[depth] / total:.1%}" for depth in DEPTHS)
    return [f"Of the exact ten best of a language, candidates by raw vectors hold: {shares}.", ""]


def average_precision(
    store: VectorStore, encoder: Encoder, queries: Sequence[Document], qrels: Sequence[Qrel]
) -> float:
    """MAP of the first thousand by documents' vectors, with statistics of the store."""
    ranker = FairRanker(store, fit_statistics(draw_samples(store, encoder), encoder.spec.model), passages=False)
    rankings = rank(ranker, queries, encoder.encode_queries(queries), sorted(store.count()))
    return harness.mean(harness.average_precisions(queries, rankings, qrels))


def moments(searcher: Searcher, doc_ids: Mapping[str, Sequence[str]]) -> dict[str, PartMoments]:
    """Moments of some documents of each language."""
    model, parts = searcher.spec.model, VectorParts.of(searcher.spec)
    return {lang: document_moments(searcher.store, model, parts, of_lang) for lang, of_lang in doc_ids.items()}


def drift_lines(searcher: Searcher, calibration: Calibration, news: Searcher) -> list[str]:
    """Drift from one half of the documents to the other, to which several shares of news are added."""
    model = calibration.model
    drawn = {lang: searcher.store.sample(model, lang, count) for lang, count in searcher.languages.items()}
    active = with_documents(calibration, moments(searcher, {lang: ids[::2] for lang, ids in drawn.items()}))
    table = harness.Table(
        ["| news beside help pages | any other hit, mean | drift, mean | drift, most |", "|---:|---:|---:|---:|"]
    )
    for share in NEWS:
        quarters = []
        for start in (1, 3):
            quarter = moments(searcher, {lang: ids[start::4] for lang, ids in drawn.items()})
            for lang, of_pages in quarter.items():
                ids = news.store.sample(model, lang, 10_000)[start // 2 :: 2]
                of_news = document_moments(news.store, model, calibration.vector_parts, ids)
                quarter[lang] = of_pages + _times(of_news, share * of_pages.count / max(of_news.count, 1))
            quarters.append(quarter)
        first, second = quarters
        today = with_documents(calibration, {lang: of_lang + second[lang] for lang, of_lang in first.items()})
        changed = changed_hits(searcher.store, active, today).values()
        any_changed = float(np.mean([(shares > 0).mean() for shares in changed]))
        drifts = list(drift(searcher.store, active, quarters).values())
        table.add(f"| {share:.0%} | {any_changed:.0%} | {np.mean(drifts):.0%} | {max(drifts):.0%} |")
    return table


def _times(part_moments: PartMoments, factor: float) -> PartMoments:
    """The moments of ``factor`` times as many vectors."""
    return PartMoments(part_moments.parts, tuple(part.times(factor) for part in part_moments.moments))


def mislabelled(searcher: Searcher, folder: Path, seed: int = 0) -> VectorStore:
    """The same documents with a random language for a tenth of them."""
    chance = np.random.default_rng(seed)
    languages = sorted(searcher.languages)
    store = EmbeddedStore(folder, "mislabelled")
    store.create(searcher.spec.model, searcher.spec.dim)
    for page in searcher.store.scan(searcher.spec.model):
        wrong = chance.random(len(page)) < 0.1
        langs = [
            str(chance.choice(languages)) if is_wrong else item.document.lang
            for is_wrong, item in zip(wrong, page, strict=True)
        ]
        store.put(
            searcher.spec.model,
            [replace(item, document=replace(item.document, lang=lang)) for item, lang in zip(page, langs, strict=True)],
        )
    return store


def same_language_lines(
    searcher: Searcher, calibration: Calibration, queries: Sequence[Document], qrels: Sequence[Qrel]
) -> list[str]:
    """MAP of each topic among the documents of its own language, which a mixed index must not cost."""
    calibrated = replace(searcher, calibration=calibration, ranking=RankingOptions())
    rankings = {
        "plain cosine": searcher,
        "the default": calibrated,
        "the default with --hybrid": replace(calibrated, ranking=RankingOptions(hybrid=True)),
    }
    same = [qrel for qrel in qrels if qrel.doc_id.split(":")[1] == qrel.query_id.rpartition(".")[2]]
    table = harness.Table(["| same-language search, the mean of nine languages' topics together | MAP |", "|---|---:|"])
    for name, ranked_by in rankings.items():
        precisions: dict[str, float] = {}
        for lang in searcher.languages:
            of_lang = [query for query in queries if query.lang == lang]
            precisions |= harness.average_precisions(of_lang, ranked_by.rank(of_lang, to=[lang]), same)
        table.add(f"| {name} | {harness.mean(precisions):.4f} |")
    return table


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where lohelp is indexed, under that name.")
    parser.add_argument("--news", type=Path, required=True, help="Where ntrex is, likewise.")
    parser.add_argument("--every", type=int, default=6, help="Take every n-th topic.")
    arguments = parser.parse_args()
    with open_searcher("lohelp", arguments.home, UNCALIBRATED) as searcher:
        langs = sorted(searcher.languages)
        topics, judged = harness.topics("lohelp", "index", langs)
        queries = harness.queries(harness.every_nth(topics, arguments.every))
        qrels = harness.judgements(judged, langs)
        searcher.encoder = harness.StoredEncoder(searcher.encoder)
        store, encoder = searcher.store, searcher.encoder
        samples = draw_samples(store, encoder)
        calibration = fit_statistics(samples, encoder.spec.model)
        table = harness.Table(candidate_lines(searcher, calibration, queries))
        print(table[0], flush=True)
        table += ["| languages, by documents' vectors | MAP |", "|---|---:|"]
        with tempfile.TemporaryDirectory() as scratch, closing(mislabelled(searcher, Path(scratch))) as wrong:
            for name, labelled in (("as they are", store), ("any for a tenth of the documents", wrong)):
                table.add(f"| {name} | {average_precision(labelled, encoder, queries, qrels):.4f} |")
        decided = decide(store, samples, encoder.spec.model).calibration
        table += ["", *same_language_lines(searcher, decided, queries, qrels)]
        with open_searcher("ntrex", arguments.news, UNCALIBRATED) as news:
            table += ["", *drift_lines(searcher, calibration, news)]
    command = harness.command("choices --home HOME --news HOME", arguments, "every")
    harness.write("What ranking's constants stand on", command, table)


if __name__ == "__main__":
    main()
