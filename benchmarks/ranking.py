"""What each part of the ranking is worth: each part taken out, on whole, mixed and thin collections.

A *mixed* collection has half of its concepts in one language each and the others in all; a topic whose answers stand
alone is asked in other languages. A *thin* collection has each concept in one language. Each is calibrated by itself.
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
from ir_measures import Qrel

from benchmarks import harness
from encoders.document import Document
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import PLAIN_SPACE
from query.calibration_fitting.calibration_decision import Decision, decide
from query.calibration_fitting.language_statistics import draw_samples
from query.measures.quality_measures import parse_measures, score
from query.ranking.fair_ranker import FairRanker
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import Topic, read_topics
from query.trec_files.trec_run import Run

COLLECTIONS = {"lohelp": (harness.LANGUAGES, 4), "ntrex": (harness.TESTED, 2), "ddtp": ((), 12), "bible": ((), 1)}
"""Collections, the languages taken (none: all that are indexed), and every which of their topics is asked."""
SEEDS = (5, 6, 7)
MEASURES = parse_measures(["AP", "nDCG@10", "R@100"])
DEPTH = 150  # hits of each ranking
_COLUMNS = (("AP", "all"), ("AP", "alone"), ("AP", "counterparts"), ("nDCG@10", "all"), ("R@100", "all"))

Scores = dict[str, dict[str, float]]  # values by query and measure


@dataclass(frozen=True)
class Part:
    """Documents of a collection and the queries that they answer."""

    name: str
    documents: Sequence[StoredDocument]
    queries: Sequence[Document]
    qrels: Sequence[Qrel]
    alone: Collection[str] = ()


Ranker = Callable[[EmbeddedStore, Calibration], FairRanker]

ROWS: Mapping[str, Ranker] = {
    "as it is": FairRanker,
    "mates the other way": lambda store, fair: FairRanker(store, replace(fair, mates=not fair.mates)),
    "no common space": lambda store, fair: FairRanker(store, replace(fair, space=PLAIN_SPACE)),
    "no passages": lambda store, fair: FairRanker(store, fair, passages=False),
    "no margin (balance ½)": lambda store, fair: FairRanker(store, fair, 0.5),
    "balance 1": lambda store, fair: FairRanker(store, fair, 1.0),
    "plain cosine": lambda store, fair: FairRanker(
        store, Calibration.none(fair.model, fair.vector_parts), passages=False
    ),
}


def parts(name: str, documents: Sequence[StoredDocument], every: int) -> list[Part]:
    """The collection as it is; if it is mixed itself, by kinds of answers; else three mixed and a thin one of it."""
    topics, qrels = _judged(name, documents)
    qids = set(sorted({topic.qid for topic in topics})[::every])
    topics = [topic for topic in topics if topic.qid in qids]
    langs = sorted({item.document.lang for item in documents})
    concepts: dict[str, list[StoredDocument]] = {}
    for item in documents:
        concept = item.document.doc_id.split("-", 1)[1] if name == "bible" else item.document.fields["concept"]
        concepts.setdefault(str(concept), []).append(item)

    def part(title: str, items: Sequence[StoredDocument], alone: Collection[str] = ()) -> Part:
        return _part(title, items, topics, qrels, langs, alone)

    def mixed(title: str, share: float, seed: int) -> Part:
        random = Random(seed)
        chosen = set(random.sample(sorted(concepts), round(len(concepts) * share)))
        left = {
            concept: [random.choice(members)] if concept in chosen else members for concept, members in concepts.items()
        }
        alone = {item.document.doc_id for concept in chosen for item in left[concept]}
        return part(f"{name}, {title}", [item for members in left.values() for item in members], alone)

    if name == "bible":
        single = {members[0].document.doc_id for members in concepts.values() if len(members) == 1}
        alone, others = ([qrel for qrel in qrels if (qrel.doc_id in single) == is_alone] for is_alone in (True, False))
        kinds = {name: qrels, f"{name}, answers alone": alone, f"{name}, answers with counterparts": others}
        return [_part(title, documents, topics, judged, langs, ()) for title, judged in kinds.items()]
    return [part(name, documents), *(mixed(f"mixed {seed}", 0.5, seed) for seed in SEEDS), mixed("thin", 1.0, SEEDS[0])]


def _judged(name: str, documents: Sequence[StoredDocument]) -> tuple[list[Topic], list[Qrel]]:
    if name in harness.KINDS:
        return harness.topics(name, sorted({item.document.lang for item in documents}))
    if name == "bible":
        folder = harness.DATA / name
        return read_topics(folder / "topics.tsv"), read_qrels([folder / "qrels.txt"])
    concepts = [(str(item.document.fields["concept"]), item.document) for item in documents]
    topics = [Topic(concept, document.lang, document.title) for concept, document in concepts]
    return topics, [Qrel(concept, document.doc_id, 1) for concept, document in concepts]


def _answers(qrels: Iterable[Qrel]) -> dict[str, set[str]]:
    answers: dict[str, set[str]] = {}
    for qrel in qrels:
        if qrel.relevance > 0:
            answers.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    return answers


def _part(
    name: str,
    documents: Sequence[StoredDocument],
    topics: Sequence[Topic],
    qrels: Sequence[Qrel],
    langs: Sequence[str],
    alone: Collection[str],
) -> Part:
    """The topics with an answer among documents; one whose answers are ``alone`` is not asked in their language."""
    lang_of = {item.document.doc_id: item.document.lang for item in documents}
    indexed = [qrel for qrel in qrels if qrel.doc_id in lang_of]
    answers = _answers(indexed)
    queries, stand_alone = [], []
    for topic in topics:
        relevant = answers.get(topic.qid, set())
        is_alone = bool(relevant) and relevant <= set(alone)
        if relevant and not (is_alone and topic.lang in {lang_of[doc_id] for doc_id in relevant}):
            queries.append(Document(f"{topic.qid}.{topic.lang}", topic.lang, topic.text(("title", "description"))))
            stand_alone += [queries[-1].doc_id] if is_alone else []
    judged = [qrel._replace(query_id=f"{qrel.query_id}.{lang}") for lang in langs for qrel in indexed]
    return Part(name, documents, queries, judged, stand_alone)


def measured(part: Part, encoder: harness.StoredEncoder, folder: Path) -> tuple[Decision, dict[str, Scores]]:
    with closing(EmbeddedStore(folder, "part")) as store:
        store.create(encoder.spec.model, encoder.spec.dim)
        for start in range(0, len(part.documents), 1000):
            store.put(encoder.spec.model, part.documents[start : start + 1000])
        decision = decide(store, draw_samples(store, encoder), encoder.spec.model)
        by_row = {}
        for row, ranker in ROWS.items():
            if row == "no common space" and not decision.common_space:
                continue
            by_row[row] = _scores(part, encoder, ranker(store, decision.calibration), sorted(store.count()))
        return decision, by_row


def _scores(part: Part, encoder: harness.StoredEncoder, ranker: FairRanker, langs: Sequence[str]) -> Scores:
    rankings = harness.rank(ranker, part.queries, encoder.encode_queries(part.queries), langs, DEPTH)
    pairs = [list(zip(ranking.doc_ids, map(float, ranking.scores), strict=True)) for ranking in rankings]
    run = Run("run", dict(zip((query.doc_id for query in part.queries), pairs, strict=True)))
    topics = score(run, part.qrels, MEASURES, {query.doc_id for query in part.queries}).topics
    return {query: dict(values) for query, values in topics.items()}


def lines(part: Part, decision: Decision, by_row: Mapping[str, Scores]) -> list[str]:
    """Rows of the table: means, and the difference to the ranking as it is with its standard error over topics."""
    mates, space = decision.mates, decision.common_space
    decided = f"mates {'count' if decision.calibration.mates else 'off'}"
    if mates:
        confirmed = "–" if mates.confirmed is None else f"{mates.confirmed:.2f}"
        decided += f" ({mates.share:.2f} have one, {confirmed} confirmed; {mates.without:.3f} → {mates.with_mates:.3f})"
    decided += f", common space ({space.before:.3f} → {space.after:.3f})" if space else ", no common space"
    queries, alone = sorted(by_row["as it is"]), set(part.alone)
    groups = {
        "all": queries,
        "alone": [query for query in queries if query in alone],
        "counterparts": [query for query in queries if query not in alone],
    }
    rows = []
    for row, values in by_row.items():
        cells = []
        for measure, group in _COLUMNS:
            if not groups[group]:
                cells.append("")
                continue
            mean, differences = _differences(values, by_row["as it is"], groups[group], measure)
            error = differences.std(ddof=1) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
            cells.append(f"{mean:.3f}" if row == "as it is" else f"{differences.mean():+.3f} ± {error:.3f}")
        rows.append([row, *cells])
    return [
        f"**{part.name}**, {len(part.documents):,} documents, {len(part.queries):,} queries, {len(part.alone):,} with "
        f"answers that stand alone: {decided}.",
        "",
        *harness.table(" | MAP | alone | counterparts | nDCG@10 | R@100", rows),
        "",
    ]


def _differences(values: Scores, base: Scores, queries: Sequence[str], measure: str) -> tuple[float, np.ndarray]:
    """The mean over queries, and the (topics,) differences to the base; a topic's translations are one observation."""
    topics: dict[str, list[float]] = {}
    for query in queries:
        topics.setdefault(query.rpartition(".")[0], []).append(values[query][measure] - base[query][measure])
    mean = float(np.mean([values[query][measure] for query in queries]))
    return mean, np.array([np.mean(of_topic) for of_topic in topics.values()])


@harness.benchmark("Ranking", home=Path, collections=",".join(COLLECTIONS))
def measure(arguments: Namespace) -> list[str]:
    section: list[str] = []
    for name in arguments.collections.split(","):
        with harness.open_searcher(name, arguments.home, harness.UNCALIBRATED) as searcher:
            langs, every = COLLECTIONS[name]
            pages = searcher.store.scan(searcher.spec.model)
            documents = [item for page in pages for item in page if not langs or item.document.lang in langs]
            encoder = harness.StoredEncoder(searcher.encoder)
            for part in parts(name, documents, every):
                with tempfile.TemporaryDirectory() as folder:
                    section += (of_part := lines(part, *measured(part, encoder, Path(folder))))
                print(*of_part, sep="\n", flush=True)
    return section
