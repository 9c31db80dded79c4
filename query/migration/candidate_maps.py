"""Learn the map of a migration from documents with vectors of both encoders, and measure its ranking quality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, Document, FloatArray, unit_rows
from encoders.maps.lca import LCA, ridge_path
from encoders.maps.mates import MateScores, mates
from encoders.maps.ridge import RIDGES, AlignedMoments

AnswerKind = Literal["concepts", "titles"]

FEWEST = 50
"""Minimum documents to learn a map from, and minimum queries with an answer by concept to use concepts as answers."""
_HELD_OUT = 5
_MOST = 2000
_BLOCK = 256


@dataclass(frozen=True)
class PairedSample:
    """Documents of one language with vectors of both encoders, and pseudo-queries by both.

    Attributes:
        old: (n, dim) vectors of the old encoder, as the store has them.
        new: (n, new dim) vectors of the new encoder.
        old_queries: (n, dim) the documents' pseudo-queries by the old encoder; a zero row if a document has none.
        new_queries: (n, new dim) the same pseudo-queries by the new encoder.
        passages_of: (p,) row of each passage's document.
    """

    documents: Sequence[Document]
    old: FloatArray
    new: FloatArray
    old_queries: FloatArray
    new_queries: FloatArray
    passages_of: npt.NDArray[np.intp]
    old_passages: FloatArray
    new_passages: FloatArray


@dataclass(frozen=True)
class MapQuality:
    """Mean reciprocal ranks of the answers to held-out pseudo-queries, among all documents of the sample.

    Attributes:
        old: old queries, old vectors: the collection as it is.
        new: new queries, new vectors: what encoding every document again would give.
        mapped: new queries, old vectors through the map: what migrating gives.
        kind: what answers a query: ``concepts``: documents of its concept in another language; ``titles``: the query's
            own document.
    """

    old: float
    new: float
    mapped: float
    queries: int
    kind: AnswerKind

    @property
    def kept(self) -> float:
        """The map's mean reciprocal rank as a share of the one that encoding every document again would give."""
        return self.mapped / self.new if self.new else 0.0

    @property
    def pays(self) -> bool:
        """Whether migrating ranks better than staying."""
        return self.mapped > self.old


@dataclass(frozen=True)
class MapRecipe:
    """How a map is learnt.

    Attributes:
        ridge: the penalty, in units of the vectors' spread.
        back: whether the map is the transpose of the map from new vectors to old instead of the map from old vectors
            to new. Which of the two ranks better depends on which encoder says more.
    """

    ridge: float
    back: bool


_Fit = Callable[[MapRecipe], FloatArray]
"""Learns the documents' weights by a recipe."""


def map_learner(samples: Mapping[str, PairedSample], seen: Mapping[str, BoolArray]) -> _Fit:
    """Return the function that learns weights from old to new document vectors by a recipe.

    Each language's means are taken out; ``seen`` has for each language whether each of its (n,) documents is learnt
    from.
    """
    first = next(iter(samples.values()))
    moments = AlignedMoments({"old": first.old.shape[1], "new": first.new.shape[1]})
    for lang, sample in samples.items():
        passages = sample.old_passages, sample.new_passages, seen[lang][sample.passages_of]
        for old, new, training in ((sample.old, sample.new, seen[lang]), passages):
            rows = training & _nonzero(old) & _nonzero(new)
            moments.add({"old": _centred(old, rows)[rows], "new": _centred(new, rows)[rows]})
    paths = {side: ridge_path(moments, side) for side in ("old", "new")}

    def fit(recipe: MapRecipe) -> FloatArray:
        if recipe.back:
            return LCA(recipe.ridge).fit_moments(moments, "new", "old", paths["new"]).weights_.T.astype(np.float32)
        return LCA(recipe.ridge).fit_moments(moments, "old", "new", paths["old"]).weights_.astype(np.float32)

    return fit


def _centred(rows: FloatArray, seen: BoolArray) -> FloatArray:
    """Rows without the mean of the seen rows that are not zero."""
    known = rows[seen & _nonzero(rows)]
    return np.asarray(rows - known.mean(axis=0), dtype=np.float32) if len(known) else rows


def _nonzero(rows: FloatArray | BoolArray) -> BoolArray:
    """(n,) whether each row has a number that is not zero."""
    return np.asarray(rows.any(axis=1), dtype=np.bool_)


def _groups(sample: PairedSample) -> list[str]:
    """(n,) each document's concept; a document without a concept is a group by itself."""
    concepts = [document.fields.get("concept") for document in sample.documents]
    return [
        f"document {document.doc_id}" if concept in (None, "") else f"concept {concept}"
        for document, concept in zip(sample.documents, concepts, strict=True)
    ]


def choose_recipe(samples: Mapping[str, PairedSample], seed: int) -> tuple[MapRecipe, MateScores, MapQuality]:
    """Return the recipe that ranks held-out pseudo-queries best, and its quality.

    A fifth of the concepts is held out, of at most 2,000 documents. Every second held-out concept chooses the recipe;
    the others measure its quality. All documents of the sample are ranked.

    Returns:
        the recipe; how well held-out documents' new vectors find their old ones through the map; the recipe's quality.
    """
    groups = {lang: _groups(sample) for lang, sample in samples.items()}
    if len({group for names in groups.values() for group in names}) < 2 * _HELD_OUT:  # categories, not concepts
        groups = {lang: [document.doc_id for document in sample.documents] for lang, sample in samples.items()}
    held_out = _held_out([group for names in groups.values() for group in names], seed)
    halves = {group: number % 2 for number, group in enumerate(held_out)}
    seen = {lang: np.array([group not in halves for group in names]) for lang, names in groups.items()}
    fit = map_learner(samples, seen)

    def centred(field: str) -> FloatArray:
        return np.concatenate([_centred(getattr(sample, field), seen[lang]) for lang, sample in samples.items()])

    old, new, old_queries, new_queries = map(centred, ("old", "new", "old_queries", "new_queries"))
    known = np.concatenate([_nonzero(sample.old_queries) & _nonzero(sample.new_queries) for sample in samples.values()])
    half = np.array([halves.get(group, -1) for names in groups.values() for group in names])
    held_out_queries = _AnsweredQueries.of(groups, half >= 0)
    choosing, reporting = (held_out_queries.only(known & (half == number)) for number in (0, 1))
    ranks = {
        recipe: choosing.reciprocal_rank(new_queries, old @ fit(recipe))
        for recipe in (MapRecipe(ridge, back=back) for back in (False, True) for ridge in RIDGES)
    }
    best = max(ranks, key=lambda recipe: (round(ranks[recipe], 4), recipe.ridge))
    mapped = old @ fit(best)
    quality = MapQuality(
        reporting.reciprocal_rank(old_queries, old),
        reporting.reciprocal_rank(new_queries, new),
        reporting.reciprocal_rank(new_queries, mapped),
        len(reporting.rows),
        held_out_queries.kind,
    )
    return best, mates(new[half == 1], mapped[half == 1]), quality


def _held_out(groups: Sequence[str], seed: int) -> list[str]:
    """A fifth of the documents' groups in random order, as many as have 2,000 documents; the first two always stay."""
    counts = Counter(groups)
    shuffled = np.random.default_rng(seed).permutation(sorted(counts)).tolist()
    fifth = shuffled[: len(shuffled) // _HELD_OUT]
    totals = np.cumsum([counts[group] for group in fifth])
    return [group for group, total in zip(fifth, totals, strict=True) if total <= max(_MOST, totals[:2].max())]


@dataclass(frozen=True)
class _AnsweredQueries:
    """Pseudo-queries of documents, each answered by the other documents of its concept or by its own document.

    Attributes:
        groups: (n,) number of each document's group: its concept, or itself.
        langs: (n,) number of each document's language.
        rows: (q,) rows of the documents whose pseudo-queries are asked.
        kind: what answers a query, ``concepts`` or ``titles``.
    """

    groups: npt.NDArray[np.intp]
    langs: npt.NDArray[np.intp]
    rows: npt.NDArray[np.intp]
    kind: AnswerKind

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[str]], eligible: BoolArray) -> _AnsweredQueries:
        """Queries of the (n,) eligible documents, answered by concept.

        They are answered by their own documents if too few have a mate in another language. ``groups`` are those of
        all documents, by language.
        """
        numbers = np.unique([group for names in groups.values() for group in names], return_inverse=True)[1]
        langs = np.repeat(np.arange(len(groups)), [len(names) for names in groups.values()])
        sizes = np.bincount(numbers)
        sizes_by_lang = np.zeros((len(groups), len(sizes)), dtype=np.intp)
        np.add.at(sizes_by_lang, (langs, numbers), 1)
        with_mate = eligible & (sizes[numbers] > sizes_by_lang[langs, numbers])
        if with_mate.sum() >= FEWEST:
            return cls(numbers, langs, np.flatnonzero(with_mate), "concepts")
        return cls(numbers, langs, np.flatnonzero(eligible), "titles")

    def only(self, eligible: BoolArray) -> _AnsweredQueries:
        """The queries of those of the (n,) documents that are eligible."""
        return replace(self, rows=self.rows[eligible[self.rows]])

    def reciprocal_rank(self, queries: FloatArray, documents: FloatArray) -> float:
        """Mean reciprocal rank of the best answer; an answer that ties with others has the last rank among them."""
        query_rows, document_rows = unit_rows(queries[self.rows]), unit_rows(documents)
        ranks = [np.zeros(0)]
        for start in range(0, len(self.rows), _BLOCK):
            rows = self.rows[start : start + _BLOCK, None]
            scores = query_rows[start : start + _BLOCK] @ document_rows.T
            own = rows == np.arange(len(document_rows))
            relevant = own
            if self.kind == "concepts":
                relevant = (self.groups[rows] == self.groups) & (self.langs[rows] != self.langs)
                scores[own] = -np.inf
            best = np.where(relevant, scores, np.float32(-np.inf)).max(axis=1)
            ranks.append(1.0 + ((scores >= best[:, None]) & ~relevant).sum(axis=1))
        return float((1.0 / np.concatenate(ranks)).mean()) if len(self.rows) else 0.0
