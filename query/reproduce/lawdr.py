"""The computation of LAWDR's alignment tables: recall of each variant on WMT16 and WMT19, and the language probe."""

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
"""Greatest number of passages that the probe takes from a side, and from a language."""


@dataclass(frozen=True)
class Variant:
    """A row of the paper's tables.

    Attributes:
        debiased: whether what a language's documents share is taken out of their vectors.
        margin: whether pairs are matched by margin; otherwise by cosine.
    """

    debiased: bool
    margin: bool

    @property
    def plan(self) -> AlignmentPlan:
        """The paper's alignment: by documents' vectors alone, without learnt maps; debiasing is done over all sites."""
        return AlignmentPlan(margin="ratio" if self.margin else "absolute", debias=None, passages=False, rounds=0)


VARIANTS = tuple(Variant(debiased, margin) for debiased in (False, True) for margin in (False, True))

PAPER = {
    "WMT16": dict(zip(VARIANTS, (17.6, 18.5, 88.4, 88.8), strict=True)),
    "WMT16 with URLs": dict(zip(VARIANTS, (64.0, 64.4, 94.0, 94.8), strict=True)),
    "WMT19": dict(zip(VARIANTS, (8.5, 16.1, 90.0, 91.0), strict=True)),
}
"""Recall in per cent of the paper's best encoder, weighted sentence vectors of XLM, mean pooling (tables 3 and 4)."""

PAPER_PROBE = (97.3, 100.0, 53.5)
"""Accuracy in per cent with XLM, mean pooling: vectors, language component, semantic component (table 1; m = 32)."""


@dataclass(frozen=True)
class Recalls:
    """Recall of one task by variant.

    Attributes:
        task: a key of ``PAPER``.
        recall: recall in per cent by variant.
        pairs: number of true pairs, or of pairs of languages for WMT19.
    """

    task: str
    recall: dict[Variant, float]
    pairs: int


@dataclass(frozen=True)
class Probe:
    """The result of the language probe on passages' vectors.

    Attributes:
        choice: result of the paper's rule for the rank.
        rank: the probed rank: the rule's choice, or the largest rank tried.
        accuracies: in per cent on the vectors, on their language component, and on their semantic component.
    """

    choice: RankChoice
    rank: int
    accuracies: tuple[float, float, float]
    languages: Sequence[str]


def wmt16(
    sides: Sequence[tuple[Side, Side]], gold: AbstractSet[tuple[str, str]], langs: tuple[str, str], rank: int
) -> list[Recalls]:
    """Recall over all sites, with pairs within each site, without matching URLs and with matching URLs paired first.

    Args:
        sides: the two sides of each site.
        gold: true pairs of URLs.
        langs: the two languages.
        rank: rank of the language subspace that is taken out; 0: the mean.

    Raises:
        BadInput: no true pair has both URLs in these sites.
    """
    site_urls = {url for pair in sides for side in pair for url in side.doc_ids}
    if not any(first in site_urls and second in site_urls for first, second in gold):
        raise BadInput("no true pair is of these sites; see that the pairs' file belongs to them, English URLs first")
    debiased_by_lang = (_without_bias([pair[index] for pair in sides], rank) for index in (0, 1))
    debiased = list(zip(*debiased_by_lang, strict=True))
    by_url = [match_urls(first.doc_ids, second.doc_ids, langs) for first, second in sides]
    tables = []
    for task, url_pairs in (("WMT16", None), ("WMT16 with URLs", by_url)):
        recall = {}
        for variant in VARIANTS:
            matched: set[tuple[str, str]] = set()
            for site, (first, second) in enumerate(debiased if variant.debiased else sides):
                site_url_pairs = url_pairs[site] if url_pairs else []
                matched |= {*site_url_pairs, *_paired(*_rest(first, second, site_url_pairs), variant)}
            recall[variant] = 100 * len(matched & gold) / len(gold)
        tables.append(Recalls(task, recall, len(gold)))
    return tables


def wmt19(corpora: Iterable[Mapping[str, Side]], rank: int) -> Recalls:
    """Recall on news commentary, the mean over all pairs of languages of each corpus; a true pair shares its concept.

    Args:
        corpora: sides by language of each corpus.
        rank: rank of the language subspace that is taken out; 0: the mean.

    Raises:
        BadInput: no two languages share a document.
    """
    recalls: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    for sides in corpora:
        debiased = {lang: _without_bias([side], rank)[0] for lang, side in sides.items()}
        for a, b in combinations(sides, 2):
            true_pairs = len(set(sides[a].values) & set(sides[b].values))
            for variant in VARIANTS if true_pairs else ():
                variant_sides = debiased if variant.debiased else sides
                first, second = variant_sides[a], variant_sides[b]
                pairs = mine(first, second, variant.plan).pairs
                recalls[variant].append(100 * _shared(pairs, first, second) / true_pairs)
    if not any(recalls.values()):
        raise BadInput("no two languages share a document; translations have files of the same name")
    means = {variant: float(np.mean(values)) for variant, values in recalls.items()}
    return Recalls("WMT19", means, len(recalls[VARIANTS[0]]))


def _shared(pairs: Pairs, first: Side, second: Side) -> int:
    index_pairs = zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True)
    return sum(first.values[row] == second.values[col] for row, col in index_pairs)


def probe(sides: Iterable[tuple[str, Side]], seed: int = 0) -> Probe:
    """Accuracy of telling languages apart by passages' vectors and by their components (table 1, section 10.1).

    Args:
        sides: languages and sides; a language may have several sides.
        seed: seed of the draws.

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
    all_vectors = np.concatenate(vectors)
    choice = smallest_rank(all_vectors, langs, seed=seed)
    rank = choice.rank or max(choice.accuracies)
    whole, inside, outside = accuracy_by_component(all_vectors, langs, rank, seed)
    return Probe(choice, rank, (100 * whole, 100 * inside, 100 * outside), sorted(passages))


def _drawn(side: Side, seed: int) -> FloatArray:
    """A random sample of a side's passages as unit rows, in the order of the passages."""
    rows = side.passages.vectors
    sample = np.random.default_rng(seed).permutation(len(rows))[:_SENTENCES]
    return unit_rows(rows[np.sort(sample)])


def _without_bias(sides: Sequence[Side], rank: int) -> list[Side]:
    """The sides of one language without what the documents of all of its sites share (LAWDR, section 3.2)."""
    moments = Moments(sides[0].vectors.shape[1])
    for side in sides:
        moments.add(side.vectors)
    mean, subspace = moments.mean.astype(np.float32), moments.subspace(rank)
    changed = []
    for side in sides:
        shared = side.vectors @ subspace.T @ subspace if rank else mean
        changed.append(replace(side, vectors=unit_rows((side.vectors - shared).astype(np.float32, copy=False))))
    return changed


def _rest(first: Side, second: Side, url_pairs: Sequence[tuple[str, str]]) -> tuple[Side, Side]:
    """Both sides without the documents that are paired by URL."""
    paired_urls = {url for pair in url_pairs for url in pair}
    free_first, free_second = (
        np.array([position for position, url in enumerate(side.doc_ids) if url not in paired_urls], np.int64)
        for side in (first, second)
    )
    return first.only(free_first), second.only(free_second)


def _paired(first: Side, second: Side, variant: Variant) -> list[tuple[str, str]]:
    pairs = mine(first, second, variant.plan).pairs
    index_pairs = zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True)
    return [(first.doc_ids[row], second.doc_ids[col]) for row, col in index_pairs]
