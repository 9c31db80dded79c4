"""Runs of a collection's searcher over topics, with their scores: the computation of ``dragoman evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

from encoders.document import Document
from encoders.errors import BadInput
from indexer.stores.contract import VectorStore
from query.lexical_baselines.bm25_baseline import rank_by_bm25
from query.lexical_baselines.lexical_runs import LexicalRuns, merged, rank_lexically, without_lexicon
from query.lexical_baselines.lexicons import Lexicons
from query.measures.fairness import Fairness, RelevantCounts, fairness, pooled_fairness
from query.measures.quality_measures import Measure, Scores, pooled, relevant_topics, score
from query.ranking.search_hits import Ranking
from query.trec_files.topics import FIELDS, Topic, queries_of
from query.trec_files.trec_run import Run, RunEntry, pack

if TYPE_CHECKING:
    from ir_measures import Qrel

    from query.ranking.searcher import Searcher

_IDS_AT_ONCE = 500
_PSQ = "-psq"
"""End of the names of PSQ's runs."""

NOTHING_RELEVANT = (
    "the qrels have no relevant document for any of the topics; check that topics and qrels belong together and name "
    "their topics alike"
)

RunKind = Literal["language", "pooled", "same", "pair", "bm25", "rm3", "psq", "psq-pooled", "psq-pair"]
"""What a run ranks: all target languages, all topic languages pooled, the topics' own language, or documents in one
language. BM25 and RM3 rank the topics' own language. A kind with ``psq`` ranks the same documents by PSQ."""
BASELINES: Mapping[RunKind, str] = {
    "bm25": "BM25",
    "rm3": "RM3",
    "psq": "PSQ",
    "psq-pooled": "PSQ",
    "psq-pair": "PSQ",
}
"""Names of the systems without an encoder, by the kinds of their runs."""
POOLED_KINDS: Mapping[RunKind, RunKind] = {"pooled": "language", "psq-pooled": "psq"}
"""Kinds of pooled runs, with the kinds of the runs that they consist of."""
Baseline = Literal["none", "bm25", "rm3"]
"""How the topics' own language is searched beside the encoder; ``rm3`` is BM25 and RM3."""


@dataclass(frozen=True)
class EvaluationPlan:
    """How to evaluate.

    Attributes:
        fields: parts of a topic that form the query.
        to: languages of documents; none: all languages of the collection.
        depth: number of documents ranked per topic.
        baseline: also rank within each topic's own language, by the encoder and by this; ``none``: do not.
        pairs: also rank within each language of documents, for each topic language.
        lexicons: also rank by PSQ with these.
    """

    measures: Sequence[Measure]
    tag: str
    fields: Sequence[str] = FIELDS
    to: Sequence[str] | None = None
    depth: int = 1000
    baseline: Baseline = "bm25"
    pairs: bool = False
    lexicons: Lexicons = field(default_factory=Lexicons)


@dataclass(frozen=True)
class ScoredRun:
    """A run with its scores.

    Attributes:
        name: unique in its evaluation: ``de``, ``all``, ``de-same``, ``de-bm25``, ``de-rm3``, ``de-fi`` (Finnish
            documents), and by PSQ ``de-psq``, ``all-psq``, ``de-fi-psq``.
        lang: language of the topics; ``mul`` for a pooled run.
        scores: the scores, with the measures of fairness if several languages were searched.
        trec: the run, compressed by ``pack``; none for a pooled run, which consists of its languages' runs.
        relevant_counts: relevant documents, and those among the first hundred hits, by their language; empty unless
            several languages were searched.
    """

    name: str
    kind: RunKind
    lang: str
    scores: Scores
    trec: bytes | None
    relevant_counts: Mapping[str, RelevantCounts] = field(default_factory=dict)

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
    """The runs of an evaluation with their scores, and remarks on them.

    Attributes:
        runs: a run for each topic language, each followed by its pairs, its own-language runs, and those of PSQ; the
            pooled runs are the last, if there are several topic languages.
        remarks: sentences that a reader of the scores should know.
        qrels: the judgements that the runs against all target languages were scored by.
        targets: languages of documents that were searched; empty if they are unknown.
    """

    runs: list[ScoredRun] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    qrels: Sequence[Qrel] = ()
    targets: Sequence[str] = ()

    @property
    def main(self) -> ScoredRun:
        """The run that stands for the evaluation."""
        return main_run(self.runs)

    def of_kind(self, kind: RunKind) -> dict[str, Scores]:
        """The scores of all runs of one kind, by topic language."""
        return {run.lang: run.scores for run in self.runs if run.kind == kind}


@dataclass(frozen=True)
class Judgements:
    """Qrels with the languages of the documents they judge.

    ``langs`` has the languages by document id; documents that the collection doesn't have are missing.
    """

    qrels: Sequence[Qrel]
    langs: Mapping[str, str]

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


def rank_and_score(
    searcher: Searcher,
    topics: Mapping[str, Sequence[Topic]],
    qrels: Sequence[Qrel],
    plan: EvaluationPlan,
    advance: Callable[[int], None] = lambda _: None,
) -> ScoredRuns:
    """Rank every topic language's topics, against all target languages and within their own, and score the runs.

    If the plan restricts the languages of documents, only judgements of documents in these languages count. ``advance``
    is called with the number of topics ranked since its last call; ``rounds`` says how often each is ranked.

    Raises:
        BadInput: the qrels judge nothing relevant for any topic, or none of the collection's documents, or a target
            language is not in the collection.
    """
    targets = searcher.targets(plan.to)
    judgements = Judgements(qrels, languages_of(searcher.store, searcher.stored_model, {qrel.doc_id for qrel in qrels}))
    scored_runs = ScoredRuns(remarks=missing_documents(judgements, plan.to), targets=targets)
    if plan.to is not None:
        judgements = Judgements(judgements.within(targets), judgements.langs)
    scored_runs.qrels = judgements.qrels
    judged = relevant_topics(judgements.qrels)
    if not any(topic.qid in judged for topic in chain.from_iterable(topics.values())):
        raise BadInput(NOTHING_RELEVANT)
    queries_by_lang = {
        lang: _queries(lang_topics, plan.fields, scored_runs.remarks)
        for lang, lang_topics in topics.items()
        if {topic.qid for topic in lang_topics} & judged
    }
    lexical_runs = rank_lexically(
        searcher, queries_by_lang, targets, plan.lexicons, rm3=plan.baseline == "rm3", k=plan.depth
    )
    fairness_by_lang, psq_fairness = dict[str, Fairness](), dict[str, Fairness]()
    times = rounds(plan, targets)
    for lang, lang_topics in topics.items():
        qids = {topic.qid for topic in lang_topics}
        if lang not in queries_by_lang:
            scored_runs.remarks.append(left_out(lang))
            advance(times * len(lang_topics))
            continue
        queries = queries_by_lang[lang]
        rankings = searcher.rank(queries, k=plan.depth, to=targets, advance=advance)
        run = _run(plan, queries, rankings)
        ranked = {query.doc_id: ranking for query, ranking in zip(queries, rankings, strict=True)}
        scored_run, fairness_by_lang[lang] = score_language(lang, run, ranked, judgements, targets, plan.measures, qids)
        scored_runs.runs.append(scored_run)
        by_documents = {targets[0]: run} if len(targets) == 1 else {}
        if plan.pairs:
            for documents in targets if len(targets) > 1 else ():
                if not relevant_topics(judgements.within([documents])) & qids:
                    advance(len(queries))
                    continue
                ranked_within = searcher.rank(queries, k=plan.depth, to=[documents], advance=advance)
                by_documents[documents] = _run(plan, queries, ranked_within)
            scored_runs.runs += score_pairs(lang, by_documents, judgements, plan.measures, qids)
        own_qrels = judgements.within([lang])
        if plan.baseline != "none" and lang in targets and relevant_topics(own_qrels) & qids:
            own_run = by_documents.get(lang)
            scored_runs.runs += _own_language(searcher, queries, own_run, lang, own_qrels, qids, plan, lexical_runs)
        if plan.lexicons.names:
            psq = lexical_runs.psq.get(lang, {})
            scored_runs.remarks += without_lexicon(lang, targets, psq)
            scored_runs.runs += _psq_runs(lang, psq, judgements, targets, plan, qids, psq_fairness)
        advance(times * (len(lang_topics) - len(queries)))
    scored_runs.runs += pool(scored_runs.of_kind("language"), fairness_by_lang, plan.measures)
    pooled_psq = pool(scored_runs.of_kind("psq"), psq_fairness, plan.measures)
    scored_runs.runs += _named_psq(pooled_psq, "psq-pooled")
    return scored_runs


def rounds(plan: EvaluationPlan, targets: Sequence[str]) -> int:
    """How often each topic is ranked by ``rank_and_score``, without its own language's documents alone."""
    return 1 + len(targets) if plan.pairs and len(targets) > 1 else 1


def score_language(
    lang: str,
    run: Run,
    rankings: Mapping[str, Ranking],
    judgements: Judgements,
    targets: Sequence[str],
    measures: Sequence[Measure],
    qids: set[str],
) -> tuple[ScoredRun, Fairness]:
    """Score a topic language's run; its fairness is empty if only one language of documents was searched.

    ``rankings`` are the run's, by topic, with the languages of the hits.
    """
    scores = score(run, judgements.qrels, measures, qids)
    scored_run = ScoredRun(lang, "language", lang, scores, pack(run))
    if len(targets) < 2:
        return scored_run, Fairness(len(targets))
    of_run = fairness(rankings, judgements.of_topics(scores.topics), judgements.langs, lang, targets)
    return _with_fairness(scored_run, of_run), of_run


def pool(
    scores: Mapping[str, Scores], fairness_by_lang: Mapping[str, Fairness], measures: Sequence[Measure]
) -> list[ScoredRun]:
    """The pooled run of several topic languages; of a single one there is none."""
    if len(scores) < 2:
        return []
    run = ScoredRun("all", "pooled", "mul", pooled(scores, measures), None)
    return [_with_fairness(run, pooled_fairness(fairness_by_lang))]


def score_pairs(
    lang: str,
    by_documents: Mapping[str, Run],
    judgements: Judgements,
    measures: Sequence[Measure],
    qids: Collection[str],
) -> Iterator[ScoredRun]:
    """The runs of a topic language by the language of documents, scored by the judgements of these documents.

    A pair of languages without a relevant document is left out.
    """
    for documents, run in by_documents.items():
        qrels = judgements.within([documents])
        if relevant_topics(qrels) & set(qids):
            yield ScoredRun(pair_name(lang, documents), "pair", lang, score(run, qrels, measures, qids), pack(run))


def pair_name(lang: str, documents: str) -> str:
    """The name of the run of topics in ``lang`` among documents in another language: ``de-fi``."""
    return f"{lang}-{documents}"


def pair_documents(name: str, lang: str) -> str:
    """The language of documents in the name of a pair, also of PSQ, whose topics are in ``lang``."""
    return name.removeprefix(pair_name(lang, "")).removesuffix(_PSQ)


def left_out(lang: str) -> str:
    """The remark on a topic language without judgements."""
    return f"no topic in {lang} has a relevant document; the language is left out"


def missing_documents(judgements: Judgements, to: Sequence[str] | None = None) -> list[str]:
    """The remark on judged documents that the collection does not have; none if it has all.

    With ``to`` judgements of documents in other languages don't count, nor those of documents of unknown language.

    Raises:
        BadInput: the collection has none of the judged documents.
    """
    judged = {qrel.doc_id for qrel in judgements.qrels}
    known = judged & judgements.langs.keys()
    if known == judged:
        return []
    if not known:
        raise BadInput(
            f"the collection has none of the {len(judged):,} judged documents; name the collection that they are of, "
            "or other judgements"
        )
    return [
        f"{len(known):,} of the {len(judged):,} judged documents are in the collection; "
        + ("a relevant document that is not counts as missed" if to is None else "the others don't count")
    ]


def _with_fairness(scored_run: ScoredRun, run_fairness: Fairness) -> ScoredRun:
    """The same run with the measures of fairness among its scores."""
    means = dict(scored_run.scores.means)
    topics = {qid: dict(values) for qid, values in scored_run.scores.topics.items()}
    for measure, by_topic in run_fairness.measures().items():
        means[measure] = sum(by_topic.values()) / len(by_topic)
        for qid, value in by_topic.items():
            topics[qid][measure] = value
    return replace(
        scored_run,
        scores=replace(scored_run.scores, means=means, topics=topics),
        relevant_counts=run_fairness.relevant_counts,
    )


def _own_language(
    searcher: Searcher,
    queries: Sequence[Document],
    run: Run | None,
    lang: str,
    qrels: Sequence[Qrel],
    qids: set[str],
    plan: EvaluationPlan,
    lexical_runs: LexicalRuns,
) -> Iterator[ScoredRun]:
    run = run or _run(plan, queries, searcher.rank(queries, k=plan.depth, to=[lang]))
    yield ScoredRun(f"{lang}-same", "same", lang, score(run, qrels, plan.measures, qids), pack(run))
    items = chain.from_iterable(searcher.store.scan(searcher.stored_model, lang=lang))
    bm25_rankings = rank_by_bm25((item.document for item in items), queries, lang, k=plan.depth)
    bm25_run = Run("BM25", {query.doc_id: hits for query, hits in zip(queries, bm25_rankings, strict=True)})
    yield ScoredRun(f"{lang}-bm25", "bm25", lang, score(bm25_run, qrels, plan.measures, qids), pack(bm25_run))
    if rm3_run := lexical_runs.rm3.get(lang):
        yield ScoredRun(f"{lang}-rm3", "rm3", lang, score(rm3_run, qrels, plan.measures, qids), pack(rm3_run))


def _psq_runs(
    lang: str,
    by_documents: Mapping[str, Run],
    judgements: Judgements,
    targets: Sequence[str],
    plan: EvaluationPlan,
    qids: set[str],
    fairness_by_lang: dict[str, Fairness],
) -> Iterator[ScoredRun]:
    """The run of PSQ over all languages of documents, and its pairs; its fairness is added to ``fairness_by_lang``."""
    if not by_documents:
        return
    run, rankings = merged(by_documents, plan.depth)
    scored_run, fairness_by_lang[lang] = score_language(lang, run, rankings, judgements, targets, plan.measures, qids)
    yield from _named_psq([scored_run], "psq")
    if plan.pairs:
        yield from _named_psq(score_pairs(lang, by_documents, judgements, plan.measures, qids), "psq-pair")


def _named_psq(scored_runs: Iterable[ScoredRun], kind: RunKind) -> Iterator[ScoredRun]:
    for scored_run in scored_runs:
        yield replace(scored_run, name=scored_run.name + _PSQ, kind=kind)


def _queries(topics: Sequence[Topic], fields: Sequence[str], remarks: list[str]) -> list[Document]:
    queries = queries_of(topics, fields)
    if missing := len(topics) - len(queries):
        remarks.append(
            f"topics in {topics[0].lang} that have no {' or '.join(fields)} to ask with, and count 0: {missing}"
        )
    return queries


def _run(plan: EvaluationPlan, queries: Sequence[Document], rankings: Sequence[Ranking]) -> Run:
    scored: dict[str, list[RunEntry]] = {
        query.doc_id: [(doc_id, float(score)) for doc_id, score in zip(ranking.doc_ids, ranking.scores, strict=True)]
        for query, ranking in zip(queries, rankings, strict=True)
    }
    return Run(plan.tag, scored)


def languages_of(store: VectorStore, model: str, doc_ids: Iterable[str]) -> dict[str, str]:
    """Language by id of the documents that the store has."""
    langs: dict[str, str] = {}
    ordered = sorted(doc_ids)
    for start in range(0, len(ordered), _IDS_AT_ONCE):
        stamps = store.stamps(model, ordered[start : start + _IDS_AT_ONCE])
        langs.update((doc_id, stamp.lang) for doc_id, stamp in stamps.items())
    return langs
