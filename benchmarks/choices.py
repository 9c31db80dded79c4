"""What ranking's constants stand on, on the development collection: candidates, neighbours, wrong labels, drift."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import harness
from encoders.document import Document, Encoder
from encoders.methods.moments import Moments, PartMoments
from encoders.methods.vector_parts import VectorParts
from indexer.collection.settings import Settings
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.fitting.drift import beyond_chance, changed_hits, with_documents
from query.fitting.statistics import document_moments, draw_samples, fit_statistics
from query.ranking.choice import PLAIN, Choice, RankingOptions
from query.ranking.searcher import Searcher

DEPTHS = (20, 50, 100)
NEIGHBOURS = (1, 2, 3, 5, 10)
NEWS = (0.0, 0.1, 0.25, 0.5)
VECTORS = Choice(0.75, "ratio", passages=False)


def reach(searcher: Searcher, made: Calibration, queries: Sequence[Document]) -> list[str]:
    """Of the ten exact best of each language, how many are among its nearest by the raw vectors."""
    held = dict.fromkeys(DEPTHS, 0)
    total = 0
    model = searcher.spec.model
    for lang in searcher.languages:
        doc_ids = searcher.store.sample(model, lang, searcher.languages[lang])
        raw = searcher.store.vectors(model, doc_ids)
        documents = made.correct_documents(raw, {lang: slice(0, len(raw))})
        for asked in searcher.languages:
            some = [query for query in queries if query.lang == asked]
            corrected = made.correct_queries(searcher.encoder.encode_queries(some), asked)
            best = np.argsort(-(corrected @ documents.T), axis=1)[:, :10]
            ranks = np.argsort(np.argsort(-(made.queries_for_store(corrected, lang) @ raw.T), axis=1), axis=1)
            near = np.take_along_axis(ranks, best, axis=1)
            total += near.size
            for depth in DEPTHS:
                held[depth] += int((near < depth).sum())
    shares = ", ".join(f"{depth}: {held[depth] / total:.1%}" for depth in DEPTHS)
    return [f"Of the exact ten best of a language, candidates by raw vectors hold: {shares}.", ""]


def average_precision(
    searcher: Searcher, made: Calibration, queries: Sequence[Document], qrels: Sequence[Qrel]
) -> float:
    """MAP of the first thousand by documents' vectors."""
    rankings = replace(searcher, calibration=made).rank(queries, choice=VECTORS)
    return harness.mean(harness.average_precisions(queries, rankings, qrels))


def moments(searcher: Searcher, doc_ids: Mapping[str, Sequence[str]]) -> dict[str, PartMoments]:
    """Of some documents of each language."""
    model, parts = searcher.spec.model, VectorParts.of(searcher.spec)
    return {lang: document_moments(searcher.store, model, parts, some) for lang, some in doc_ids.items()}


def drifts(searcher: Searcher, made: Calibration, news: Searcher) -> list[str]:
    """Drift between halves of the same documents, and with news among the second half."""
    drawn = {lang: searcher.store.sample(made.model, lang, count) for lang, count in searcher.languages.items()}
    active = with_documents(made, moments(searcher, {lang: ids[::2] for lang, ids in drawn.items()}))
    lines = ["| news beside help pages | any other hit, mean | drift, mean | drift, most |", "|---:|---:|---:|---:|"]
    for share in NEWS:
        halves = []
        for start in (1, 3):
            half = moments(searcher, {lang: ids[start::4] for lang, ids in drawn.items()})
            for lang, one in half.items():
                ids = news.store.sample(made.model, lang, 10_000)[start // 2 :: 2]
                more = document_moments(news.store, made.model, made.parts, ids)
                half[lang] = one + _times(more, share * one.count / max(more.count, 1))
            halves.append(half)
        today = with_documents(made, {lang: one + halves[1][lang] for lang, one in halves[0].items()})
        other = float(np.mean([(one > 0).mean() for one in changed_hits(searcher.store, active, today).values()]))
        found = list(beyond_chance(searcher.store, active, halves[0], halves[1]).values())
        lines.append(f"| {share:.0%} | {other:.0%} | {np.mean(found):.0%} | {max(found):.0%} |")
        print(lines[-1], flush=True)
    return lines


def _times(seen: PartMoments, factor: float) -> PartMoments:
    """The moments of as many times the vectors."""
    scaled = PartMoments(seen.parts, tuple(Moments(one.dim, round(one.count * factor)) for one in seen.moments))
    for one, many in zip(seen.moments, scaled.moments, strict=True):
        many.total, many.second = one.total * factor, one.second * factor
    return scaled


def mislabelled(searcher: Searcher, encoder: Encoder, folder: Path, seed: int = 0) -> tuple[Searcher, Calibration]:
    """The same collection, a tenth of whose documents is given a language at random, with a calibration of that."""
    chance = np.random.default_rng(seed)
    languages = sorted(searcher.languages)
    store = EmbeddedStore(folder, "mislabelled")
    store.create(searcher.spec.model, searcher.spec.dim)
    for page in searcher.store.scan(searcher.spec.model):
        wrong = chance.random(len(page)) < 0.1
        given = [
            str(chance.choice(languages)) if at else one.document.lang for at, one in zip(wrong, page, strict=True)
        ]
        store.put(
            searcher.spec.model,
            [replace(item, document=replace(item.document, lang=lang)) for item, lang in zip(page, given, strict=True)],
        )
    made = fit_statistics(draw_samples(store, encoder), searcher.spec.model).with_choice(balance=0.75, margin="ratio")
    return replace(searcher, store=store), made


def same_language(
    searcher: Searcher, made: Calibration, queries: Sequence[Document], qrels: Sequence[Qrel]
) -> list[str]:
    """Each topic among the documents of its own language: what a mixed search must not cost."""
    calibrated = replace(searcher, calibration=made)
    ways = {
        "plain cosine": (replace(searcher, calibration=None), PLAIN),
        "the default": (calibrated, Choice.of(made)),
        "the default with --hybrid": (calibrated, replace(Choice.of(made), hybrid=True)),
    }
    own = [qrel for qrel in qrels if qrel.doc_id.split(":")[1] == qrel.query_id.rpartition(".")[2]]
    lines = ["| same-language search, the mean of nine languages' topics together | MAP |", "|---|---:|"]
    for name, (way, choice) in ways.items():
        precisions: dict[str, float] = {}
        for lang in searcher.languages:
            queries_of_lang = [query for query in queries if query.lang == lang]
            rankings = way.rank(queries_of_lang, to=[lang], choice=choice)
            precisions |= harness.average_precisions(queries_of_lang, rankings, own)
        lines.append(f"| {name} | {harness.mean(precisions):.4f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where lohelp is indexed, under that name.")
    parser.add_argument("--news", type=Path, required=True, help="Where ntrex is, likewise.")
    parser.add_argument("--every", type=int, default=6, help="Take every n-th topic.")
    arguments = parser.parse_args()
    plain = RankingOptions(calibration="none")
    with Searcher.open("lohelp", Settings.read(home=arguments.home), device="cpu", ranking=plain) as searcher:
        langs = sorted(searcher.languages)
        topics, judged = harness.topics("lohelp", "index", langs)
        chosen = set(sorted({topic.qid for topic in topics})[:: arguments.every])
        queries = harness.queries(topic for topic in topics if topic.qid in chosen)
        qrels = harness.judgements(judged, langs)
        samples = draw_samples(searcher.store, searcher.encoder)
        made = fit_statistics(samples, searcher.spec.model).with_choice(balance=0.75, margin="ratio")
        encoder, searcher.encoder = searcher.encoder, harness.StoredEncoder(searcher.encoder)
        searcher.encoder.encode_queries(queries)
        lines = reach(searcher, made, queries)
        print(lines[0], flush=True)
        lines += ["| margin, by documents' vectors | MAP |", "|---|---:|"]
        with tempfile.TemporaryDirectory() as place:
            ways = {f"k = {k}": (searcher, replace(made, neighbours=k)) for k in NEIGHBOURS}
            ways["k = 3, a tenth of the documents given any language"] = mislabelled(searcher, encoder, Path(place))
            for name, way in ways.items():
                lines.append(f"| {name} | {average_precision(*way, queries, qrels):.4f} |")
                print(lines[-1], flush=True)
        lines += ["", *same_language(searcher, made, queries, qrels)]
        with Searcher.open("ntrex", Settings.read(home=arguments.news), device="cpu", ranking=plain) as news:
            lines += ["", *drifts(searcher, made, news)]
    harness.write(
        "What ranking's constants stand on",
        f"python -m benchmarks.choices --home HOME --news HOME --every {arguments.every}",
        lines,
    )


if __name__ == "__main__":
    main()
