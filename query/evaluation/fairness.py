"""Fairness of a run's rankings between the languages of documents.

There are three measures. The own-language share is the share of the first n hits, for n languages searched, that are in
the topic's own language. PEER says whether equally relevant documents are expected at equal ranks whatever their
language (Yang, Jänich, Mayfield and Lawrie, *Language Fairness in Multilingual Information Retrieval*, SIGIR 2024). The
third measure is the share of each language's relevant documents that are among the first hundred hits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from query.ranking.hits import Ranking

DEPTH = 100
"""Number of hits that PEER and the share of relevant documents look at."""
OWN_LANGUAGE, PEER = "own-language", f"PEER@{DEPTH}"

Judged = Mapping[str, int]
"""Level of relevance by document id; 0 is not relevant."""
_NO_HITS = Ranking((), (), np.zeros(0, dtype=np.float32))


@dataclass(frozen=True)
class RelevantCounts:
    """Counts of the relevant documents of one language, over all topics.

    Attributes:
        retrieved: number of relevant documents among the first hundred of their topic's ranking.
        relevant: number of relevant documents.
    """

    retrieved: int
    relevant: int

    @property
    def share(self) -> float:
        """Share of the relevant documents that were retrieved; 0 if there are none."""
        return self.retrieved / self.relevant if self.relevant else 0.0


@dataclass(frozen=True)
class Fairness:
    """How a run treats the languages of documents.

    Attributes:
        targets: number of languages of documents that were searched.
        own_language: by topic id, the share of the topic's language in the first ``targets`` hits; empty if no
            documents of that language were searched.
        peer: PEER by topic id.
        relevant_counts: counts of relevant documents by language of documents.
    """

    targets: int
    own_language: Mapping[str, float] = field(default_factory=dict)
    peer: Mapping[str, float] = field(default_factory=dict)
    relevant_counts: Mapping[str, RelevantCounts] = field(default_factory=dict)

    def measures(self) -> dict[str, Mapping[str, float]]:
        """Values by measure and topic: ``own-language@9``, if nine languages were searched, and ``PEER@100``."""
        values_by_measure = {f"{OWN_LANGUAGE}@{self.targets}": self.own_language, PEER: self.peer}
        return {name: values for name, values in values_by_measure.items() if values}


def is_fairness(measure: str) -> bool:
    """Whether a name is that of a measure of ``Fairness.measures``."""
    return measure.startswith(f"{OWN_LANGUAGE}@") or measure == PEER


def fairness(
    rankings: Mapping[str, Ranking],
    relevance: Mapping[str, Judged],
    langs: Mapping[str, str],
    lang: str,
    targets: Sequence[str],
) -> Fairness:
    """The fairness of one topic language's rankings, over the topics of ``relevance``.

    The rankings are of documents in the languages ``targets``. A topic without a ranking has no hits; judged documents
    without a language in ``langs`` don't count.
    """
    hits = {qid: rankings.get(qid, _NO_HITS) for qid in relevance}
    own_shares = {}
    if lang in targets:
        own_shares = {qid: own_language_share(ranking.langs, lang, len(targets)) for qid, ranking in hits.items()}
    return Fairness(
        targets=len(targets),
        own_language=own_shares,
        peer={qid: peer(hits[qid].doc_ids, judged, langs) for qid, judged in relevance.items()},
        relevant_counts=relevant_by_language({qid: ranking.doc_ids for qid, ranking in hits.items()}, relevance, langs),
    )


def pooled_fairness(parts: Mapping[str, Fairness]) -> Fairness:
    """The fairness of all topic languages' runs, over the same targets, as of one run whose topics are ``qid.lang``."""
    own_shares: dict[str, float] = {}
    peers: dict[str, float] = {}
    relevant_counts: dict[str, RelevantCounts] = {}
    for topic_lang, part in parts.items():
        own_shares.update((f"{qid}.{topic_lang}", value) for qid, value in part.own_language.items())
        peers.update((f"{qid}.{topic_lang}", value) for qid, value in part.peer.items())
        for lang, counts in part.relevant_counts.items():
            total = relevant_counts.get(lang, RelevantCounts(0, 0))
            relevant_counts[lang] = RelevantCounts(total.retrieved + counts.retrieved, total.relevant + counts.relevant)
    targets = max((part.targets for part in parts.values()), default=0)
    return Fairness(targets, own_shares, peers, dict(sorted(relevant_counts.items())))


def own_language_share(langs: Sequence[str], lang: str, depth: int) -> float:
    """Share of the first ``depth`` hits that are in ``lang``; 0 if there are no hits.

    ``langs`` has the (n,) languages of the hits, best first.
    """
    first_langs = list(langs[:depth])
    return first_langs.count(lang) / len(first_langs) if first_langs else 0.0


def relevant_by_language(
    rankings: Mapping[str, Sequence[str]], relevance: Mapping[str, Judged], langs: Mapping[str, str], depth: int = DEPTH
) -> dict[str, RelevantCounts]:
    """Count each language's relevant documents, and those among the first ``depth`` of their topic's ranking.

    Judged documents without a language in ``langs`` don't count.
    """
    retrieved: Counter[str] = Counter()
    relevant: Counter[str] = Counter()
    for qid, judged in relevance.items():
        top_ids = set(rankings.get(qid, ())[:depth])
        relevant_ids = [doc_id for doc_id, level in judged.items() if level > 0 and doc_id in langs]
        relevant.update(langs[doc_id] for doc_id in relevant_ids)
        retrieved.update(langs[doc_id] for doc_id in relevant_ids if doc_id in top_ids)
    return {lang: RelevantCounts(retrieved[lang], relevant[lang]) for lang in sorted(relevant)}


def peer(
    doc_ids: Sequence[str],
    judged: Judged,
    langs: Mapping[str, str],
    *,
    depth: int = DEPTH,
    weights: Mapping[int, float] | None = None,
) -> float:
    """Probability of equal expected rank of one topic: 1 fair … 0 unfair.

    PEER is a weighted mean over the levels of relevance (Yang et al. 2024). A level's value is the p of a
    Kruskal–Wallis test that the ranks of the level's documents don't depend on their language; documents below
    ``depth`` share the last rank. A level gives 1 if all of its documents are in one language or none was found. Like
    every test, PEER shows little with few documents: with one document per language it is the same for all rankings.

    Documents without a language in ``langs`` don't count. By default all levels weigh the same.
    """
    rank_of = {doc_id: rank for rank, doc_id in enumerate(doc_ids[:depth])}
    levels: dict[int, dict[str, list[int]]] = {}
    for doc_id, level in judged.items():
        if level > 0 and doc_id in langs:
            ranks = levels.setdefault(level, {}).setdefault(langs[doc_id], [])
            ranks.append(rank_of.get(doc_id, depth))
    level_weights = {level: weights.get(level, 0.0) if weights is not None else 1.0 for level in levels}
    total = sum(level_weights.values())
    if not total > 0.0:
        return 1.0
    return (
        sum(weight * _equal_ranks(levels[level].values()) for level, weight in level_weights.items() if weight) / total
    )


def _equal_ranks(groups: Iterable[Sequence[int]]) -> float:
    """The p of the Kruskal–Wallis test; 1 if there is only one group, or all ranks are equal."""
    samples = list(groups)
    if len(samples) < 2 or len({rank for sample in samples for rank in sample}) < 2:
        return 1.0
    from scipy.stats import kruskal  # noqa: PLC0415 - a second

    return float(kruskal(*samples).pvalue)
