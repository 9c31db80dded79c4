"""What mates and the second look do: MAP by collection, by pair of languages, by number of relevant documents."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import harness
from benchmarks.fairness import encode_topics, judged
from benchmarks.searchers import UNCALIBRATED, open_searcher
from encoders.document import Document
from query.evaluation.fairness import own_language_share
from query.evaluation.qrels import read_qrels
from query.evaluation.topics import Topic, read_topics
from query.fitting.evidence import QUERIES
from query.fitting.mined_mates import mine_mates
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.hits import Ranking
from query.ranking.search_choice import SearchChoice
from query.ranking.searcher import Searcher

WITHOUT_MATES = SearchChoice(0.75, "ratio")
BOTH = "**lift 0.98, second look**"
RANKINGS = {
    "without mates": WITHOUT_MATES,
    "second look alone": replace(WITHOUT_MATES, second_look=True),
    "lift 0.5": replace(WITHOUT_MATES, lift=0.5),
    "lift 0.8": replace(WITHOUT_MATES, lift=0.8),
    "lift 0.98": replace(WITHOUT_MATES, lift=0.98),
    "lift 0.98, without a bar": replace(WITHOUT_MATES, lift=0.98, bar=-0.6),
    "lift 0.8, second look": replace(WITHOUT_MATES, lift=0.8, second_look=True),
    BOTH: replace(WITHOUT_MATES, lift=0.98, second_look=True),
    "lift 0.98, second look, balance 0.875": replace(WITHOUT_MATES, balance=0.875, lift=0.98, second_look=True),
}
FEW = 9
"""Relevant documents of a query that has few."""


def topics_of(collection: str, searcher: Searcher, topics: str, qrels: str) -> tuple[list[Topic], list[Qrel]]:
    """Topics and judgements of the indexed documents, of an open collection or of files."""
    if topics:
        return read_topics(Path(topics)), read_qrels([Path(qrels)])
    listed, judgements = judged(collection, searcher)
    stored = searcher.store.stamps(searcher.spec.model, [qrel.doc_id for qrel in judgements])
    judgements = [qrel for qrel in judgements if qrel.doc_id in stored]
    answered = {qrel.query_id for qrel in judgements if qrel.relevance > 0}
    return [topic for topic in listed if topic.qid in answered], judgements


def same_language(
    queries: Sequence[Document], rankings: Sequence[Ranking], qrels: Sequence[Qrel], langs: Mapping[str, str]
) -> float:
    """MAP of the documents of each query's own language, in their order in the pooled ranking."""
    own = [
        [row for row, lang in enumerate(ranking.langs) if lang == query.lang]
        for query, ranking in zip(queries, rankings, strict=True)
    ]
    rankings = [
        Ranking([ranking.doc_ids[row] for row in rows], [ranking.langs[row] for row in rows], ranking.scores[rows])
        for ranking, rows in zip(rankings, own, strict=True)
    ]
    lang_of = {query.doc_id: query.lang for query in queries}
    return harness.mean(
        harness.average_precisions(
            queries, rankings, [qrel for qrel in qrels if langs.get(qrel.doc_id) == lang_of.get(qrel.query_id)]
        )
    )


def by_pair(
    queries: Sequence[Document], rankings: Sequence[Ranking], qrels: Sequence[Qrel], langs: Mapping[str, str]
) -> dict[tuple[str, str], float]:
    """Mean share of the relevant documents of a language among a query's first hundred hits, by both languages."""
    relevant: dict[str, dict[str, set[str]]] = {}
    for qrel in qrels:
        if qrel.relevance > 0 and qrel.doc_id in langs:
            relevant.setdefault(qrel.query_id, {}).setdefault(langs[qrel.doc_id], set()).add(qrel.doc_id)
    shares: dict[tuple[str, str], list[float]] = {}
    for query, ranking in zip(queries, rankings, strict=True):
        first = set(ranking.doc_ids[:100])
        for lang, doc_ids in relevant.get(query.doc_id, {}).items():
            shares.setdefault((query.lang, lang), []).append(len(doc_ids & first) / len(doc_ids))
    return {pair: float(np.mean(values)) for pair, values in shares.items()}


def mined_mates(searcher: Searcher, qrels: Sequence[Qrel]) -> str:
    """How many mined mates are confirmed, and how many of these answer a topic together."""
    samples = draw_samples(searcher.store, searcher.encoder)
    calibration = fit_statistics(samples, searcher.spec.model)
    mined = mine_mates(searcher.store, calibration, samples, QUERIES)
    answered: dict[str, set[str]] = {}
    for qrel in qrels:
        if qrel.relevance > 0:
            answered.setdefault(qrel.doc_id, set()).add(qrel.query_id)
    right = [
        bool(answered[doc_id] & answered[mate])
        for doc_id, mates in mined.mates.items()
        for mate in mates.values()
        if doc_id in answered and mate in answered
    ]
    share = "of no" if mined.confirmed_share is None else f"{mined.confirmed_share:.1%} of"
    return (
        f"Mined mates: {share} mates confirmed, least margin {mined.margin:g}, {'' if mined.sure else 'not '}sure; "
        f"{np.mean(right):.1%} of {len(right):,} confirmed mates answer a topic together."
    )


def shown_mean(values: Sequence[float]) -> str:
    """The mean of values and their number."""
    return f"{np.mean(values):.3f} ({len(values):,})" if values else "–"


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    parser.add_argument("--home", type=Path, required=True, help="Where it is indexed, under its own name.")
    parser.add_argument("--name", default="", help="Name of the indexed collection; the same, unless given.")
    parser.add_argument("--topics", default="", help="File of topics; the collection's own, unless given.")
    parser.add_argument("--qrels", default="", help="File of their judgements.")
    parser.add_argument("--every", type=int, default=1, help="Take every n-th topic.")
    parser.add_argument("--depth", type=int, default=1000, help="Hits of each ranking.")
    arguments = parser.parse_args()
    name = arguments.name or arguments.collection
    table = harness.Table(
        [
            "| ranking | MAP | ± | own language | same-language MAP | few relevant | many |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
    )
    with open_searcher(name, arguments.home, UNCALIBRATED) as searcher:
        topics, judgements = topics_of(arguments.collection, searcher, arguments.topics, arguments.qrels)
        calibration = fit_statistics(draw_samples(searcher.store, searcher.encoder), searcher.spec.model)
        queries, qrels = encode_topics(searcher, harness.every_nth(topics, arguments.every), judgements)
        stamps = searcher.store.stamps(searcher.spec.model, [qrel.doc_id for qrel in judgements])
        langs = {doc_id: stamp.lang for doc_id, stamp in stamps.items()}
        count: dict[str, int] = {}
        for qrel in qrels:
            count[qrel.query_id] = count.get(qrel.query_id, 0) + (qrel.relevance > 0)
        mined = mined_mates(searcher, judgements)
        pairs = {}
        for ranking_name, choice in RANKINGS.items():
            ranked = replace(searcher, calibration=calibration).rank(queries, k=arguments.depth, choice=choice)
            precisions = harness.average_precisions(queries, ranked, qrels)
            values = np.array(list(precisions.values()))
            few = [value for query, value in precisions.items() if count[query] <= FEW]
            many = [value for query, value in precisions.items() if count[query] > FEW]
            depth = len(searcher.languages)
            own = np.mean(
                [own_language_share(row.langs, query.lang, depth) for query, row in zip(queries, ranked, strict=True)]
            )
            pairs[ranking_name] = by_pair(queries, ranked, qrels, langs)
            table.add(
                f"| {ranking_name} | {values.mean():.3f} | {values.std() / len(values) ** 0.5:.3f} | {own:.1%} "
                f"| {same_language(queries, ranked, qrels, langs):.3f} "
                f"| {shown_mean(few)} | {shown_mean(many)} |"
            )
    first = next(iter(RANKINGS))
    shown = [lang for lang in harness.LANGUAGES if any(lang in pair for pair in pairs[first])]
    lines = [
        *table,
        "",
        mined,
        "",
        f"Few: {FEW} relevant documents at most. Share of a language's relevant documents (columns) among the first "
        f"{min(100, arguments.depth)} hits, by the query's language (rows), {first} → {BOTH}:",
        "",
        "| | " + " | ".join(shown) + " |",
        "|---|" + "---:|" * len(shown),
        *(
            f"| {row} | "
            + " | ".join(
                f"{pairs[first].get((row, col), np.nan):.2f} → {pairs[BOTH].get((row, col), np.nan):.2f}"
                for col in shown
            )
            + " |"
            for row in shown
        ),
    ]
    options = f" --name {name} --topics FILE --qrels FILE" if arguments.topics else ""
    command = harness.command(f"mates {arguments.collection} --home HOME{options}", arguments, "every", "depth")
    harness.write(f"Mates, {name}", command, lines)


if __name__ == "__main__":
    main()
