"""From aligned documents to a mapping: the maps a calibration ranks with, their ridge chosen on held-out concepts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from encoders.document import EncoderSpec, FloatArray
from encoders.errors import BadInput
from encoders.maps.lca import LCA, source_path
from encoders.maps.lcc import LCC
from encoders.maps.mates import Mates, mates, mean
from encoders.maps.networks import NETWORKS, Networks
from encoders.maps.ridge import RIDGES, AlignedMoments, RidgePath
from encoders.maps.space import ANY, SpaceMaps
from encoders.methods.combined import refuse_combined
from encoders.wording import counted
from indexer.training.aligned_documents import ByConcept

Linear = Literal["lca", "lcc"]

PAIRWISE = 12
"""Languages up to which each pair has a map of its own; more go through a pivot."""
_HELD_OUT = 5
_FEWEST = 10
_MANY = 20
"""Held-out concepts from which on mate retrieval of them says something."""


@dataclass(frozen=True)
class MappingPlan:
    """How to learn.

    Attributes:
        method: ``lca`` or ``lcc``.
        ridge: in spreads; none: chosen on held-out concepts; 0: the pseudo-inverse.
        stay: shrink LCA's maps towards leaving a vector as it is.
        pivot: language that LCA's maps go through; empty: a map a pair up to ``PAIRWISE`` languages.
        dimensions: of LCC's codes; principal axes that LCA cuts to, none: all.
        seed: of the held-out concepts.
    """

    method: Linear = "lca"
    ridge: float | None = None
    stay: bool = True
    pivot: str = ""
    dimensions: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class LearntMaps:
    """Maps, and what they are worth.

    Attributes:
        maps: learnt from all concepts.
        ridge: in spreads.
        tried: mate retrieval of held-out concepts by ridge.
        centred: the same of vectors that lost their language's mean and nothing else.
        pairs: concepts that each pair of languages shares that a map was learnt for, (of queries, of documents).
        remarks: what should be known.
    """

    maps: SpaceMaps
    ridge: float
    tried: dict[float, Mates]
    centred: Mates
    pairs: dict[tuple[str, str], int]
    remarks: list[str]


def learn(documents: ByConcept, spec: EncoderSpec, plan: MappingPlan) -> LearntMaps:
    """Learn the maps of a mapping from all concepts, the ridge from a fifth of them that are held out before.

    Args:
        documents: of two languages or more.
        spec: what encoded them.
        plan: how.

    Raises:
        BadInput: languages share too few concepts, the pivot is not among them, or vectors are of several encoders.
    """
    refuse_combined(spec.name)
    langs = list(documents.vectors)
    if plan.pivot and plan.pivot not in langs:
        raise BadInput(f"the pivot {plan.pivot!r} is none of the languages learnt; they are {', '.join(langs)}")
    pivot = plan.pivot or ("" if len(langs) <= PAIRWISE else max(langs, key=lambda lang: len(documents.vectors[lang])))
    every = sorted({concept for some in documents.vectors.values() for concept in some})
    held_out = set(np.random.default_rng(plan.seed).permutation(every)[: len(every) // _HELD_OUT].tolist())
    seen, unseen = _without(documents, held_out), _without(documents, set(every) - held_out)
    needed = [pair for pair in permutations(langs, 2) if not pivot or pivot in pair]
    pairs = {pair: len(_shared(documents, *pair)) for pair in needed}
    if min(pairs.values()) < _FEWEST:
        least = min(pairs, key=pairs.__getitem__)
        raise BadInput(
            f"{least[0]} and {least[1]} share {counted(pairs[least], 'concept')}, and {_FEWEST} are needed; "
            "leave one out with --languages, or give more documents"
        )
    ridges = RIDGES if plan.ridge is None else (plan.ridge,)
    fit = _fitting(seen, plan, pivot)
    tried = {ridge: _worth(fit(ridge), seen, unseen) for ridge in ridges}
    ridge = max(tried, key=lambda one: (round(tried[one].mrr, 4), one))
    centred = _worth(_Maps({}, {}), seen, unseen)
    made = _fitting(documents, plan, pivot)(ridge)
    about: dict[str, Any] = {
        "method": plan.method,
        "ridge": ridge,
        "pivot": pivot,
        "stay": plan.stay and plan.method == "lca",
        "languages": langs,
        "encoder": spec.name,
        "concepts": len(every),
    }
    remarks = _cautions(pairs, min(len(_shared(unseen, *pair)) for pair in needed), spec.dim)
    if tried[ridge].mrr <= centred.mrr:
        remarks.append(
            f"on held-out concepts the map finds mates no better (MRR {tried[ridge].mrr:.3f}) than taking the means "
            f"out ({centred.mrr:.3f}); more documents would help"
        )
    maps = SpaceMaps.rounded(spec.model, made.documents, made.queries, about=about)
    return LearntMaps(maps, ridge, tried, centred, pairs, remarks)


def _cautions(pairs: dict[tuple[str, str], int], held_out: int, dim: int) -> list[str]:
    """What is to be said of few concepts."""
    least = min(pairs, key=pairs.__getitem__)
    remarks = []
    if pairs[least] < dim:
        remarks.append(
            f"{least[0]} and {least[1]} share {counted(pairs[least], 'concept')}, fewer than a vector's {dim} numbers: "
            "what they do not show is not learnt"
        )
    if held_out < _MANY:
        remarks.append(
            f"a pair of languages shares {counted(held_out, 'held-out concept')} only, too few to choose a ridge by, "
            "or to say what a map is worth"
        )
    return remarks


@dataclass(frozen=True)
class _Maps:
    documents: dict[tuple[str, str], np.ndarray]
    queries: dict[str, np.ndarray]


_Fit = Callable[[float], _Maps]
"""Of a ridge; what the ridges share is worked out once."""


def _fitting(documents: ByConcept, plan: MappingPlan, pivot: str) -> _Fit:
    return _lcc(documents, plan) if plan.method == "lcc" else _lca(documents, plan, pivot)


def _lca(documents: ByConcept, plan: MappingPlan, pivot: str) -> _Fit:
    langs = list(documents.vectors)
    pairs = [(lang, pivot) for lang in langs if lang != pivot] if pivot else list(combinations(langs, 2))
    seen: dict[tuple[str, str], AlignedMoments] = {}
    paths: dict[tuple[str, str], RidgePath] = {}
    for pair in pairs:
        shared = _shared(documents, *pair)
        rows = {lang: _rows(documents, lang, shared) for lang in pair}
        aligned = AlignedMoments({lang: some.shape[1] for lang, some in rows.items()})
        aligned.add(rows)
        for source, target in (pair, pair[::-1]):
            seen[source, target] = aligned
            if not plan.dimensions and target in {pivot, *(() if pivot else langs)}:
                paths[source, target] = source_path(aligned, source)

    def fit(ridge: float) -> _Maps:
        def weights(source: str, target: str) -> np.ndarray:
            one = LCA(ridge, plan.dimensions, stay=plan.stay)
            return one.fit_moments(seen[source, target], source, target, paths.get((source, target))).weights_

        if pivot:
            through = {lang: weights(lang, pivot) for lang in langs if lang != pivot}
            return _Maps({(ANY, lang): one for lang, one in through.items()}, dict(through))
        return _Maps({(lang, other): weights(other, lang) for lang, other in permutations(langs, 2)}, {})

    return fit


def _lcc(documents: ByConcept, plan: MappingPlan) -> _Fit:
    parallel = documents.parallel()
    if (common := len(parallel.concepts)) < _FEWEST:
        raise BadInput(
            f"{counted(common, 'concept is', 'concepts are')} in all of {', '.join(parallel.rows)}, and LCC learns "
            "from those; leave languages out with --languages, or take --method lca"
        )
    aligned = parallel.aligned()
    paths = {lang: source_path(aligned, lang) for lang in parallel.rows}

    def fit(ridge: float) -> _Maps:
        weights = LCC(plan.dimensions or 200, ridge).fit_moments(aligned, paths).weights_
        weights[ANY] = np.mean(list(weights.values()), axis=0)
        return _Maps({(ANY, lang): one for lang, one in weights.items()}, dict(weights))

    return fit


def _without(documents: ByConcept, concepts: set[str]) -> ByConcept:
    kept = {
        lang: {concept: vector for concept, vector in some.items() if concept not in concepts}
        for lang, some in documents.vectors.items()
    }
    return ByConcept(kept)


def _shared(documents: ByConcept, lang: str, other: str) -> list[str]:
    return sorted(documents.vectors[lang].keys() & documents.vectors[other].keys())


def _rows(documents: ByConcept, lang: str, concepts: Sequence[str]) -> FloatArray:
    return np.stack([documents.vectors[lang][concept] for concept in concepts])


def _worth(maps: _Maps, seen: ByConcept, unseen: ByConcept) -> Mates:
    """Mate retrieval of unseen concepts over all ordered pairs, the means of seen ones taken out."""
    space = SpaceMaps("", maps.documents, maps.queries)
    means = {lang: np.mean(list(some.values()), axis=0) for lang, some in seen.vectors.items()}
    found = []
    for lang, other in permutations(seen.vectors, 2):
        shared = _shared(unseen, lang, other)
        if not shared:
            continue
        asked, answers = (_rows(unseen, one, shared) - means[one] for one in (lang, other))
        found.append(mates(*space.compared(lang, other, asked, answers)))
    return mean(found) if found else Mates(0.0, 0.0)


def write(maps: SpaceMaps | Networks, folder: Path) -> None:
    """Write a mapping's folder; a mapping that stands there is replaced, nothing else.

    Raises:
        BadInput: something else stands there, or it can't be written.
    """
    free(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / NETWORKS).is_dir():
            shutil.rmtree(folder / NETWORKS)
        maps.write(folder)
    except OSError as error:
        raise BadInput(f"{folder} can't be written ({error.strerror or error}); choose another --output") from error


def free(folder: Path) -> None:
    """See that a mapping can be written there: nothing, an empty folder or a mapping may stand in its place.

    Raises:
        BadInput: something else does.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; choose another --output")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "mapping.json").is_file():
        raise BadInput(f"{folder} holds something that is no mapping; choose another --output")
