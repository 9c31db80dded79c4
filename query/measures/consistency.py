"""Consistency: how alike the rankings of one topic are that was asked in several languages."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

import numpy as np

RBO = "RBO"
"""Name of the measure: a topic's mean rank-biased overlap with the same topic in the other languages."""
PERSISTENCE = 0.9
"""The p of RBO: the first ten hits have 86 % of the weight."""

Overlaps = Mapping[tuple[str, str], Mapping[str, float]]
"""RBO by pair of topic languages, and by topic id."""


def rank_biased_overlap(first: Sequence[str], second: Sequence[str], p: float = PERSISTENCE) -> float:
    """RBO of two rankings of ids: 1 the same … 0 nothing in common, or a ranking is empty.

    Extrapolated, also from rankings of unequal lengths: Webber, Moffat and Zobel, *A Similarity Measure for Indefinite
    Rankings*, ACM TOIS 28(4), 2010, eq. 32.
    """
    shorter, longer = sorted((first, second), key=len)
    if not shorter:
        return 0.0
    ranks = {doc_id: rank for rank, doc_id in enumerate(shorter, start=1)}
    met = [max(rank, ranks[doc_id]) for rank, doc_id in enumerate(longer, start=1) if doc_id in ranks]
    common = np.cumsum(np.bincount(met, minlength=len(longer) + 1))[1:]  # ids that both have down to each depth
    depths, s = np.arange(1, len(longer) + 1), len(shorter)
    agreement = common / depths + common[s - 1] * np.maximum(depths - s, 0) / (s * depths)
    weights = (1 - p) / p * p**depths
    rest = (common[-1] - common[s - 1]) / len(longer) + common[s - 1] / s
    return float(weights @ agreement + rest * p ** len(longer))


def overlaps(rankings: Mapping[str, Mapping[str, Sequence[str]]]) -> Overlaps:
    """RBO of each topic's ``rankings``, by topic language and topic id, for each two languages that have the topic."""
    pairs = {
        langs: {qid: rank_biased_overlap(first[qid], second[qid]) for qid in sorted(first.keys() & second.keys())}
        for langs in combinations(rankings, 2)
        for first, second in [[rankings[lang] for lang in langs]]
    }
    return {langs: by_topic for langs, by_topic in pairs.items() if by_topic}


def consistency(by_pair: Overlaps) -> dict[str, float]:
    """Mean RBO of a topic's ranking with those of its other languages, by ``qid.lang``."""
    values: dict[str, list[float]] = {}
    for langs, by_topic in by_pair.items():
        for qid, value in by_topic.items():
            for lang in langs:
                values.setdefault(f"{qid}.{lang}", []).append(value)
    return {version: fmean(of_version) for version, of_version in values.items()}


def pair_means(by_pair: Overlaps) -> dict[tuple[str, str], float]:
    """Mean RBO over topics by pair of languages, in both orders."""
    means = {langs: fmean(by_topic.values()) for langs, by_topic in by_pair.items()}
    return means | {(other, lang): mean for (lang, other), mean in means.items()}
