"""Runs of a collection's searcher over topics, with their scores: the computation of ``dragoman evaluate``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from encoders.document import Document
from encoders.errors import BadInput
from query.evaluation.run_scoring import NOTHING_RELEVANT, Scoring, languages_of, left_out, missing_documents
from query.evaluation.scored_runs import PSQ_ENDING, EvaluationPlan, Judgements, RunKind, ScoredRun, ScoredRuns
from query.lexical_baselines.lexical_runs import merged, rank_by_bm25, rank_by_psq, without_lexicon
from query.measures.quality_measures import relevant_topics, score
from query.ranking.search_hits import Ranking
from query.ranking.searcher import Searcher
from query.trec_files.qrels import Qrel
from query.trec_files.topics import Topic, queries_of
from query.trec_files.trec_run import Run, pack


def rank_and_score(
    searcher: Searcher,
    topics: Mapping[str, Sequence[Topic]],
    qrels: Sequence[Qrel],
    plan: EvaluationPlan,
    advance: Callable[[int], None] = lambda _: None,
) -> ScoredRuns:
    """Rank every topic language's topics, against all target languages and within their own, and score the runs.

    ``advance`` gets the number of topics ranked since its last call; ``rounds`` says how often each is ranked.
    Judgements of documents in other languages than the plan's don't count. Raises BadInput: no topic has a relevant
    document, the collection has none of the judged documents, or a target language is not in it.
    """
    targets = searcher.targets(plan.to)
    judgements = Judgements.of(qrels, lambda ids: languages_of(searcher.store, searcher.stored_model, ids))
    scored_runs = ScoredRuns(remarks=missing_documents(judgements, plan.to), targets=targets)
    if plan.to is not None:
        judgements = Judgements(judgements.within(targets), judgements.langs)
    scored_runs.qrels = judgements.qrels
    judged = relevant_topics(judgements.qrels)
    qids_by_lang = {lang: {topic.qid for topic in lang_topics} for lang, lang_topics in topics.items()}
    asked = [lang for lang, qids in qids_by_lang.items() if qids & judged]
    queries_by_lang = {lang: queries_of(topics[lang], plan.fields) for lang in asked}
    for lang, queries in queries_by_lang.items():
        if missing := len(topics[lang]) - len(queries):
            remark = f"topics in {lang} that have no {' or '.join(plan.fields)} to ask with, and count 0: {missing}"
            scored_runs.remarks.append(remark)
    if not queries_by_lang:
        raise BadInput(NOTHING_RELEVANT)
    psq_runs = rank_by_psq(searcher, queries_by_lang, targets, plan.lexicons, plan.depth)
    scoring, psq_scoring = (Scoring(judgements, targets, plan.measures) for _ in range(2))
    times = rounds(plan, targets)
    for lang, qids in qids_by_lang.items():
        if lang not in queries_by_lang:
            scored_runs.remarks.append(left_out(lang))
            advance(times * len(topics[lang]))
            continue
        queries = queries_by_lang[lang]
        scored_runs.runs += _language_runs(searcher, lang, queries, scoring, plan, qids, advance)
        if plan.lexicons.names:
            by_documents = psq_runs.get(lang, {})
            scored_runs.remarks += without_lexicon(lang, targets, by_documents)
            if by_documents:
                run, rankings = merged(by_documents, plan.depth)
                scored_runs.runs += _named_psq([psq_scoring.language(lang, run, rankings, qids)], "psq")
                if plan.pairs:
                    scored_runs.runs += _named_psq(psq_scoring.pairs(lang, by_documents, qids), "psq-pair")
        advance(times * (len(topics[lang]) - len(queries)))
    scored_runs.runs += scoring.pool(scored_runs.of_kind("language"))
    scored_runs.runs += _named_psq(psq_scoring.pool(scored_runs.of_kind("psq")), "psq-pooled")
    return scored_runs


def rounds(plan: EvaluationPlan, targets: Sequence[str]) -> int:
    """How often each topic is ranked by ``rank_and_score``, without its own language's documents alone."""
    return 1 + len(targets) if plan.pairs and len(targets) > 1 else 1


def _language_runs(
    searcher: Searcher,
    lang: str,
    queries: Sequence[Document],
    scoring: Scoring,
    plan: EvaluationPlan,
    qids: set[str],
    advance: Callable[[int], None],
) -> Iterator[ScoredRun]:
    """A topic language's run with its fairness, its pairs if the plan asks for them, and its own language's runs."""
    targets = scoring.targets
    rankings = searcher.rank(queries, k=plan.depth, to=targets, advance=advance)
    run = _run(plan, queries, rankings)
    ranked = {query.doc_id: ranking for query, ranking in zip(queries, rankings, strict=True)}
    yield scoring.language(lang, run, ranked, qids)
    by_documents = {targets[0]: run} if len(targets) == 1 else {}
    if plan.pairs:
        for documents in targets if len(targets) > 1 else ():
            if not relevant_topics(scoring.judgements.within([documents])) & qids:
                advance(len(queries))
                continue
            ranked_within = searcher.rank(queries, k=plan.depth, to=[documents], advance=advance)
            by_documents[documents] = _run(plan, queries, ranked_within)
        yield from scoring.pairs(lang, by_documents, qids)
    qrels = scoring.judgements.within([lang])
    if plan.baseline == "none" or lang not in targets or not relevant_topics(qrels) & qids:
        return
    run = by_documents.get(lang) or _run(plan, queries, searcher.rank(queries, k=plan.depth, to=[lang]))
    yield ScoredRun(f"{lang}-same", "same", lang, score(run, qrels, plan.measures, qids), pack(run))
    items = chain.from_iterable(searcher.store.scan(searcher.stored_model, lang=lang))
    bm25_rankings = rank_by_bm25((item.document for item in items), queries, lang, k=plan.depth)
    bm25_run = Run("BM25", {query.doc_id: hits for query, hits in zip(queries, bm25_rankings, strict=True)})
    yield ScoredRun(f"{lang}-bm25", "bm25", lang, score(bm25_run, qrels, plan.measures, qids), pack(bm25_run))


def _named_psq(scored_runs: Iterable[ScoredRun], kind: RunKind) -> Iterator[ScoredRun]:
    for scored_run in scored_runs:
        yield replace(scored_run, name=scored_run.name + PSQ_ENDING, kind=kind)


def _run(plan: EvaluationPlan, queries: Sequence[Document], rankings: Sequence[Ranking]) -> Run:
    return Run(plan.tag, {query.doc_id: ranking.scored for query, ranking in zip(queries, rankings, strict=True)})
