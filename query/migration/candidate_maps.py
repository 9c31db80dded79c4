"""Learn the map of a migration from documents with vectors of both encoders, and measure its ranking quality."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, Document, FloatArray
from encoders.maps.lca import LCA, ridge_path
from encoders.maps.mate_scores import mates
from encoders.maps.ridge_path import RIDGES, AlignedMoments

_HELD_OUT = 5


@dataclass(frozen=True)
class PairedSample:
    """Documents with vectors of both encoders, and their pseudo-queries by both."""

    documents: Sequence[Document]
    old: FloatArray  # (n, dim) vectors of the old encoder, as the store has them
    new: FloatArray  # (n, new dim) vectors of the new encoder
    old_queries: FloatArray  # (n, dim) pseudo-queries by the old encoder; a zero row if a document has none
    new_queries: FloatArray  # (n, new dim) the same pseudo-queries by the new encoder
    passages_of: npt.NDArray[np.intp]  # (p,) row of each passage's document
    old_passages: FloatArray
    new_passages: FloatArray

    @cached_property
    def langs(self) -> npt.NDArray[np.str_]:
        """(n,) languages of the documents."""
        return np.array([document.lang for document in self.documents])


@dataclass(frozen=True)
class MapQuality:
    """Mean reciprocal ranks of the documents of held-out pseudo-queries, among all documents of the sample."""

    old: float  # old queries, old vectors: the collection as it is
    new: float  # new queries, new vectors: what encoding every document again would give
    mapped: float  # new queries, old vectors through the map: what migrating gives
    queries: int  # number of pseudo-queries

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
    """How a map is learnt."""

    ridge: float  # the penalty, in units of the vectors' spread
    # whether the map is the transpose of the map from new vectors to old instead of the map from old vectors to new.
    # Which of the two ranks better depends on which encoder says more.
    back: bool


def learn_map(sample: PairedSample, seed: int) -> tuple[FloatArray, MapRecipe, MapQuality]:
    """Learn a map of old vectors by the recipe that ranks held-out pseudo-queries best; with its quality.

    A fifth of the concepts is held out; every second of them chooses the recipe, the others measure its quality. An old
    vector without its language's mean is multiplied by the (dim, new dim) weights from the right.
    """
    concepts = [str(document.fields.get("concept") or f"document {document.doc_id}") for document in sample.documents]
    if len(set(concepts)) < 2 * _HELD_OUT:  # categories, not concepts
        concepts = [document.doc_id for document in sample.documents]
    shuffled = np.random.default_rng(seed).permutation(sorted(set(concepts)))
    held_out = shuffled[: len(shuffled) // _HELD_OUT]
    choosing, measuring = np.isin(concepts, held_out[::2]), np.isin(concepts, held_out[1::2])
    seen = ~(choosing | measuring)
    asked = sample.old_queries.any(axis=1) & sample.new_queries.any(axis=1)
    choosing, measuring = choosing & asked, measuring & asked
    fit = map_learner(sample, seen)
    old, new, old_queries, new_queries = (
        _centred(rows, sample.langs, seen) for rows in (sample.old, sample.new, sample.old_queries, sample.new_queries)
    )
    recipes = [MapRecipe(ridge, back) for back in (False, True) for ridge in RIDGES]
    ranks = {recipe: _reciprocal_rank(new_queries, old @ fit(recipe), choosing) for recipe in recipes}
    best = max(recipes, key=lambda recipe: (round(ranks[recipe], 4), recipe.ridge))
    quality = MapQuality(
        _reciprocal_rank(old_queries, old, measuring),
        _reciprocal_rank(new_queries, new, measuring),
        _reciprocal_rank(new_queries, old @ fit(best), measuring),
        int(measuring.sum()),
    )
    return map_learner(sample, np.ones_like(seen))(best), best, quality


def map_learner(sample: PairedSample, seen: BoolArray) -> Callable[[MapRecipe], FloatArray]:
    """The function that learns weights by a recipe from those of the (n,) documents that are seen."""
    moments = AlignedMoments({"old": sample.old.shape[1], "new": sample.new.shape[1]})
    for old, new, of in (
        (sample.old, sample.new, np.arange(len(seen))),
        (sample.old_passages, sample.new_passages, sample.passages_of),
    ):
        rows, langs = seen[of] & old.any(axis=1) & new.any(axis=1), sample.langs[of]
        moments.add({"old": _centred(old, langs, rows)[rows], "new": _centred(new, langs, rows)[rows]})
    paths = {side: ridge_path(moments, side) for side in ("old", "new")}

    def fit(recipe: MapRecipe) -> FloatArray:
        source, target = ("new", "old") if recipe.back else ("old", "new")
        weights = LCA(recipe.ridge).fit_moments(moments, source, target, paths[source]).weights_
        return np.asarray(weights.T if recipe.back else weights, dtype=np.float32)

    return fit


def _centred(rows: FloatArray, langs: npt.NDArray[np.str_], seen: BoolArray) -> FloatArray:
    """Rows without the mean of their language's seen rows that are not zero."""
    centred, known = rows.copy(), seen & rows.any(axis=1)
    for lang in np.unique(langs[known]):
        centred[langs == lang] -= rows[known & (langs == lang)].mean(axis=0)
    return centred


def _reciprocal_rank(queries: FloatArray, documents: FloatArray, asked: BoolArray) -> float:
    """Mean reciprocal rank of the documents of the queries that are asked; a document ranks last among ties."""
    answers_first = np.argsort(~asked, kind="stable")
    return mates(queries[asked], documents[answers_first]).mrr if asked.any() else 0.0
