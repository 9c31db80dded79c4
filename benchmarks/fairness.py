"""What each part of fair ranking does: MAP of a mixed-language index, and how much is the query's own language."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import results
from benchmarks.sample import records
from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray
from encoders.errors import BadInput
from indexer.settings import Settings
from query.calibration.calibration import Calibration
from query.calibration.margin import MARGINS
from query.calibration.setting import Setting
from query.evaluation.fairness import own_language_share
from query.evaluation.measures import evaluate, parse_measures
from query.evaluation.qrels import read_qrels
from query.evaluation.topics import Topic, read_topics
from query.evaluation.trec_run import Run
from query.fitting.evidence import from_judgements
from query.fitting.probe import BALANCES, RANKS, probe
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.choice import PLAIN, Choice
from query.ranking.options import RankingOptions
from query.ranking.searcher import Searcher

NAMES = {"lohelp": "index", "ntrex": "headline", "ddtp": None}
"""Collection → the name of its topics; where it has none a title asks for its document in all languages."""


@dataclass(frozen=True)
class Row:
    """One way to rank."""

    name: str
    calibration: Calibration | None
    choice: Choice


class _Remembered:
    """An encoder that encodes the topics once for all rows."""

    def __init__(self, encoder: Encoder, queries: Sequence[Document]) -> None:
        self.spec: EncoderSpec = encoder.spec
        self._encoder = encoder
        self._vectors = dict(zip([query.doc_id for query in queries], encoder.encode_queries(queries), strict=True))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        return self._encoder.encode_documents(documents)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return np.stack([self._vectors[query.doc_id] for query in queries])


def rows(mean: Calibration, subspace: Calibration) -> list[Row]:
    """The parts, alone and together."""
    nothing = np.zeros_like(mean.pooled.mean)
    languages = {
        lang: replace(one, mean=nothing, passage_mean=nothing, query_mean=nothing)
        for lang, one in mean.languages.items()
    }
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
    folder, kind = results.DATA / name, NAMES[name]
    if kind:
        files = [folder / f"qrels.{kind}.{lang}.txt" for lang in searcher.languages]
        topics = read_topics(folder / f"topics.{kind}.tsv")
        return [topic for topic in topics if topic.lang in searcher.languages], read_qrels(files)
    every = list(records(name))
    stored = searcher.store.stamps(searcher.spec.model, [record["id"] for record in every])
    indexed = [record for record in every if record["id"] in stored]
    return (
        [Topic(record["concept"], record["lang"], record["title"]) for record in indexed],
        [Qrel(record["concept"], record["id"], 1) for record in indexed],
    )


def asked(searcher: Searcher, topics: Sequence[Topic], qrels: Sequence[Qrel]) -> tuple[list[Document], list[Qrel]]:
    """Topics as queries ``qid.lang``, encoded once, and their judgements."""
    queries = [
        Document(f"{topic.qid}.{topic.lang}", topic.lang, topic.text(("title", "description"))) for topic in topics
    ]
    searcher.encoder = _Remembered(searcher.encoder, queries)
    langs = sorted(searcher.languages)
    return queries, [qrel._replace(query_id=f"{qrel.query_id}.{lang}") for lang in langs for qrel in qrels]


def scored(searcher: Searcher, row: Row, queries: Sequence[Document], qrels: Sequence[Qrel]) -> tuple[float, float]:
    """MAP, and the share of the first hits in the query's language."""
    rankings = replace(searcher, calibration=row.calibration).rank(queries, choice=row.choice)
    found = {
        query.doc_id: list(zip(one.doc_ids, map(float, one.scores), strict=True))
        for query, one in zip(queries, rankings, strict=True)
    }
    means = evaluate(Run("r", found), qrels, parse_measures(["AP"]), found).means
    depth = len(searcher.languages)
    own = [own_language_share(one.langs, query.lang, depth) for query, one in zip(queries, rankings, strict=True)]
    return means["AP"], float(np.mean(own))


def measured(searcher: Searcher, topics: Sequence[Topic], judgements: Sequence[Qrel]) -> list[str]:
    """A table of the rows."""
    samples = draw_samples(searcher.store, searcher.encoder)
    made = [fit_statistics(samples, searcher.spec.model, rank=rank) for rank in (0, 1)]
    queries, qrels = asked(searcher, topics, judgements)
    table = ["| ranking | MAP | own-language share | s |", "|---|---:|---:|---:|"]
    for row in rows(*made):
        started = time.perf_counter()
        mean, own = scored(searcher, row, queries, qrels)
        table.append(f"| {row.name} | {mean:.3f} | {own:.1%} | {time.perf_counter() - started:.0f} |")
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
    parser.add_argument("collection", choices=list(NAMES))
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
    results.write(title, f"python -m benchmarks.fairness {name} {options}", table)


if __name__ == "__main__":
    main()
