"""Fairness between the languages of documents: what a run's rankings do to them, beside how good it is.

Three views. The own-language share: of the first hits, one a language, how many are in the topic's own language. PEER:
whether documents that are equally relevant are expected at equal ranks whatever their language (Yang, Jänich, Mayfield
and Lawrie, *Language Fairness in Multilingual Information Retrieval*, SIGIR 2024). And the share of the relevant
documents of each language that stand among the first hundred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from query.ranking.hits import Ranking

DEPTH = 100
"""How far down PEER and the share of relevant documents look."""
OWN_LANGUAGE, PEER = "own-language", f"PEER@{DEPTH}"

Judged = Mapping[str, int]
"""Relevance by document id."""


@dataclass(frozen=True)
class FoundRelevant:
    """Relevant documents of one language.

    Attributes:
        found: how many stand among the first hundred of their topic's ranking, over all topics.
        relevant: how many there are.
    """

    found: int
    relevant: int

    @property
    def share(self) -> float:
        """Of the relevant ones, how many were found; 0 where there are none."""
        return self.found / self.relevant if self.relevant else 0.0


@dataclass(frozen=True)
class Fairness:
    """How a run treats the languages of documents.

    Attributes:
        targets: how many languages of documents were searched.
        own_language: by topic id, the share of the topic's language in the first ``targets`` hits; empty where no
            documents of that language were searched.
        peer: by topic id.
        found: by language of documents.
    """

    targets: int
    own_language: Mapping[str, float] = field(default_factory=dict)
    peer: Mapping[str, float] = field(default_factory=dict)
    found: Mapping[str, FoundRelevant] = field(default_factory=dict)

    def measures(self) -> dict[str, Mapping[str, float]]:
        """Each topic's values, by measure: ``own-language@9`` where nine languages were searched, ``PEER@100``."""
        named = {f"{OWN_LANGUAGE}@{self.targets}": self.own_language, PEER: self.peer}
        return {name: values for name, values in named.items() if values}


def is_fairness(measure: str) -> bool:
    """Whether a measure's name is one of ``Fairness.measures``."""
    return measure.startswith(f"{OWN_LANGUAGE}@") or measure == PEER


def fairness(
    rankings: Mapping[str, Ranking],
    qrels: Mapping[str, Judged],
    langs: Mapping[str, str],
    lang: str,
    targets: Sequence[str],
) -> Fairness:
    """The fairness of one topic language's rankings, over the topics of the qrels.

    Args:
        rankings: by topic id; a topic that has none found nothing.
        qrels: judgements by topic id.
        langs: languages of the judged documents; those that are missing don't count.
        lang: of the topics.
        targets: languages of documents that were searched.
    """
    own = {}
    if lang in targets:
        own = {qid: own_language_share(_langs(rankings, qid), lang, len(targets)) for qid in qrels}
    return Fairness(
        targets=len(targets),
        own_language=own,
        peer={qid: peer(_doc_ids(rankings, qid), judged, langs) for qid, judged in qrels.items()},
        found=found_by_language({qid: _doc_ids(rankings, qid) for qid in qrels}, qrels, langs),
    )


def _langs(rankings: Mapping[str, Ranking], qid: str) -> Sequence[str]:
    return rankings[qid].langs if qid in rankings else ()


def _doc_ids(rankings: Mapping[str, Ranking], qid: str) -> Sequence[str]:
    return rankings[qid].doc_ids if qid in rankings else ()


def pooled_fairness(parts: Mapping[str, Fairness]) -> Fairness:
    """All topic languages' runs as one, whose topics are ``qid.lang``.

    Args:
        parts: by topic language, over the same targets.
    """
    own: dict[str, float] = {}
    ranks: dict[str, float] = {}
    found: dict[str, FoundRelevant] = {}
    for topic_lang, part in parts.items():
        own.update((f"{qid}.{topic_lang}", value) for qid, value in part.own_language.items())
        ranks.update((f"{qid}.{topic_lang}", value) for qid, value in part.peer.items())
        for lang, one in part.found.items():
            before = found.get(lang, FoundRelevant(0, 0))
            found[lang] = FoundRelevant(before.found + one.found, before.relevant + one.relevant)
    targets = max((part.targets for part in parts.values()), default=0)
    return Fairness(targets, own, ranks, dict(sorted(found.items())))


def own_language_share(langs: Sequence[str], lang: str, depth: int) -> float:
    """Of the first hits, the share in one language; 0 where nothing was found.

    Args:
        langs: (n,) languages of the hits, best first.
        lang: the topic's.
        depth: how many hits to look at.
    """
    first = list(langs[:depth])
    return first.count(lang) / len(first) if first else 0.0


def found_by_language(
    rankings: Mapping[str, Sequence[str]], qrels: Mapping[str, Judged], langs: Mapping[str, str], depth: int = DEPTH
) -> dict[str, FoundRelevant]:
    """For each language how many of its relevant documents stand among the first of their topic's ranking.

    Args:
        rankings: document ids by topic id, best first.
        qrels: judgements by topic id.
        langs: languages of the judged documents; those that are missing don't count.
        depth: how many hits to look at.
    """
    found: dict[str, int] = {}
    relevant: dict[str, int] = {}
    for qid, judged in qrels.items():
        first = set(rankings.get(qid, ())[:depth])
        for doc_id, relevance in judged.items():
            if relevance > 0 and doc_id in langs:
                lang = langs[doc_id]
                relevant[lang] = relevant.get(lang, 0) + 1
                found[lang] = found.get(lang, 0) + (doc_id in first)
    return {lang: FoundRelevant(found[lang], relevant[lang]) for lang in sorted(relevant)}


def peer(
    doc_ids: Sequence[str],
    judged: Judged,
    langs: Mapping[str, str],
    *,
    depth: int = DEPTH,
    weights: Mapping[int, float] | None = None,
) -> float:
    """Probability of equal expected rank of one topic: 1 fair … 0 unfair.

    For each level of relevance the p of a Kruskal–Wallis test that the ranks of its documents don't depend on their
    language; documents below ``depth`` share the last rank. Levels that one language has alone, or that nobody found
    anything of, give 1. The mean over levels is weighted (Yang et al. 2024). As every test, it sees little
    in few documents: with a single one a language it can tell nothing, and is the same for all rankings.

    Args:
        doc_ids: the ranking, best first.
        judged: relevance by document id; only levels above 0 count.
        langs: languages of the judged documents; those that are missing don't count.
        depth: how far down a document counts as found.
        weights: of the levels; all that the topic has the same unless given.
    """
    place = {doc_id: rank for rank, doc_id in enumerate(doc_ids[:depth])}
    levels: dict[int, dict[str, list[int]]] = {}
    for doc_id, relevance in judged.items():
        if relevance > 0 and doc_id in langs:
            ranks = levels.setdefault(relevance, {}).setdefault(langs[doc_id], [])
            ranks.append(place.get(doc_id, depth))
    weighed = {level: weights.get(level, 0.0) if weights is not None else 1.0 for level in levels}
    total = sum(weighed.values())
    if not total > 0.0:
        return 1.0
    return sum(weight * _equal_ranks(levels[level].values()) for level, weight in weighed.items() if weight) / total


def _equal_ranks(groups: Iterable[Sequence[int]]) -> float:
    """P of the Kruskal–Wallis test; 1 where there is nothing to tell apart."""
    samples = list(groups)
    if len(samples) < 2 or len({rank for sample in samples for rank in sample}) < 2:
        return 1.0
    from scipy.stats import kruskal  # noqa: PLC0415 - a second

    return float(kruskal(*samples).pvalue)
