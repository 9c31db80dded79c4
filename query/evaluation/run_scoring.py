"""Scores of a run, ours or another system's, by the judgements of documents in all target languages, or in one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from encoders.errors import BadInput
from indexer.stores.contract import VectorStore
from query.evaluation.scored_runs import Judgements, ScoredRun, pair_name
from query.measures.consistency import RBO, consistency, overlaps, pair_means
from query.measures.fairness import DEPTH, Fairness, fairness, pooled_fairness
from query.measures.quality_measures import Measure, Scores, pooled, relevant_topics, score
from query.ranking.search_hits import Ranking
from query.trec_files.trec_run import Run, pack

_IDS_AT_ONCE = 500

NOTHING_RELEVANT = (
    "the qrels have no relevant document for any of the topics; check that topics and qrels belong together and name "
    "their topics alike"
)


@dataclass
class Scoring:
    """Scores the runs of one system by the same judgements and measures, a topic language at a time."""

    judgements: Judgements
    targets: Sequence[str]  # languages of documents that were searched
    measures: Sequence[Measure]
    fairness: dict[str, Fairness] = field(default_factory=dict)  # of the runs so far, by topic language
    hits: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # their first hits, also by topic

    def language(self, lang: str, run: Run, rankings: Mapping[str, Ranking], qids: set[str]) -> ScoredRun:
        """Score a topic language's run; its fairness is empty if only one language of documents was searched."""
        judgements, scores = self.judgements, score(run, self.judgements.qrels, self.measures, qids)
        self.fairness[lang] = Fairness()
        self.hits[lang] = {qid: [doc_id for doc_id, _ in run.rankings.get(qid, ())[:DEPTH]] for qid in scores.topics}
        if len(self.targets) > 1:
            relevance = judgements.of_topics(scores.topics)
            self.fairness[lang] = fairness(rankings, relevance, judgements.langs, lang, self.targets)
        return _with_fairness(ScoredRun(lang, "language", lang, scores, pack(run)), self.fairness[lang])

    def pairs(self, lang: str, by_documents: Mapping[str, Run], qids: set[str]) -> Iterator[ScoredRun]:
        """A topic language's runs by language of documents, each scored by its judgements if any is relevant."""
        for documents, run in by_documents.items():
            qrels = self.judgements.within([documents])
            if relevant_topics(qrels) & qids:
                scores = score(run, qrels, self.measures, qids)
                yield ScoredRun(pair_name(lang, documents), "pair", lang, scores, pack(run))

    def pool(self, scores: Mapping[str, Scores]) -> list[ScoredRun]:
        """The pooled run of several topic languages; of a single one there is none."""
        if len(scores) < 2:
            return []
        run = ScoredRun("all", "pooled", "mul", pooled(scores, self.measures), None)
        of_all, by_pair = pooled_fairness(self.fairness), overlaps(self.hits)
        measures = {**of_all.measures, **({RBO: consistency(by_pair)} if by_pair else {})}
        return [replace(_with_fairness(run, replace(of_all, measures=measures)), overlaps=pair_means(by_pair))]


def left_out(lang: str) -> str:
    """The remark on a topic language without judgements."""
    return f"no topic in {lang} has a relevant document; the language is left out"


def missing_documents(judgements: Judgements, to: Sequence[str] | None = None) -> list[str]:
    """The remark on judged documents that the collection lacks; with ``to``, only of documents in these languages.

    Raises BadInput: the collection has none of the judged documents.
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
    scores, measured = scored_run.scores, run_fairness.measures.items()
    means = {measure: sum(by_topic.values()) / len(by_topic) for measure, by_topic in measured}
    topics = {
        qid: {**values, **{measure: by_topic[qid] for measure, by_topic in measured if qid in by_topic}}
        for qid, values in scores.topics.items()
    }
    scores = replace(scores, means={**scores.means, **means}, topics=topics)
    return replace(scored_run, scores=scores, relevant_counts=run_fairness.relevant_counts)


def languages_of(store: VectorStore, model: str, doc_ids: Iterable[str]) -> dict[str, str]:
    """Language by id of the documents that the store has."""
    langs: dict[str, str] = {}
    ordered = sorted(doc_ids)
    for start in range(0, len(ordered), _IDS_AT_ONCE):
        stamps = store.stamps(model, ordered[start : start + _IDS_AT_ONCE])
        langs.update((doc_id, stamp.lang) for doc_id, stamp in stamps.items())
    return langs
