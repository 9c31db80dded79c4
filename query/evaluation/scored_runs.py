"""Runs of an evaluation with their scores: what they rank, how they are named, which judgements count."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from query.lexical_baselines.lexicons import Lexicons
from query.measures.fairness import RelevantCounts
from query.measures.quality_measures import Measure, Scores
from query.trec_files.qrels import Qrel
from query.trec_files.topics import FIELDS
from query.trec_files.trec_run import own_id

PSQ_ENDING = "-psq"
"""End of the names of PSQ's runs."""

RunKind = Literal["language", "pooled", "same", "pair", "bm25", "rm3", "psq", "psq-pooled", "psq-pair"]
"""What a run ranks: all target languages, all topic languages pooled, the topics' own language, or documents in one
language. BM25 ranks the topics' own language, and so did RM3 in an earlier version. A kind with ``psq`` ranks the same
documents by PSQ."""
BASELINES: Mapping[RunKind, str] = {"bm25": "BM25", "rm3": "RM3", "psq": "PSQ", "psq-pooled": "PSQ", "psq-pair": "PSQ"}
"""Names of the systems without an encoder, by the kinds of their runs."""
POOLED_KINDS: Mapping[RunKind, RunKind] = {"pooled": "language", "psq-pooled": "psq"}
"""Kinds of pooled runs, with the kinds of the runs that they consist of."""
Baseline = Literal["none", "bm25"]
"""How the topics' own language is searched beside the encoder."""


@dataclass(frozen=True)
class EvaluationPlan:
    """How to evaluate."""

    measures: Sequence[Measure]
    tag: str
    fields: Sequence[str] = FIELDS  # parts of a topic that form the query
    to: Sequence[str] | None = None  # languages of documents; none: all languages of the collection
    depth: int = 1000  # number of documents ranked per topic
    baseline: Baseline = "bm25"  # also rank within each topic's own language, by encoder and by this
    pairs: bool = False  # also rank within each language of documents, for each topic language
    lexicons: Lexicons = field(default_factory=Lexicons)  # also rank by PSQ with these


@dataclass(frozen=True)
class ScoredRun:
    """A run with its scores."""

    # unique in its evaluation: ``de``, ``all``, ``de-same``, ``de-bm25``, ``de-fi`` (Finnish documents), and by PSQ
    # ``de-psq``, ``all-psq``, ``de-fi-psq``
    name: str
    kind: RunKind
    lang: str  # language of the topics; ``mul`` for a pooled run
    scores: Scores  # the scores, with the measures of fairness if several languages were searched
    trec: bytes | None  # the run, compressed by ``pack``; none for a pooled run, which consists of its languages' runs
    # relevant documents, and those among the first hundred hits, by their language; empty unless several languages were
    # searched
    relevant_counts: Mapping[str, RelevantCounts] = field(default_factory=dict)
    # of a pooled run: mean RBO of two languages' rankings of a topic, by pair
    overlaps: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def documents(self) -> str:
        """Language of the documents of a pair."""
        return pair_documents(self.name, self.lang)

    def topic(self, qid: str) -> str:
        """The topic's id without the language that a pooled run appends; in other runs the id itself."""
        return topic_of(self.kind, qid)

    def topic_language(self, qid: str) -> str:
        """Language that a topic was asked in: the run's language, or in a pooled run the end of the topic's id."""
        return qid.rpartition(".")[2] if self.kind in POOLED_KINDS else self.lang


def main_run(runs: Sequence[ScoredRun]) -> ScoredRun:
    """The pooled run, or else the first run."""
    return next((run for run in runs if run.kind == "pooled"), runs[0])


def topic_of(kind: RunKind, qid: str) -> str:
    """The topic's id without the language that a pooled run appends; in other runs the id itself."""
    return qid.rpartition(".")[0] if kind in POOLED_KINDS else qid


@dataclass
class ScoredRuns:
    """The runs of an evaluation with their scores, and remarks on them."""

    # a run for each topic language, each followed by its pairs, its own-language runs, and those of PSQ; the pooled
    # runs are the last, if there are several topic languages
    runs: list[ScoredRun] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # sentences that a reader of the scores should know
    qrels: Sequence[Qrel] = ()  # the judgements that the runs against all target languages were scored by
    targets: Sequence[str] = ()  # languages of documents that were searched; empty if they are unknown

    @property
    def main(self) -> ScoredRun:
        """The run that stands for the evaluation."""
        return main_run(self.runs)

    def of_kind(self, kind: RunKind) -> dict[str, Scores]:
        """The scores of all runs of one kind, by topic language."""
        return {run.lang: run.scores for run in self.runs if run.kind == kind}


@dataclass(frozen=True)
class Judgements:
    """Qrels; ``langs`` has the languages of documents by id, without those that the collection lacks."""

    qrels: Sequence[Qrel]
    langs: Mapping[str, str]

    @classmethod
    def of(cls, qrels: Sequence[Qrel], languages: Callable[[set[str]], Mapping[str, str]]) -> "Judgements":
        """Judgements with the languages of documents; ids that are known only without TREC's escapes lose these."""
        doc_ids = {qrel.doc_id for qrel in qrels}
        plain = {doc_id: unescaped for doc_id in doc_ids if (unescaped := own_id(doc_id)) != doc_id}
        langs = languages(doc_ids | set(plain.values()))
        names = {doc_id: own for doc_id, own in plain.items() if doc_id not in langs and own in langs}
        return cls([qrel._replace(doc_id=names.get(qrel.doc_id, qrel.doc_id)) for qrel in qrels], langs)

    def within(self, langs: Sequence[str]) -> list[Qrel]:
        """The judgements of documents in some languages."""
        return [qrel for qrel in self.qrels if self.langs.get(qrel.doc_id) in langs]

    def of_topics(self, qids: Collection[str]) -> dict[str, dict[str, int]]:
        """Relevance by topic and document."""
        relevance: dict[str, dict[str, int]] = {qid: {} for qid in qids}
        for qrel in self.qrels:
            if qrel.query_id in relevance:
                relevance[qrel.query_id][qrel.doc_id] = qrel.relevance
        return relevance


def pair_name(lang: str, documents: str) -> str:
    """The name of the run of topics in ``lang`` among documents in another language: ``de-fi``."""
    return f"{lang}-{documents}"


def pair_documents(name: str, lang: str) -> str:
    """The language of documents in the name of a pair, also of PSQ, whose topics are in ``lang``."""
    return name.removeprefix(pair_name(lang, "")).removesuffix(PSQ_ENDING)
