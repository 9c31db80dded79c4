"""The map of a migration: how it is learnt from documents with vectors of both encoders, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, Document, FloatArray, unit_rows
from encoders.maps.lca import LCA, source_path
from encoders.maps.mates import Mates, mates
from encoders.maps.ridge import RIDGES, Aligned

Kind = Literal["concepts", "titles"]

FEWEST = 50
"""Documents that a map is learnt from, or queries that concepts answer, at least."""
_HELD_OUT = 5


@dataclass(frozen=True)
class Both:
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
class Worth:
    """How well pseudo-queries of held-out documents find what answers them among these: mean reciprocal ranks.

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
class Way:
    """How a map is learnt.

    Attributes:
        ridge: in spreads.
        back: as the transpose of the map from new vectors to old, and not as the map from old to new: which of them
            ranks better depends on which encoder says more.
    """

    ridge: float
    back: bool


_Fit = Callable[[Way], FloatArray]
"""Documents' weights, by the way they are learnt."""


def learnt(both: Mapping[str, Both], seen: Mapping[str, BoolArray]) -> _Fit:
    """Documents' weights from old vectors to new, each language's means taken out, by the way they are learnt."""
    first = next(iter(both.values()))
    aligned = Aligned({"old": first.old.shape[1], "new": first.new.shape[1]})
    for lang, one in both.items():
        passages = one.old_passages, one.new_passages, seen[lang][one.passages_of]
        for old, new, taught in ((one.old, one.new, seen[lang]), passages):
            rows = taught & _there(old) & _there(new)
            aligned.add({"old": _centred(old, rows)[rows], "new": _centred(new, rows)[rows]})
    paths = {side: source_path(aligned, side) for side in ("old", "new")}

    def fit(way: Way) -> FloatArray:
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


def _groups(one: Both) -> list[str]:
    """What each document is about: its concept, or nothing but itself."""
    concepts = [document.fields.get("concept") for document in one.documents]
    return [
        f"document {document.doc_id}" if concept in (None, "") else f"concept {concept}"
        for document, concept in zip(one.documents, concepts, strict=True)
    ]


def chosen(both: Mapping[str, Both], seed: int) -> tuple[Way, Mates, Worth]:
    """The way that held-out pseudo-queries find most by, and what it is worth; a fifth of the concepts is held out."""
    groups = {lang: _groups(one) for lang, one in both.items()}
    every = sorted({group for some in groups.values() for group in some})
    held_out = set(np.random.default_rng(seed).permutation(every)[: len(every) // _HELD_OUT].tolist())
    seen = {lang: np.array([group not in held_out for group in some]) for lang, some in groups.items()}
    fit = learnt(both, seen)

    def unseen(name: str) -> FloatArray:
        return np.concatenate([_centred(getattr(one, name), seen[lang])[~seen[lang]] for lang, one in both.items()])

    old, new, old_asked, new_asked = map(unseen, ("old", "new", "old_queries", "new_queries"))
    known = [(_there(one.old_queries) & _there(one.new_queries))[~seen[lang]] for lang, one in both.items()]
    away = {lang: [group for group in some if group in held_out] for lang, some in groups.items()}
    asking = _Asking.of(away).only(np.concatenate(known))
    tried = {
        way: asking.found(new_asked, old @ fit(way)) for way in (Way(r, back=b) for b in (False, True) for r in RIDGES)
    }
    way = max(tried, key=lambda one: (round(tried[one], 4), one.ridge))
    worth = Worth(
        asking.found(old_asked, old), asking.found(new_asked, new), tried[way], int(asking.there.sum()), asking.kind
    )
    return way, mates(new, old @ fit(way)), worth


@dataclass(frozen=True)
class _Asking:
    """Pseudo-queries of some documents and what answers each: the others of its concept, or its own document.

    Attributes:
        relevant: (n, n) documents that answer a query.
        counted: (n, n) documents that are ranked for it.
        there: (n,) queries that can be asked and answered.
        kind: ``concepts`` or ``titles``.
    """

    relevant: BoolArray
    counted: BoolArray
    there: BoolArray
    kind: Kind

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[str]]) -> _Asking:
        """Of documents' groups by language; own documents where too few have a mate in another language."""
        named = np.array([group for some in groups.values() for group in some])
        langs = np.repeat(list(groups), [len(some) for some in groups.values()])
        own = np.eye(len(named), dtype=np.bool_)
        elsewhere: BoolArray = np.equal.outer(named, named) & np.not_equal.outer(langs, langs)
        if _there(elsewhere).sum() >= FEWEST:
            return cls(elsewhere, ~own, _there(elsewhere), "concepts")
        return cls(own, np.ones_like(own), np.ones(len(named), dtype=np.bool_), "titles")

    def only(self, asked: BoolArray) -> _Asking:
        """Without the queries that one of the encoders knows nothing of."""
        return replace(self, there=self.there & asked)

    def found(self, queries: FloatArray, documents: FloatArray) -> float:
        """Mean reciprocal rank of the first that answers."""
        scores = np.where(self.counted, unit_rows(queries) @ unit_rows(documents).T, np.float32(-np.inf))
        best = np.where(self.relevant, scores, np.float32(-np.inf)).max(axis=1, initial=-np.inf)
        places = 1 + ((scores >= best[:, None]) & ~self.relevant).sum(axis=1)[self.there]
        return float((1.0 / places).mean()) if len(places) else 0.0
