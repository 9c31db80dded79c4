"""What each part of fair ranking does: MAP of a mixed-language index, and how much is the query's own language."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import results
from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray
from indexer.settings import Settings
from query.calibration import Calibration
from query.evaluation import evaluate, parse_measures
from query.fairness import own_language_share
from query.language_statistics import calibration, draw
from query.qrels import read_qrels
from query.ranking import PLAIN, Choice
from query.ranking_options import RankingOptions
from query.run import Run
from query.searcher import Searcher
from query.topics import Topic, read_topics

NAMES = {"lohelp": "index", "ntrex": "headline"}
"""Collection → the name of its topics."""


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


def measured(home: Path, name: str, topics: Sequence[Topic], qrels_files: Sequence[Path]) -> list[str]:
    """A table of the rows."""
    with Searcher.open(
        name, Settings.read(home=home), device="cpu", ranking=RankingOptions(calibration="none")
    ) as searcher:
        langs = sorted(searcher.languages)
        asked = [topic for topic in topics if topic.lang in langs]
        queries = [
            Document(f"{topic.qid}.{topic.lang}", topic.lang, topic.text(("title", "description"))) for topic in asked
        ]
        qrels = [
            qrel._replace(query_id=f"{qrel.query_id}.{lang}")
            for lang in langs
            for qrel in read_qrels([file for file in qrels_files if file.stem.rpartition(".")[2] in langs])
        ]
        samples = draw(searcher.store, searcher.encoder)
        made = [calibration(samples, searcher.spec.model, rank=rank) for rank in (0, 1)]
        searcher.encoder = _Remembered(searcher.encoder, queries)
        table = ["| ranking | MAP | own-language share | s |", "|---|---:|---:|---:|"]
        for row in rows(*made):
            ranked = replace(searcher, calibration=row.calibration)
            started = time.perf_counter()
            rankings = ranked.rank(queries, choice=row.choice)
            seconds = time.perf_counter() - started
            run = Run(
                "r",
                {
                    query.doc_id: list(zip(one.doc_ids, map(float, one.scores), strict=True))
                    for query, one in zip(queries, rankings, strict=True)
                },
            )
            means = evaluate(run, qrels, parse_measures(["AP"]), {query.doc_id for query in queries}).means
            own = np.mean(
                [
                    own_language_share(one.langs, query.lang, len(langs))
                    for query, one in zip(queries, rankings, strict=True)
                ]
            )
            table.append(f"| {row.name} | {means['AP']:.3f} | {own:.1%} | {seconds:.0f} |")
            print(table[-1], flush=True)
    return table


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", choices=list(NAMES))
    parser.add_argument("--home", type=Path, required=True, help="Where it is indexed, under its own name.")
    parser.add_argument("--every", type=int, default=1, help="Take every n-th topic.")
    arguments = parser.parse_args()
    folder = results.DATA / arguments.collection
    kind = NAMES[arguments.collection]
    topics = read_topics(folder / f"topics.{kind}.tsv")
    qids = sorted({topic.qid for topic in topics})[:: arguments.every]
    table = measured(
        arguments.home,
        arguments.collection,
        [topic for topic in topics if topic.qid in set(qids)],
        sorted(folder.glob(f"qrels.{kind}.*.txt")),
    )
    results.write(
        f"Fair ranking, {arguments.collection}",
        f"python -m benchmarks.fairness {arguments.collection} --home HOME --every {arguments.every}",
        table,
    )


if __name__ == "__main__":
    main()
