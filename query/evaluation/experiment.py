"""Topics × collection → runs → scores: what ``dragoman evaluate`` does, as a function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from encoders.document import Document, EncoderSpec
from encoders.errors import BadInput
from indexer.stores.contract import VectorStore
from query.evaluation.bm25_baseline import rank_by_bm25
from query.evaluation.fairness import Fairness, fairness, pooled_fairness
from query.evaluation.history import Kind, ScoredRun, pack
from query.evaluation.measures import Measure, Scores, evaluate, pooled, relevant_topics
from query.evaluation.topics import Topic
from query.evaluation.trec_run import Run, Scored
from query.ranking.hits import Ranking

if TYPE_CHECKING:
    from ir_measures import Qrel

FIELDS = ("title", "description")
"""Parts of a topic that make the query."""
_IDS_AT_ONCE = 500


class Ranker(Protocol):
    """What an experiment needs of a ``Searcher``."""

    @property
    def store(self) -> VectorStore:
        """Where the documents are."""
        ...

    @property
    def spec(self) -> EncoderSpec:
        """What encodes the queries."""
        ...

    @property
    def model(self) -> str:
        """Id of the stored documents' vectors."""
        ...

    def targets(self, to: Sequence[str] | None) -> list[str]:
        """Languages that are searched when these are asked for."""
        ...

    def rank(self, queries: Sequence[Document], *, k: int = 1000, to: Sequence[str] | None = None) -> list[Ranking]:
        """The k best documents for each query."""
        ...


@dataclass(frozen=True)
class EvaluationPlan:
    """How to evaluate.

    Attributes:
        measures: from ``parse_measures``.
        tag: name of the runs.
        fields: parts of a topic that make the query.
        to: languages of documents; none: all of the collection's.
        depth: documents ranked a topic.
        baseline: also rank within each topic's own language, by the encoder and by BM25.
    """

    measures: Sequence[Measure]
    tag: str
    fields: Sequence[str] = FIELDS
    to: Sequence[str] | None = None
    depth: int = 1000
    baseline: bool = True


@dataclass
class Result:
    """What came out.

    Attributes:
        outcomes: a run for each topic language, its own-language runs after it; the pooled run is the last, where there
            are several topic languages.
        remarks: what a reader of the scores should know, a sentence each.
    """

    outcomes: list[ScoredRun] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def main(self) -> ScoredRun:
        """The pooled run, or else the first."""
        return next((outcome for outcome in self.outcomes if outcome.kind == "pooled"), self.outcomes[0])

    def of_kind(self, kind: Kind) -> dict[str, Scores]:
        """The scores of all runs of one kind, by topic language."""
        return {outcome.lang: outcome.scores for outcome in self.outcomes if outcome.kind == kind}


@dataclass(frozen=True)
class Judgements:
    """Qrels with the languages of the documents they judge.

    Attributes:
        qrels: all of them.
        langs: by document id; documents the collection doesn't have are missing.
    """

    qrels: Sequence[Qrel]
    langs: Mapping[str, str]

    def within(self, langs: Sequence[str]) -> list[Qrel]:
        """Those of documents in some languages."""
        return [qrel for qrel in self.qrels if self.langs.get(qrel.doc_id) in langs]

    def of_topics(self, qids: Collection[str]) -> dict[str, dict[str, int]]:
        """Relevance by topic and document."""
        found: dict[str, dict[str, int]] = {qid: {} for qid in qids}
        for qrel in self.qrels:
            if qrel.query_id in found:
                found[qrel.query_id][qrel.doc_id] = qrel.relevance
        return found


def by_language(topics: Sequence[Topic], langs: Sequence[str] = ()) -> dict[str, list[Topic]]:
    """Topics by their language.

    Args:
        topics: of any languages.
        langs: the ones wanted, in this order; all where none is named.

    Raises:
        BadInput: there is no topic in a language that is wanted, or a topic comes twice in one.
    """
    found: dict[str, dict[str, Topic]] = {}
    for topic in topics:
        if topic.qid in found.setdefault(topic.lang, {}):
            raise BadInput(f"topic {topic.qid} in {topic.lang} stands in two of the topics' files; give one of them")
        found[topic.lang][topic.qid] = topic
    for lang in langs:
        if lang not in found:
            raise BadInput(f"there is no topic in {lang!r}; the topics are in {', '.join(sorted(found))}")
    return {lang: list(found[lang].values()) for lang in langs or sorted(found)}


def experiment(
    searcher: Ranker,
    topics: Mapping[str, Sequence[Topic]],
    qrels: Sequence[Qrel],
    plan: EvaluationPlan,
    advance: Callable[[int], None] = lambda _: None,
) -> Result:
    """Rank every topic language's topics, against all target languages and within their own, and score the runs.

    Args:
        searcher: ranks.
        topics: by language, from ``by_language``.
        qrels: the judgements; where ``plan.to`` is given, those of documents in these languages count.
        plan: how to.
        advance: told how many topics were ranked.

    Raises:
        BadInput: the qrels judge nothing relevant for any topic, or a target language is not in the collection.
    """
    targets = searcher.targets(plan.to)
    judgements = Judgements(qrels, languages_of(searcher.store, searcher.model, {qrel.doc_id for qrel in qrels}))
    result = Result(remarks=_missing(judgements))
    if plan.to is not None:
        judgements = Judgements(judgements.within(targets), judgements.langs)
    judged = relevant_topics(judgements.qrels)
    if not any(topic.qid in judged for topic in chain.from_iterable(topics.values())):
        raise BadInput(
            "the qrels have no relevant document for any of the topics; "
            "check that topics and qrels belong together and name their topics alike"
        )
    fair: dict[str, Fairness] = {}
    for lang, asked in topics.items():
        qids = {topic.qid for topic in asked}
        if not qids & judged:
            result.remarks.append(f"no topic in {lang} has a relevant document; the language is left out")
            advance(len(asked))
            continue
        queries = _queries(asked, plan.fields, result.remarks)
        rankings = searcher.rank(queries, k=plan.depth, to=targets)
        run = _run(plan, queries, rankings)
        scores = evaluate(run, judgements.qrels, plan.measures, qids)
        outcome = ScoredRun(lang, "language", lang, scores, pack(run))
        if len(targets) > 1:
            ranked = {query.doc_id: ranking for query, ranking in zip(queries, rankings, strict=True)}
            fair[lang] = fairness(ranked, judgements.of_topics(scores.topics), judgements.langs, lang, targets)
            outcome = _with_fairness(outcome, fair[lang])
        result.outcomes.append(outcome)
        own = judgements.within([lang])
        if plan.baseline and lang in targets and relevant_topics(own) & qids:
            same = run if targets == [lang] else None
            result.outcomes += _own_language(searcher, queries, same, lang, own, qids, plan)
        advance(len(asked))
    by_lang = result.of_kind("language")
    if len(by_lang) > 1:
        outcome = ScoredRun("all", "pooled", "mul", pooled(by_lang, plan.measures), None)
        result.outcomes.append(_with_fairness(outcome, pooled_fairness(fair)))
    return result


def _missing(judgements: Judgements) -> list[str]:
    documents = len({qrel.doc_id for qrel in judgements.qrels})
    if len(judgements.langs) == documents:
        return []
    return [
        f"of {documents:,} judged documents {len(judgements.langs):,} are in the collection; "
        "relevant ones that are not count as missed"
    ]


def _with_fairness(outcome: ScoredRun, fair: Fairness) -> ScoredRun:
    """The same run with the measures of fairness among its scores."""
    means = dict(outcome.scores.means)
    topics = {qid: dict(values) for qid, values in outcome.scores.topics.items()}
    for measure, by_topic in fair.measures().items():
        means[measure] = sum(by_topic.values()) / len(by_topic)
        for qid, value in by_topic.items():
            topics[qid][measure] = value
    return replace(outcome, scores=replace(outcome.scores, means=means, topics=topics), found=fair.found)


def _own_language(
    searcher: Ranker,
    queries: Sequence[Document],
    run: Run | None,
    lang: str,
    qrels: Sequence[Qrel],
    qids: set[str],
    plan: EvaluationPlan,
) -> Iterator[ScoredRun]:
    run = run or _run(plan, queries, searcher.rank(queries, k=plan.depth, to=[lang]))
    yield ScoredRun(f"{lang}-same", "same", lang, evaluate(run, qrels, plan.measures, qids), pack(run))
    stored = chain.from_iterable(searcher.store.scan(searcher.model, lang=lang))
    found = rank_by_bm25((item.document for item in stored), queries, lang, k=plan.depth)
    bm25 = Run("BM25", {query.doc_id: hits for query, hits in zip(queries, found, strict=True)})
    yield ScoredRun(f"{lang}-bm25", "bm25", lang, evaluate(bm25, qrels, plan.measures, qids), pack(bm25))


def _queries(topics: Sequence[Topic], fields: Sequence[str], remarks: list[str]) -> list[Document]:
    queries = [Document(topic.qid, topic.lang, text) for topic in topics if (text := topic.text(fields).strip())]
    if missing := len(topics) - len(queries):
        remarks.append(
            f"topics in {topics[0].lang} that have no {' or '.join(fields)} to ask with, and count 0: {missing}"
        )
    return queries


def _run(plan: EvaluationPlan, queries: Sequence[Document], rankings: Sequence[Ranking]) -> Run:
    scored: dict[str, list[Scored]] = {
        query.doc_id: [(doc_id, float(score)) for doc_id, score in zip(ranking.doc_ids, ranking.scores, strict=True)]
        for query, ranking in zip(queries, rankings, strict=True)
    }
    return Run(plan.tag, scored)


def languages_of(store: VectorStore, model: str, doc_ids: Iterable[str]) -> dict[str, str]:
    """The language of each document that the store has, by id."""
    langs: dict[str, str] = {}
    ordered = sorted(doc_ids)
    for start in range(0, len(ordered), _IDS_AT_ONCE):
        stamps = store.stamps(model, ordered[start : start + _IDS_AT_ONCE])
        langs.update((doc_id, stamp.lang) for doc_id, stamp in stamps.items())
    return langs


def score_external(
    run: Run, topics: Mapping[str, Sequence[Topic]], qrels: Sequence[Qrel], measures: Sequence[Measure]
) -> Scores:
    """Score a run from elsewhere over the same topics and judgements.

    Args:
        run: its topics are ``qid.lang``, or the plain ids where ``topics`` are of one language.
        topics: by language.
        qrels: the judgements.
        measures: from ``parse_measures``.

    Raises:
        BadInput: it has none of the topics.
    """
    plain = {topic.qid for asked in topics.values() for topic in asked}
    if len(topics) == 1 and plain & run.rankings.keys():
        return evaluate(run, qrels, measures, plain)
    asked = {f"{topic.qid}.{lang}" for lang, some in topics.items() for topic in some}
    if not asked & run.rankings.keys():
        raise BadInput(f"the run {run.tag!r} has none of the topics; name those of several languages like {min(asked)}")
    expanded = [qrel._replace(query_id=f"{qrel.query_id}.{lang}") for lang in topics for qrel in qrels]
    return evaluate(run, expanded, measures, asked)
