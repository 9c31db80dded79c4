"""What each part of fair ranking does: MAP of a mixed-language index, and the share of the query's own language."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import harness
from benchmarks.searchers import CENTRED, UNCALIBRATED, open_searcher
from encoders.document import Document
from encoders.errors import BadInput
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import DEFAULT
from query.calibration.margin import MARGINS
from query.evaluation.topics import Topic
from query.fitting.evidence import from_judgements
from query.fitting.probe import BALANCES, LIFTS, RANKS, probe
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.search_choice import PLAIN, SearchChoice
from query.ranking.searcher import Searcher

COLLECTIONS = (*harness.KINDS, "ddtp")
"""``ddtp`` has no topics: each title is a query for its document in all languages."""


@dataclass(frozen=True)
class Row:
    """A ranking that is measured."""

    name: str
    calibration: Calibration | None
    choice: SearchChoice


def rows(mean: Calibration, subspace: Calibration) -> list[Row]:
    """The parts of fair ranking, alone and together."""
    pooled = mean.pooled["document"]
    zero_means = dict.fromkeys(mean.pooled, replace(pooled, mean=np.zeros_like(pooled.mean)))
    languages = {lang: replace(statistics, components=zero_means) for lang, statistics in mean.languages.items()}
    uncentred = replace(mean, languages=languages)
    return [
        Row("plain cosine", None, PLAIN),
        Row("margin alone, balance ¾", uncentred, SearchChoice(0.75, "ratio", passages=False)),
        Row("mean taken out, no margin (balance ½)", mean, CENTRED),
        Row("mean, distance margin, balance ¾", mean, SearchChoice(0.75, "distance", passages=False)),
        Row("mean, ratio margin, balance ¾", mean, SearchChoice(0.75, "ratio", passages=False)),
        Row(
            "subspace of rank 1 (LAWDR), ratio margin, balance ¾", subspace, SearchChoice(0.75, "ratio", passages=False)
        ),
        Row("mean and passages, no margin (balance ½)", mean, SearchChoice(0.5, "ratio")),
        Row("mean, ratio margin, passages, balance ¾", mean, SearchChoice(0.75, "ratio")),
        Row("the same, balance 1", mean, SearchChoice(1.0, "ratio")),
        Row("the same as the row before, balance ¾, with --hybrid", mean, SearchChoice(0.75, "ratio", hybrid=True)),
        Row(
            "**mean, ratio margin, passages, balance ¾, mates: the default**",
            mean,
            SearchChoice.of(mean.with_choice(DEFAULT)),
        ),
    ]


def judged(name: str, searcher: Searcher) -> tuple[list[Topic], list[Qrel]]:
    """Topics and judgements of the documents of a collection that are indexed."""
    if name in harness.KINDS:
        return harness.topics(name, harness.KINDS[name], list(searcher.languages))
    records = list(harness.read_all(name))
    stored = searcher.store.stamps(searcher.spec.model, [record["id"] for record in records])
    indexed = [record for record in records if record["id"] in stored]
    return (
        [Topic(record["concept"], record["lang"], record["title"]) for record in indexed],
        [Qrel(record["concept"], record["id"], 1) for record in indexed],
    )


def encode_topics(
    searcher: Searcher, topics: Sequence[Topic], qrels: Sequence[Qrel]
) -> tuple[list[Document], list[Qrel]]:
    """Topics as queries ``qid.lang`` and their judgements; the searcher's encoder now has the queries' vectors."""
    queries = harness.queries(topics)
    searcher.encoder = harness.StoredEncoder(searcher.encoder)
    searcher.encoder.encode_queries(queries)
    return queries, harness.judgements(qrels, sorted(searcher.languages))


def scores(searcher: Searcher, row: Row, queries: Sequence[Document], qrels: Sequence[Qrel]) -> tuple[float, float]:
    """MAP, and the share of the query's own language among the first hits."""
    rankings = replace(searcher, calibration=row.calibration).rank(queries, choice=row.choice)
    return harness.scores(queries, rankings, qrels, len(searcher.languages))


def part_lines(searcher: Searcher, topics: Sequence[Topic], judgements: Sequence[Qrel]) -> list[str]:
    """What each ranking of ``rows`` reaches."""
    samples = draw_samples(searcher.store, searcher.encoder)
    calibrations = [fit_statistics(samples, searcher.spec.model, rank=rank) for rank in (0, 1)]
    queries, qrels = encode_topics(searcher, topics, judgements)
    table = harness.Table(["| ranking | MAP | own-language share | s |", "|---|---:|---:|---:|"])
    for row in rows(*calibrations):
        with harness.Stopwatch() as watch:
            mean, share = scores(searcher, row, queries, qrels)
        table.add(f"| {row.name} | {mean:.3f} | {share:.1%} | {watch.seconds:.0f} |")
    return table


def probe_lines(searcher: Searcher, topics: Sequence[Topic], judgements: Sequence[Qrel], every: int) -> list[str]:
    """What the probe chooses by the odd topics, and what its choice and others reach on every n-th even topic."""
    samples, model = draw_samples(searcher.store, searcher.encoder), searcher.spec.model
    qids = sorted({topic.qid for topic in topics})
    deciding, reported = set(qids[::2]), set(qids[1::2][::every])
    queries, qrels = encode_topics(searcher, topics, judgements)
    odd = [query for query in queries if harness.topic_of(query.doc_id) in deciding]
    even = [query for query in queries if harness.topic_of(query.doc_id) in reported]
    evidence = from_judgements(searcher.store, searcher.encoder, odd, qrels)
    if evidence is None:
        raise BadInput("too few topics to decide by; take a collection with more")
    chosen, tried = probe(searcher.store, samples, model, evidence)
    print(*tried, sep="\n", flush=True)
    choices = dict.fromkeys([chosen, *(replace(chosen, balance=balance) for balance in BALANCES)])
    choices |= dict.fromkeys(replace(chosen, rank=rank) for rank in RANKS)
    choices |= dict.fromkeys(replace(chosen, margin=form) for form in MARGINS)
    choices |= dict.fromkeys(replace(chosen, lift=lift) for lift in LIFTS)
    choices |= dict.fromkeys(replace(chosen, second_look=second_look) for second_look in (False, True))
    calibrations = {rank: fit_statistics(samples, model, rank=rank) for rank in {choice.rank for choice in choices}}
    table = harness.Table(
        [
            f"Decided by {len(evidence.queries)} of {len(odd):,} odd topics; {len(even):,} even ones.",
            "",
            "| rank, margin, balance, lift, second look | MAP | own-language share |",
            "|---|---:|---:|",
        ]
    )
    means = {}
    for choice in choices:
        calibration = calibrations[choice.rank].with_choice(choice)
        row = Row("", calibration, SearchChoice.of(calibration))
        means[choice], share = scores(searcher, row, even, qrels)
        name = f"{choice.rank or 'mean'}, {choice.margin}, {choice.balance:g}, {choice.lift:g}, {choice.second_look:g}"
        mark = " **chosen**" if choice == chosen else ""
        table.add(f"| {name}{mark} | {means[choice]:.4f} | {share:.1%} |")
    lost = max(means.values()) - means[chosen]
    return [*table, "", f"What was chosen is {lost:.4f} under the best of these."]


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", choices=COLLECTIONS)
    parser.add_argument("--home", type=Path, required=True, help="Where it is indexed, under its own name.")
    parser.add_argument("--every", type=int, default=1, help="Take every n-th topic.")
    parser.add_argument("--probe", action="store_true", help="What the probe decides by odd topics, on the even ones.")
    arguments = parser.parse_args()
    name, every = arguments.collection, arguments.every
    command = harness.command(f"fairness {name} --home HOME", arguments, "every")
    with open_searcher(name, arguments.home, UNCALIBRATED) as searcher:
        topics, judgements = judged(name, searcher)
        if arguments.probe:
            lines = probe_lines(searcher, topics, judgements, every)
            harness.write(f"The probe, {name}", f"{command} --probe", lines)
        else:
            lines = part_lines(searcher, harness.every_nth(topics, every), judgements)
            harness.write(f"Fair ranking, {name}", command, lines)


if __name__ == "__main__":
    main()
