"""The map of a migration: how it is learnt from documents with vectors of both encoders, and what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, Document, FloatArray, unit_rows
from encoders.maps.lca import LCA, source_path
from encoders.maps.mates import Mates, mates
from encoders.maps.ridge import RIDGES, AlignedMoments

Kind = Literal["concepts", "titles"]

FEWEST = 50
"""Documents that a map is learnt from, or queries that concepts answer, at least."""
_HELD_OUT = 5
_MOST = 2000
_BLOCK = 256


@dataclass(frozen=True)
class PairedSample:
    """Documents of one language with vectors of both encoders, and pseudo-queries by both.

    Attributes:
        documents: the documents.
        old: (n, dim) stored vectors.
        new: (n, new dim) by the new encoder.
        old_queries: (n, dim) the documents' pseudo-queries; zero rows where there is none.
        new_queries: (n, new dim) likewise.
        passages_of: (p,) row of the document that each passage is of.
        old_passages: (p, dim) stored vectors of passages.
        new_passages: (p, new dim) by the new encoder, each as a document of its own.
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
    """How well pseudo-queries of held-out documents find what answers them in the sample: mean reciprocal ranks.

    Attributes:
        old: old queries, old vectors: as it is.
        new: new queries, new vectors: what encoding everything again would give.
        mapped: new queries, old vectors through the map: what migrating gives.
        queries: how many were asked.
        kind: ``concepts``: answered by a document of their concept in another language; ``titles``: by their own.
    """

    old: float
    new: float
    mapped: float
    queries: int
    kind: Kind

    @property
    def kept(self) -> float:
        """Share of what encoding again would give that is left."""
        return self.mapped / self.new if self.new else 0.0

    @property
    def pays(self) -> bool:
        """Whether migrating finds more than staying."""
        return self.mapped > self.old


@dataclass(frozen=True)
class MapRecipe:
    """How a map is learnt.

    Attributes:
        ridge: in spreads.
        back: as the transpose of the map from new vectors to old, and not as the map from old to new: which of them
            ranks better depends on which encoder says more.
    """

    ridge: float
    back: bool


_Fit = Callable[[MapRecipe], FloatArray]
"""Documents' weights, by the way they are learnt."""


def learnt(both: Mapping[str, PairedSample], seen: Mapping[str, BoolArray]) -> _Fit:
    """Documents' weights from old vectors to new, each language's means taken out, by the way they are learnt."""
    first = next(iter(both.values()))
    aligned = AlignedMoments({"old": first.old.shape[1], "new": first.new.shape[1]})
    for lang, one in both.items():
        passages = one.old_passages, one.new_passages, seen[lang][one.passages_of]
        for old, new, taught in ((one.old, one.new, seen[lang]), passages):
            rows = taught & _there(old) & _there(new)
            aligned.add({"old": _centred(old, rows)[rows], "new": _centred(new, rows)[rows]})
    paths = {side: source_path(aligned, side) for side in ("old", "new")}

    def fit(way: MapRecipe) -> FloatArray:
        if way.back:
            return LCA(way.ridge).fit_moments(aligned, "new", "old", paths["new"]).weights_.T.astype(np.float32)
        return LCA(way.ridge).fit_moments(aligned, "old", "new", paths["old"]).weights_.astype(np.float32)

    return fit


def _centred(rows: FloatArray, seen: BoolArray) -> FloatArray:
    """Rows without the mean of those that are seen and not zero."""
    known = rows[seen & _there(rows)]
    return np.asarray(rows - known.mean(axis=0), dtype=np.float32) if len(known) else rows


def _there(rows: FloatArray | BoolArray) -> BoolArray:
    """Rows that are not nothing."""
    return np.asarray(rows.any(axis=1), dtype=np.bool_)


def _groups(one: PairedSample) -> list[str]:
    """What each document is about: its concept, or nothing but itself."""
    concepts = [document.fields.get("concept") for document in one.documents]
    return [
        f"document {document.doc_id}" if concept in (None, "") else f"concept {concept}"
        for document, concept in zip(one.documents, concepts, strict=True)
    ]


def chosen(both: Mapping[str, PairedSample], seed: int) -> tuple[MapRecipe, Mates, MapQuality]:
    """The way that held-out pseudo-queries find most by, and what it is worth by others that chose nothing.

    A fifth of the concepts is held out, of at most 2,000 documents. Every second of them chooses the way, the others
    say what it is worth; all documents of the sample are ranked.
    """
    groups = {lang: _groups(one) for lang, one in both.items()}
    if len({group for some in groups.values() for group in some}) < 2 * _HELD_OUT:  # categories, not concepts
        groups = {lang: [document.doc_id for document in one.documents] for lang, one in both.items()}
    held_out = _held_out([group for some in groups.values() for group in some], seed)
    halves = {group: number % 2 for number, group in enumerate(held_out)}
    seen = {lang: np.array([group not in halves for group in some]) for lang, some in groups.items()}
    fit = learnt(both, seen)

    def centred(name: str) -> FloatArray:
        return np.concatenate([_centred(getattr(one, name), seen[lang]) for lang, one in both.items()])

    old, new, old_asked, new_asked = map(centred, ("old", "new", "old_queries", "new_queries"))
    known = np.concatenate([_there(one.old_queries) & _there(one.new_queries) for one in both.values()])
    half = np.array([halves.get(group, -1) for some in groups.values() for group in some])
    asking = _Asking.of(groups, half >= 0)
    choosing, reporting = (asking.only(known & (half == one)) for one in (0, 1))
    tried = {
        way: choosing.found(new_asked, old @ fit(way))
        for way in (MapRecipe(r, back=b) for b in (False, True) for r in RIDGES)
    }
    way = max(tried, key=lambda one: (round(tried[one], 4), one.ridge))
    mapped = old @ fit(way)
    worth = MapQuality(
        reporting.found(old_asked, old),
        reporting.found(new_asked, new),
        reporting.found(new_asked, mapped),
        len(reporting.rows),
        asking.kind,
    )
    return way, mates(new[half == 1], mapped[half == 1]), worth


def _held_out(groups: Sequence[str], seed: int) -> list[str]:
    """A fifth of the groups that documents are of, of no more than 2,000 documents; in random order."""
    counts = Counter(groups)
    every = np.random.default_rng(seed).permutation(sorted(counts)).tolist()
    some = every[: len(every) // _HELD_OUT]
    upto = np.cumsum([counts[group] for group in some])
    return [group for group, end in zip(some, upto, strict=True) if end <= max(_MOST, upto[:2].max())]


@dataclass(frozen=True)
class _Asking:
    """Pseudo-queries of some documents and what answers each: the others of its concept, or its own document.

    Attributes:
        groups: (n,) number of what each document is about.
        langs: (n,) number of its language.
        rows: (q,) documents whose pseudo-queries are asked.
        kind: ``concepts`` or ``titles``.
    """

    groups: npt.NDArray[np.intp]
    langs: npt.NDArray[np.intp]
    rows: npt.NDArray[np.intp]
    kind: Kind

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[str]], asked: BoolArray) -> _Asking:
        """Of documents' groups by language; own documents where too few have a mate in another language.

        Args:
            groups: of all documents, by language.
            asked: (n,) documents whose queries may be asked.
        """
        numbers = np.unique([group for some in groups.values() for group in some], return_inverse=True)[1]
        langs = np.repeat(np.arange(len(groups)), [len(some) for some in groups.values()])
        in_all = np.bincount(numbers)
        here = np.zeros((len(groups), len(in_all)), dtype=np.intp)
        np.add.at(here, (langs, numbers), 1)
        elsewhere = asked & (in_all[numbers] > here[langs, numbers])
        if elsewhere.sum() >= FEWEST:
            return cls(numbers, langs, np.flatnonzero(elsewhere), "concepts")
        return cls(numbers, langs, np.flatnonzero(asked), "titles")

    def only(self, asked: BoolArray) -> _Asking:
        """With queries of some of the documents only, (n,)."""
        return replace(self, rows=self.rows[asked[self.rows]])

    def found(self, queries: FloatArray, documents: FloatArray) -> float:
        """Mean reciprocal rank of the first that answers; one that ties with others has the last place of them."""
        asked, ranked = unit_rows(queries[self.rows]), unit_rows(documents)
        places = [np.zeros(0)]
        for start in range(0, len(self.rows), _BLOCK):
            rows = self.rows[start : start + _BLOCK, None]
            scores = asked[start : start + _BLOCK] @ ranked.T
            own = rows == np.arange(len(ranked))
            relevant = own
            if self.kind == "concepts":
                relevant = (self.groups[rows] == self.groups) & (self.langs[rows] != self.langs)
                scores[own] = -np.inf
            best = np.where(relevant, scores, np.float32(-np.inf)).max(axis=1)
            places.append(1.0 + ((scores >= best[:, None]) & ~relevant).sum(axis=1))
        return float((1.0 / np.concatenate(places)).mean()) if len(self.rows) else 0.0
