"""Runs of other systems, scored as our own are: what ``dragoman runs import`` and ``--compare FILE`` compute."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from encoders.console import Console
from encoders.errors import BadInput
from query.evaluation.run_scoring import NOTHING_RELEVANT, Scoring, left_out, missing_documents
from query.evaluation.scored_runs import EvaluationPlan, Judgements, ScoredRuns, pair_name
from query.measures.quality_measures import relevant_topics
from query.ranking.search_hits import Ranking
from query.trec_files.topics import Topic, normalise_qid
from query.trec_files.trec_run import Run, RunEntry


def score_foreign(
    run: Run,
    topics: Mapping[str, Sequence[Topic]],
    judgements: Judgements,
    plan: EvaluationPlan,
    *,
    targets: Sequence[str] = (),
) -> ScoredRuns:
    """Score a run; topics are as in ``by_topic_language``, and ``targets`` are the languages of documents.

    Without ``targets`` there is no fairness. ``judgements`` has the languages of the ranked documents. With ``to`` in
    the plan, documents of other languages count neither as hits nor as judged. A language of topics, or a pair, for
    which the run has no hit at all was not asked, and is left out with a remark. Raises BadInput: no topic has a
    relevant document, or the collection has none of the judged.
    """
    remarks = missing_documents(judgements, plan.to) if targets else []
    if plan.to is not None:
        run = without_languages(run, judgements.langs, targets)
        judgements = Judgements(judgements.within(targets), judgements.langs)
    judged = relevant_topics(judgements.qrels)
    if targets and (unknown := len(run.doc_ids - judgements.langs.keys())):
        remarks.append(f"ranked documents that the collection does not have: {unknown:,}; they are hits in no language")
    scored_runs = ScoredRuns([], remarks, judgements.qrels, targets)
    scoring = Scoring(judgements, targets, plan.measures)
    for lang, part in by_topic_language(run, topics).items():
        qids = {topic.qid for topic in topics[lang]}
        if not qids & judged:
            remarks.append(left_out(lang))
            continue
        if not part.rankings:
            remarks.append(f"the run ranks no topic in {lang}; the language is left out")
            continue
        scored_runs.runs.append(scoring.language(lang, part, _rankings(part, judgements.langs), qids))
        if plan.pairs:
            ranked_langs = {doc_id: judgements.langs.get(doc_id, "") for doc_id in part.doc_ids}
            asked = [documents for documents in targets if documents in ranked_langs.values()]
            if unasked := [pair_name(lang, documents) for documents in targets if documents not in asked]:
                remarks.append(f"pairs without any hit, which are left out: {', '.join(unasked)}")
            by_documents = {documents: without_languages(part, ranked_langs, [documents]) for documents in asked}
            scored_runs.runs += scoring.pairs(lang, by_documents, qids)
    if not scored_runs.runs:
        raise BadInput(NOTHING_RELEVANT)
    scored_runs.runs += scoring.pool(scored_runs.of_kind("language"))
    return scored_runs


def _rankings(run: Run, langs: Mapping[str, str]) -> dict[str, Ranking]:
    """The rankings of a run, with the languages of the hits; that of a document without a language is empty."""
    return {
        qid: Ranking(
            [doc_id for doc_id, _ in ranking],
            [langs.get(doc_id, "") for doc_id, _ in ranking],
            np.array([score for _, score in ranking], dtype=np.float32),
        )
        for qid, ranking in run.rankings.items()
    }


def without_languages(run: Run, languages: Mapping[str, str], langs: Collection[str]) -> Run:
    """A run without the documents that ``languages`` says to be in another language than ``langs``."""
    outside = {doc_id for doc_id, lang in languages.items() if lang not in langs}
    rankings = {qid: [entry for entry in ranking if entry[0] not in outside] for qid, ranking in run.rankings.items()}
    return Run(run.tag, rankings)


def by_topic_language(run: Run, topics: Mapping[str, Sequence[Topic]]) -> dict[str, Run]:
    """A run's rankings by topic language, with topics' own ids; a run has ``qid.lang``, or plain ids of one language.

    Raises BadInput: the run has none of the topics, or one topic by two ids.
    """
    rankings: dict[str, Sequence[RunEntry]] = {}
    for name, ranking in run.rankings.items():
        plain_qid, dot, lang = name.rpartition(".")
        topic_id = f"{normalise_qid(plain_qid)}.{lang}" if dot and lang in topics else normalise_qid(name)
        if topic_id in rankings:
            raise BadInput(f"the run {run.tag!r} ranks topic {topic_id} by two ids, one of them {name!r}; take one out")
        rankings[topic_id] = ranking
    named = {lang: {f"{topic.qid}.{lang}": topic.qid for topic in lang_topics} for lang, lang_topics in topics.items()}
    if len(topics) == 1:
        ((lang, lang_topics),) = topics.items()
        plain = {topic.qid: topic.qid for topic in lang_topics}
        named = {lang: plain} if plain.keys() & rankings.keys() else named
    names = {name for qids in named.values() for name in qids}
    if not names & rankings.keys():
        raise BadInput(
            f"the run {run.tag!r} has none of the topics; name those of several languages like {min(names)}, or choose "
            f"the run's language with --langs; the run's own are like {min(run.rankings, default='')!r}"
        )
    if unknown := len(rankings.keys() - names):
        Console().warn_once(f"topics of the run {run.tag!r} that are not among the topics, and don't count: {unknown}")
    return {
        lang: Run(run.tag, {qid: rankings[name] for name, qid in qids.items() if name in rankings})
        for lang, qids in named.items()
    }
