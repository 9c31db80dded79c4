"""LAWDR's alignment tables, computed: recall of each variant on WMT16 and WMT19, and the language probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.moments import Moments
from query.alignment.matching import Pairs
from query.alignment.mining import AlignmentPlan, mine
from query.alignment.side import Side
from query.fitting.separability import RankChoice, accuracy_by_component, smallest_rank
from query.reproduce.lawdr_data import match_urls

_SENTENCES = 2_000
"""Passages of a language that the probe looks at."""


@dataclass(frozen=True)
class Variant:
    """A row of the paper's tables.

    Attributes:
        debiased: whether the language's part is taken out.
        margin: whether pairs are matched by margin; by cosine otherwise.
    """

    debiased: bool
    margin: bool

    @property
    def plan(self) -> AlignmentPlan:
        """How the paper aligns: documents' vectors alone, and nothing learnt; debiasing was done over all sites."""
        return AlignmentPlan(margin="ratio" if self.margin else "absolute", debias=None, passages=False, rounds=0)


VARIANTS = tuple(Variant(debiased, margin) for debiased in (False, True) for margin in (False, True))

PAPER = {
    "WMT16": dict(zip(VARIANTS, (17.6, 18.5, 88.4, 88.8), strict=True)),
    "WMT16 with URLs": dict(zip(VARIANTS, (64.0, 64.4, 94.0, 94.8), strict=True)),
    "WMT19": dict(zip(VARIANTS, (8.5, 16.1, 90.0, 91.0), strict=True)),
}
"""Recall in per cent of weighted sentence vectors of XLM, mean pooling: the paper's best (tables 3 and 4)."""

PAPER_PROBE = (97.3, 100.0, 53.5)
"""Accuracy in per cent with XLM, mean pooling: vectors, language component, semantic component (table 1; m = 32)."""


@dataclass(frozen=True)
class Recalls:
    """Recall by variant, in per cent, of one task.

    Attributes:
        task: a key of ``PAPER``.
        recall: by variant.
        pairs: true pairs, or pairs of languages for WMT19.
    """

    task: str
    recall: dict[Variant, float]
    pairs: int


@dataclass(frozen=True)
class Probe:
    """The language probe on passages' vectors.

    Attributes:
        choice: the paper's rule.
        rank: the rank probed: the rule's, or the largest tried.
        accuracies: on the vectors, on their language component, and on what is left, in per cent.
        languages: which.
    """

    choice: RankChoice
    rank: int
    accuracies: tuple[float, float, float]
    languages: Sequence[str]


def wmt16(
    sides: Sequence[tuple[Side, Side]], gold: AbstractSet[tuple[str, str]], langs: tuple[str, str], rank: int
) -> list[Recalls]:
    """Recall over all sites, pairs being looked for within each, without URLs and with those matched first.

    Args:
        sides: of each site.
        gold: true pairs of URLs.
        langs: the two languages.
        rank: of the language subspace that is taken out; 0: the mean.

    Raises:
        BadInput: no true pair is of these sites.
    """
    known = {url for pair in sides for side in pair for url in side.doc_ids}
    if not any(first in known and second in known for first, second in gold):
        raise BadInput("no true pair is of these sites; see that the pairs' file belongs to them, English URLs first")
    each = (_without_bias([pair[which] for pair in sides], rank) for which in (0, 1))
    debiased = list(zip(*each, strict=True))
    by_url = [match_urls(first.doc_ids, second.doc_ids, langs) for first, second in sides]
    tables = []
    for task, stated in (("WMT16", None), ("WMT16 with URLs", by_url)):
        recall = {}
        for variant in VARIANTS:
            found: set[tuple[str, str]] = set()
            for at, (first, second) in enumerate(debiased if variant.debiased else sides):
                ready = stated[at] if stated else []
                found |= {*ready, *_paired(*_rest(first, second, ready), variant)}
            recall[variant] = 100 * len(found & gold) / len(gold)
        tables.append(Recalls(task, recall, len(gold)))
    return tables


def wmt19(corpora: Iterable[Mapping[str, Side]], rank: int) -> Recalls:
    """Recall on news commentary, the mean over all pairs of languages of each corpus; a true pair shares its concept.

    Args:
        corpora: documents by language.
        rank: of the language subspace that is taken out; 0: the mean.

    Raises:
        BadInput: no two languages share a document.
    """
    recalls: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    for sides in corpora:
        debiased = {lang: _without_bias([side], rank)[0] for lang, side in sides.items()}
        for a, b in combinations(sides, 2):
            true = len(set(sides[a].values) & set(sides[b].values))
            for variant in VARIANTS if true else ():
                first, second = (
                    (debiased if variant.debiased else sides)[a],
                    (debiased if variant.debiased else sides)[b],
                )
                pairs = mine(first, second, variant.plan).pairs
                recalls[variant].append(100 * _shared(pairs, first, second) / true)
    if not any(recalls.values()):
        raise BadInput("no two languages share a document; translations have files of the same name")
    means = {variant: float(np.mean(values)) for variant, values in recalls.items()}
    return Recalls("WMT19", means, len(recalls[VARIANTS[0]]))


def _shared(pairs: Pairs, first: Side, second: Side) -> int:
    found = zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True)
    return sum(first.values[row] == second.values[col] for row, col in found)


def probe(sides: Iterable[tuple[str, Side]], seed: int = 0) -> Probe:
    """Tell languages apart by passages' vectors, before and after the paper's rule (table 1, section 10.1).

    Args:
        sides: language and documents, any number of each.
        seed: of the draws.

    Raises:
        BadInput: there are fewer than two languages, or too few passages.
    """
    passages: dict[str, list[FloatArray]] = {}
    for lang, side in sides:
        passages.setdefault(lang, []).append(_drawn(side, seed))
    vectors, langs = [], []
    chance = np.random.default_rng(seed)
    for lang, parts in sorted(passages.items()):
        rows = np.concatenate(parts)
        vectors.append(rows[chance.permutation(len(rows))[:_SENTENCES]])
        langs += [lang] * len(vectors[-1])
    every = np.concatenate(vectors)
    choice = smallest_rank(every, langs, seed=seed)
    rank = choice.rank or max(choice.accuracies)
    whole, inside, outside = accuracy_by_component(every, langs, rank, seed)
    return Probe(choice, rank, (100 * whole, 100 * inside, 100 * outside), sorted(passages))


def _drawn(side: Side, seed: int) -> FloatArray:
    rows = side.passages.vectors
    some = np.random.default_rng(seed).permutation(len(rows))[:_SENTENCES]
    return unit_rows(rows[np.sort(some)])


def _without_bias(sides: Sequence[Side], rank: int) -> list[Side]:
    """A language's documents without what all of them share, over all sites (LAWDR, section 3.2)."""
    moments = Moments(sides[0].vectors.shape[1])
    for side in sides:
        moments.add(side.vectors)
    mean, subspace = moments.mean.astype(np.float32), moments.subspace(rank)
    changed = []
    for side in sides:
        shared = side.vectors @ subspace.T @ subspace if rank else mean
        changed.append(replace(side, vectors=unit_rows((side.vectors - shared).astype(np.float32, copy=False))))
    return changed


def _rest(first: Side, second: Side, ready: Sequence[tuple[str, str]]) -> tuple[Side, Side]:
    taken = {url for pair in ready for url in pair}
    left = (
        np.array([at for at, url in enumerate(side.doc_ids) if url not in taken], np.int64) for side in (first, second)
    )
    kept_first, kept_second = left
    return first.only(kept_first), second.only(kept_second)


def _paired(first: Side, second: Side, variant: Variant) -> list[tuple[str, str]]:
    pairs = mine(first, second, variant.plan).pairs
    found = zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True)
    return [(first.doc_ids[row], second.doc_ids[col]) for row, col in found]
