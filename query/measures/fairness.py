"""Fairness of a run's rankings between the languages of documents.

The own-language share is that of the first n hits, for n languages searched. PEER says whether equally relevant
documents are expected at equal ranks (Yang, Jänich, Mayfield and Lawrie, *Language Fairness in Multilingual Information
Retrieval*, SIGIR 2024), as ``peer_measure`` computes it. TLR is the share of relevant documents in other languages
among the first hits (Jang, Hong, Moon and Lim, *SHIFT*, Findings of EMNLP 2026, section 4.3). LPR is the share of
topics whose first relevant hit is in their language, of those with relevant documents in several (*MLAIRE*, 2026, over
parallel passages). RBO, of pooled runs, says how alike a topic's rankings are (``query.measures.consistency``). Last,
the share of each language's relevant documents among the first hundred hits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from query.measures.consistency import RBO
from query.ranking.search_hits import Ranking

DEPTH = 100
"""Number of hits that PEER and the share of relevant documents look at."""
TLR_DEPTH = 20
"""Number of hits that TLR looks at; nDCG@20 is what SHIFT reports beside it."""
OWN_LANGUAGE, PEER, TLR, LPR = "own-language", f"PEER@{DEPTH}", f"TLR@{TLR_DEPTH}", "LPR"
MEASURES = (OWN_LANGUAGE, PEER, TLR, LPR, RBO)

Judged = Mapping[str, int]
"""Level of relevance by document id; 0 is not relevant."""
_NO_HITS = Ranking((), (), np.zeros(0, dtype=np.float32))


@dataclass(frozen=True)
class RelevantCounts:
    """Counts of the relevant documents of one language, over all topics."""

    retrieved: int  # number of relevant documents among the first hundred of their topic's ranking
    relevant: int  # number of relevant documents

    @property
    def share(self) -> float:
        """Share of the relevant documents that were retrieved; 0 if there are none."""
        return self.retrieved / self.relevant if self.relevant else 0.0


@dataclass(frozen=True)
class Fairness:
    """How a run treats the languages of documents."""

    # values by topic id, by measure, of ``MEASURES``. A topic without a value is missing, so is a measure without
    # topics: the own-language share if no documents of that language were searched, TLR if nothing is relevant in other
    # languages, LPR if nothing is relevant in both.
    measures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    relevant_counts: Mapping[str, RelevantCounts] = field(default_factory=dict)  # by language of documents


OLD_PEER = f"PEER-0.1.0@{DEPTH}"
"""PEER as version 0.1.0 computed it, of ranks among the relevant documents."""


def current_name(measure: str, *, is_old: bool) -> str:
    """A logged measure's name; 0.1.0 had ``own-language@9`` of nine languages, and another PEER."""
    if is_old and measure == PEER:
        return OLD_PEER
    return OWN_LANGUAGE if measure.startswith(f"{OWN_LANGUAGE}@") else measure


def is_fairness(measure: str) -> bool:
    """Whether a name is that of a measure of fairness, of this version or an earlier one."""
    return measure in {*MEASURES, OLD_PEER}


def fairness(
    rankings: Mapping[str, Ranking],
    relevance: Mapping[str, Judged],
    langs: Mapping[str, str],
    lang: str,
    targets: Sequence[str],
) -> Fairness:
    """Fairness of a topic language over the topics of ``relevance``; documents without a language don't count."""
    doc_ids: dict[str, Sequence[str]] = {}
    values: dict[str, dict[str, float]] = {measure: {} for measure in MEASURES}
    for qid, judged in relevance.items():
        ranking = rankings.get(qid, _NO_HITS)
        hits = doc_ids[qid] = ranking.doc_ids
        of_topic = {
            OWN_LANGUAGE: own_language_share(ranking.langs, lang, len(targets)) if lang in targets else None,
            PEER: peer(hits, judged, langs),
            TLR: target_recall(hits, judged, langs, lang),
            LPR: preference(hits, judged, langs, lang),
        }
        for measure, value in of_topic.items():
            values[measure] |= {} if value is None else {qid: value}
    measures = {measure: by_topic for measure, by_topic in values.items() if by_topic}
    return Fairness(measures, relevant_by_language(doc_ids, relevance, langs))


def pooled_fairness(parts: Mapping[str, Fairness]) -> Fairness:
    """The fairness of all topic languages' runs, over the same targets, as of one run whose topics are ``qid.lang``."""
    relevant_counts: dict[str, RelevantCounts] = {}
    for part in parts.values():
        for lang, counts in part.relevant_counts.items():
            total = relevant_counts.get(lang, RelevantCounts(0, 0))
            relevant_counts[lang] = RelevantCounts(total.retrieved + counts.retrieved, total.relevant + counts.relevant)
    measures = {
        measure: {
            f"{qid}.{lang}": value
            for lang, part in parts.items()
            for qid, value in part.measures.get(measure, {}).items()
        }
        for measure in MEASURES
    }
    return Fairness(
        {name: values for name, values in measures.items() if values}, dict(sorted(relevant_counts.items()))
    )


def target_recall(
    doc_ids: Sequence[str], judged: Judged, langs: Mapping[str, str], lang: str, depth: int = TLR_DEPTH
) -> float | None:
    """TLR of a topic in ``lang``: recall of relevant documents in other languages; none without any."""
    relevant = {doc_id for doc_id, level in judged.items() if level > 0 and langs.get(doc_id, lang) != lang}
    return len(relevant & set(doc_ids[:depth])) / len(relevant) if relevant else None


def preference(doc_ids: Sequence[str], judged: Judged, langs: Mapping[str, str], lang: str) -> float | None:
    """LPR of a topic: 1 if its first relevant hit is in ``lang``, else 0; none if all relevant ones are, or none is."""
    relevant = {doc_id: langs[doc_id] for doc_id, level in judged.items() if level > 0 and doc_id in langs}
    if lang not in relevant.values() or set(relevant.values()) == {lang}:
        return None
    return float(next((relevant[doc_id] == lang for doc_id in doc_ids if doc_id in relevant), False))


def own_language_share(langs: Sequence[str], lang: str, depth: int) -> float:
    """Share of the first ``depth`` hits, (n,) ``langs``, best first, that are in ``lang``; 0 without hits."""
    first_langs = list(langs[:depth])
    return first_langs.count(lang) / len(first_langs) if first_langs else 0.0


def relevant_by_language(
    rankings: Mapping[str, Sequence[str]], relevance: Mapping[str, Judged], langs: Mapping[str, str], depth: int = DEPTH
) -> dict[str, RelevantCounts]:
    """Count relevant documents by language, also in the first ``depth``; documents without a language don't count."""
    retrieved: Counter[str] = Counter()
    relevant: Counter[str] = Counter()
    for qid, judged in relevance.items():
        top_ids = set(rankings.get(qid, ())[:depth])
        relevant_ids = [doc_id for doc_id, level in judged.items() if level > 0 and doc_id in langs]
        relevant.update(langs[doc_id] for doc_id in relevant_ids)
        retrieved.update(langs[doc_id] for doc_id in relevant_ids if doc_id in top_ids)
    return {lang: RelevantCounts(retrieved[lang], relevant[lang]) for lang in sorted(relevant)}


def peer(doc_ids: Sequence[str], judged: Judged, langs: Mapping[str, str], *, depth: int = DEPTH) -> float:
    """Probability of equal expected rank of one topic: 1 fair … 0 unfair (PEER, Yang et al. 2024).

    PEER is the mean over the levels of relevance: the p of a Kruskal–Wallis test that positions don't depend on
    language; documents beyond ``depth`` share a position. A level gives 1 if all its documents are in one language or
    none was retrieved. Like every test, PEER shows little with few documents. Documents without a language don't count.
    """
    position_of = {doc_id: position for position, doc_id in enumerate(doc_ids[:depth], start=1)}
    levels: dict[int, dict[str, list[int | None]]] = {}
    for doc_id, level in judged.items():
        if level > 0 and doc_id in langs:
            levels.setdefault(level, {}).setdefault(langs[doc_id], []).append(position_of.get(doc_id))
    return float(np.mean([_equal_ranks(of_level.values()) for of_level in levels.values()])) if levels else 1.0


def _equal_ranks(groups: Iterable[Sequence[int | None]]) -> float:
    """The p of the Kruskal–Wallis test over positions as ``peer_measure`` 0.0.1 computes it; none: not retrieved.

    H is of positions in the whole ranking. Of n documents u that were not retrieved stand at (2n + u + 1) / 2.
    """
    samples = list(groups)
    positions = [position for sample in samples for position in sample]
    missing = positions.count(None)
    if len(samples) < 2 or missing == len(positions):
        return 1.0
    last = (2 * len(positions) + missing + 1) / 2
    values = [np.array([last if position is None else position for position in sample]) for sample in samples]
    mean = np.concatenate(values).mean()
    between = sum(len(sample) * (sample.mean() - mean) ** 2 for sample in values)
    total = sum(((sample - mean) ** 2).sum() for sample in values)
    if not total:
        return 1.0
    from scipy.stats import chi2  # noqa: PLC0415 - half a second

    return float(chi2.sf((len(positions) - 1) * between / total, len(samples) - 1))
