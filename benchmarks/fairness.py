"""What each part of fair ranking does: MAP of a mixed-language index, and how much is the query's own language."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import harness
from encoders.document import Document
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from query.calibration.calibration import Calibration
from query.calibration.margin import MARGINS
from query.calibration.setting import Setting
from query.evaluation.topics import Topic
from query.fitting.evidence import from_judgements
from query.fitting.probe import BALANCES, RANKS, probe
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.choice import PLAIN, Choice, RankingOptions
from query.ranking.searcher import Searcher

COLLECTIONS = (*harness.KINDS, "ddtp")
"""Without topics, as ddtp, each title asks for its document in all languages."""


@dataclass(frozen=True)
class Row:
    """One way to rank."""

    name: str
    calibration: Calibration | None
    choice: Choice


def rows(mean: Calibration, subspace: Calibration) -> list[Row]:
    """The parts, alone and together."""
    pooled = mean.pooled["document"]
    nothing = dict.fromkeys(mean.pooled, replace(pooled, mean=np.zeros_like(pooled.mean)))
    languages = {lang: replace(one, components=nothing) for lang, one in mean.languages.items()}
    uncentred = replace(mean, languages=languages)
    return [
        Row("plain cosine", None, PLAIN),
        Row("margin alone, balance ¾", uncentred, Choice(0.75, "ratio", passages=False)),
        Row("mean taken out, no margin (balance ½)", mean, Choice(0.5, "ratio", passages=False)),
        Row("mean, distance margin, balance ¾", mean, Choice(0.75, "distance", passages=False)),
        Row("mean, ratio margin, balance ¾", mean, Choice(0.75, "ratio", passages=False)),
        Row("subspace of rank 1 (LAWDR), ratio margin, balance ¾", subspace, Choice(0.75, "ratio", passages=False)),
        Row("mean and passages, no margin (balance ½)", mean, Choice(0.5, "ratio")),
        Row("**mean, ratio margin, passages, balance ¾: the default**", mean, Choice(0.75, "ratio")),
        Row("the same, balance 1", mean, Choice(1.0, "ratio")),
        Row("the default with --hybrid", mean, Choice(0.75, "ratio", hybrid=True)),
    ]


def judged(name: str, searcher: Searcher) -> tuple[list[Topic], list[Qrel]]:
    """Topics and judgements of what is indexed of a collection."""
    if name in harness.KINDS:
        return harness.topics(name, harness.KINDS[name], list(searcher.languages))
    every = list(harness.read_all(name))
    stored = searcher.store.stamps(searcher.spec.model, [record["id"] for record in every])
    indexed = [record for record in every if record["id"] in stored]
    return (
        [Topic(record["concept"], record["lang"], record["title"]) for record in indexed],
        [Qrel(record["concept"], record["id"], 1) for record in indexed],
    )


def asked(searcher: Searcher, topics: Sequence[Topic], qrels: Sequence[Qrel]) -> tuple[list[Document], list[Qrel]]:
    """Topics as queries ``qid.lang``, encoded once, and their judgements."""
    queries = harness.queries(topics)
    searcher.encoder = harness.StoredEncoder(searcher.encoder)
    searcher.encoder.encode_queries(queries)
    return queries, harness.judgements(qrels, sorted(searcher.languages))


def scored(searcher: Searcher, row: Row, queries: Sequence[Document], qrels: Sequence[Qrel]) -> tuple[float, float]:
    """MAP, and the share of the first hits in the query's language."""
    rankings = replace(searcher, calibration=row.calibration).rank(queries, choice=row.choice)
    return harness.scores(queries, rankings, qrels, len(searcher.languages))


def measured(searcher: Searcher, topics: Sequence[Topic], judgements: Sequence[Qrel]) -> list[str]:
    """A table of the rows."""
    samples = draw_samples(searcher.store, searcher.encoder)
    made = [fit_statistics(samples, searcher.spec.model, rank=rank) for rank in (0, 1)]
    queries, qrels = asked(searcher, topics, judgements)
    table = ["| ranking | MAP | own-language share | s |", "|---|---:|---:|---:|"]
    for row in rows(*made):
        with harness.Stopwatch() as watch:
            mean, own = scored(searcher, row, queries, qrels)
        table.append(f"| {row.name} | {mean:.3f} | {own:.1%} | {watch.seconds:.0f} |")
        print(table[-1], flush=True)
    return table


def probed(searcher: Searcher, topics: Sequence[Topic], judgements: Sequence[Qrel], every: int) -> list[str]:
    """What the probe chooses by the odd topics, and what that and other choices reach on every n-th even one."""
    samples, model = draw_samples(searcher.store, searcher.encoder), searcher.spec.model
    qids = sorted({topic.qid for topic in topics})
    deciding, reported = set(qids[::2]), set(qids[1::2][::every])
    queries, qrels = asked(searcher, topics, judgements)
    odd = [query for query in queries if query.doc_id.rpartition(".")[0] in deciding]
    even = [query for query in queries if query.doc_id.rpartition(".")[0] in reported]
    evidence = from_judgements(searcher.store, searcher.encoder, odd, qrels)
    if evidence is None:
        raise BadInput("too few topics to decide by; take a collection with more")
    chosen, tried = probe(samples, model, evidence)
    print(*tried, sep="\n", flush=True)
    settings = dict.fromkeys([chosen, *(Setting(chosen.rank, chosen.margin, balance) for balance in BALANCES)])
    settings |= dict.fromkeys(Setting(rank, chosen.margin, chosen.balance) for rank in RANKS)
    settings |= dict.fromkeys(Setting(chosen.rank, form, chosen.balance) for form in MARGINS)
    made = {rank: fit_statistics(samples, model, rank=rank) for rank in {setting.rank for setting in settings}}
    table = [
        f"Decided by {len(evidence.queries)} of {len(odd):,} odd topics; {len(even):,} even ones.",
        "",
        "| rank, margin, balance | MAP | own-language share |",
        "|---|---:|---:|",
    ]
    means = {}
    for setting in settings:
        row = Row("", made[setting.rank], Choice(setting.balance, setting.margin))
        means[setting], own = scored(searcher, row, even, qrels)
        name = f"{setting.rank or 'mean'}, {setting.margin}, {setting.balance:g}"
        mark = " **chosen**" if setting == chosen else ""
        table.append(f"| {name}{mark} | {means[setting]:.4f} | {own:.1%} |")
        print(table[-1], flush=True)
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
    plain = RankingOptions(calibration="none")
    with Searcher.open(name, Settings.read(home=arguments.home), device="cpu", ranking=plain) as searcher:
        topics, judgements = judged(name, searcher)
        if arguments.probe:
            title, table = f"The probe, {name}", probed(searcher, topics, judgements, every)
        else:
            some = set(sorted({topic.qid for topic in topics})[::every])
            table = measured(searcher, [topic for topic in topics if topic.qid in some], judgements)
            title = f"Fair ranking, {name}"
    options = f"--home HOME --every {every}" + (" --probe" if arguments.probe else "")
    harness.write(title, f"python -m benchmarks.fairness {name} {options}", table)


if __name__ == "__main__":
    main()
