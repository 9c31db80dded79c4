"""Learn a mapping from aligned documents: maps that a calibration ranks with; held-out concepts choose the ridge."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from encoders.document import EncoderSpec, Float64Array
from encoders.errors import BadInput
from encoders.folder.whole_folder import replacing, require_replaceable
from encoders.maps.lca import LCA, ridge_path
from encoders.maps.lcc import LCC
from encoders.maps.mate_scores import MateScores, mean_mates, ranks
from encoders.maps.ridge_path import RIDGES, AlignedMoments, RidgePath
from encoders.maps.space_maps import ANY, HEADER, NETWORKS, WEIGHTS, SpaceMaps
from encoders.methods.combined_encoder import refuse_combined
from encoders.phrases import counted
from indexer.training.aligned_documents import AlignedVectors

Linear = Literal["lca", "lcc"]

PAIRWISE = 12
"""Maximum languages for which each pair has its own map; with more languages, maps go through a pivot."""
_FOLDS = 5
_MIN_SHARED = 10
_MIN_HELD_OUT = 20
"""Minimum held-out concepts on which mate retrieval is a useful measure."""


@dataclass(frozen=True)
class MappingPlan:
    """How to learn a mapping."""

    method: Linear = "lca"
    ridge: float | None = None  # in spreads; None: chosen on held-out concepts (``cautious_ridge``); 0: pseudo-inverse
    stay: bool = True  # whether to shrink LCA's maps towards the identity, which leaves a vector as it is
    pivot: str = ""  # language that LCA's maps go through; empty: a map per pair for up to ``PAIRWISE`` languages
    dimensions: int | None = None  # of LCC's codes (None: 200), or principal axes that LCA keeps (None: all)
    seed: int = 0  # seed of the draw of held-out concepts


@dataclass(frozen=True)
class LearntMaps:
    """Maps, and how well they retrieve mates."""

    maps: SpaceMaps  # learnt from all concepts
    ridge: float  # in spreads
    tried: dict[float, MateScores]  # mate retrieval of held-out concepts, by ridge
    centred: MateScores  # mate retrieval of held-out concepts without a map: only the language means are subtracted
    pairs: dict[tuple[str, str], int]  # (query language, document language) → shared concepts, of pairs to map
    remarks: list[str]


def learn(documents: AlignedVectors, spec: EncoderSpec, plan: MappingPlan) -> LearntMaps:
    """Learn a mapping's maps from all concepts; the ridge is chosen on a fifth of the concepts, held out.

    Raises BadInput: languages share too few concepts or have several encoders' vectors, or the pivot is not among them.
    """
    refuse_combined(spec.name)
    langs = list(documents.vectors)
    if plan.pivot and plan.pivot not in langs:
        raise BadInput(f"the pivot {plan.pivot!r} is none of the languages learnt; they are {', '.join(langs)}")
    pivot = plan.pivot or ("" if len(langs) <= PAIRWISE else max(langs, key=lambda lang: len(documents.vectors[lang])))
    concepts = sorted({concept for vectors in documents.vectors.values() for concept in vectors})
    held_out = set(np.random.default_rng(plan.seed).permutation(concepts)[: len(concepts) // _FOLDS].tolist())
    training, validation = documents.without_concepts(held_out), documents.without_concepts(set(concepts) - held_out)
    pairs = {pair: len(documents.shared(pair)) for pair in permutations(langs, 2) if not pivot or pivot in pair}
    if min(pairs.values()) < _MIN_SHARED:
        least = min(pairs, key=pairs.__getitem__)
        raise BadInput(
            f"{least[0]} and {least[1]} share {counted(pairs[least], 'concept')}, and {_MIN_SHARED} are needed; "
            "leave one out with --languages, or give more documents"
        )
    if plan.method == "lcc" and (common := len(documents.shared(langs))) < _MIN_SHARED:
        raise BadInput(
            f"{counted(common, 'concept is', 'concepts are')} in all of {', '.join(langs)}, and LCC needs "
            f"{_MIN_SHARED}; leave languages out with --languages, or take --method lca"
        )
    ridges = RIDGES if plan.ridge is None else (plan.ridge,)
    fit = _fitting(training, plan, pivot)
    retrieval = {ridge: _mate_retrieval(fit(ridge), training, validation) for ridge in ridges}
    tried = {ridge: scores for ridge, (scores, _) in retrieval.items()}
    ridge = cautious_ridge({ridge: by_concept for ridge, (_, by_concept) in retrieval.items()})
    centred, _ = _mate_retrieval(SpaceMaps("", {}), training, validation)
    fitted = _fitting(documents, plan, pivot)(ridge)
    description: dict[str, Any] = {
        "method": plan.method,
        "ridge": ridge,
        "pivot": pivot,
        "stay": plan.stay and plan.method == "lca",
        "languages": langs,
        "encoder": spec.name,
        "concepts": len(concepts),
    }
    remarks = _cautions(pairs, min(len(validation.shared(pair)) for pair in pairs), spec.dim)
    if max(scores.mrr for scores in tried.values()) <= centred.mrr:
        remarks.append(
            f"on held-out concepts the map finds mates no better (MRR {tried[ridge].mrr:.3f}) than taking the means "
            f"out ({centred.mrr:.3f}); more documents would help"
        )
    maps = SpaceMaps.rounded(spec.model, fitted.documents, fitted.queries, about=description)
    return LearntMaps(maps, ridge, tried, centred, pairs, remarks)


def _cautions(pairs: dict[tuple[str, str], int], held_out: int, dim: int) -> list[str]:
    """Remarks on pairs of languages that share few concepts."""
    least = min(pairs, key=pairs.__getitem__)
    remarks = []
    if pairs[least] < dim:
        remarks.append(
            f"{least[0]} and {least[1]} share {counted(pairs[least], 'concept')}, fewer than a vector's {dim} numbers: "
            "what they do not show is not learnt"
        )
    if held_out < _MIN_HELD_OUT:
        remarks.append(
            f"a pair of languages shares {counted(held_out, 'held-out concept')} only, too few to choose a ridge by, "
            "or to say what a map is worth"
        )
    return remarks


_FitMaps = Callable[[float], SpaceMaps]
"""Ridge → maps; what does not depend on the ridge is computed once, when the function is made."""


def _fitting(documents: AlignedVectors, plan: MappingPlan, pivot: str) -> _FitMaps:
    return _lcc(documents, plan) if plan.method == "lcc" else _lca(documents, plan, pivot)


def _lca(documents: AlignedVectors, plan: MappingPlan, pivot: str) -> _FitMaps:
    langs = list(documents.vectors)
    pairs = [(lang, pivot) for lang in langs if lang != pivot] if pivot else list(combinations(langs, 2))
    moments: dict[tuple[str, str], AlignedMoments] = {}
    paths: dict[tuple[str, str], RidgePath] = {}
    for pair in pairs:
        aligned = documents.parallel(pair).aligned()
        for source, target in (pair, pair[::-1]):
            moments[source, target] = aligned
            if not plan.dimensions and target in {pivot, *(() if pivot else langs)}:
                paths[source, target] = ridge_path(aligned, source)

    def fit(ridge: float) -> SpaceMaps:
        def weights(source: str, target: str) -> np.ndarray:
            lca = LCA(ridge, plan.dimensions, stay=plan.stay)
            return lca.fit_moments(moments[source, target], source, target, paths.get((source, target))).weights_

        if pivot:
            pivot_weights = {lang: weights(lang, pivot) for lang in langs if lang != pivot}
            return _from_any(pivot_weights)
        return SpaceMaps("", {(target, source): weights(source, target) for target, source in permutations(langs, 2)})

    return fit


def _lcc(documents: AlignedVectors, plan: MappingPlan) -> _FitMaps:
    aligned = documents.parallel().aligned()
    paths = {lang: ridge_path(aligned, lang) for lang in aligned.parts}

    def fit(ridge: float) -> SpaceMaps:
        weights: dict[str, np.ndarray] = LCC(plan.dimensions or 200, ridge).fit_moments(aligned, paths).weights_
        weights[ANY] = np.mean(list(weights.values()), axis=0)
        return _from_any(weights)

    return fit


def _from_any(weights: dict[str, np.ndarray]) -> SpaceMaps:
    """Maps by language alone, the same for queries and documents."""
    return SpaceMaps("", {(ANY, lang): matrix for lang, matrix in weights.items()}, weights)


def _mate_retrieval(
    maps: SpaceMaps, training: AlignedVectors, validation: AlignedVectors
) -> tuple[MateScores, Float64Array]:
    """Mean mate retrieval over ordered pairs (training means subtracted); mates' (concepts,) mean reciprocal ranks."""
    means = {lang: np.mean(list(vectors.values()), axis=0) for lang, vectors in training.vectors.items()}
    pair_scores, by_concept = [], defaultdict[str, list[float]](list)
    for pair in permutations(training.vectors, 2):
        shared = validation.parallel(pair)
        if shared.concepts:
            queries, mate_rows = (shared.rows[lang] - means[lang] for lang in pair)
            places = ranks(*maps.compared(*pair, queries, mate_rows))
            pair_scores.append(MateScores.of(places))
            for concept, place in zip(shared.concepts, places.tolist(), strict=True):
                by_concept[concept].append(1 / place)
    scores = mean_mates(pair_scores) if pair_scores else MateScores(0.0, 0.0)
    return scores, np.array([np.mean(by_concept[concept]) for concept in sorted(by_concept)])


def cautious_ridge(by_ridge: Mapping[float, Float64Array]) -> float:
    """The largest ridge whose (concepts,) values are on average within a standard error of the best ridge's.

    Few concepts can't tell ridges apart, and a small ridge learns what is true of these alone (the rule of Breiman et
    al., *Classification and Regression Trees*, 1984, section 3.4.3).
    """
    best = max(by_ridge, key=lambda ridge: (by_ridge[ridge].sum(), ridge))
    concepts = len(by_ridge[best])
    if concepts < 2:
        return max(by_ridge)

    def as_good(ridge: float) -> bool:
        lost = by_ridge[best] - by_ridge[ridge]
        # where a single concept differs, both sides are equal but for rounding
        return bool(lost.mean() <= lost.std(ddof=1) / concepts**0.5 * (1 + 1e-9))

    return max(filter(as_good, by_ridge))


def write(maps: SpaceMaps, folder: Path) -> None:
    """Write a mapping, also over a mapping. Raises BadInput: the path holds something else, or can't be written."""
    require_writable(folder)
    try:
        with replacing(folder.expanduser().resolve()) as temporary:
            maps.write(temporary)
    except OSError as error:
        raise BadInput(f"{folder} can't be written ({error.strerror or error}); choose another --output") from error


def require_writable(folder: Path) -> None:
    """Check that a path is absent, empty or only a mapping. Raises BadInput: it is not, or can't be made."""
    require_replaceable(folder.expanduser().resolve())
    if folder.is_dir() and {file.name for file in folder.iterdir()} - {HEADER, WEIGHTS, NETWORKS}:
        raise BadInput(f"{folder} holds something that is no mapping; choose another --output")
