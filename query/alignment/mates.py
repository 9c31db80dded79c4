"""Ways to compare documents of two languages, learnt from others, held against each other by mate retrieval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.maps import nca
from encoders.maps.lca import LCA, source_path
from encoders.maps.lcc import LCC
from encoders.maps.mates import Mates, mates, mean
from encoders.maps.nca import Network
from encoders.maps.networks import Networks, read_mapping
from encoders.maps.parallel import ConceptSplit, Parallel
from encoders.maps.ridge import RIDGES, AlignedMoments, RidgePath
from encoders.maps.space import SpaceMaps
from query.calibration.mapped_calibration import check_model

Method = Literal["raw", "centred", "lca-published", "lca", "lca-stay", "lcc", "nca"]
METHODS: tuple[Method, ...] = get_args(Method)
CODES = 200
"""Dimensions of LCC's codes unless said."""
Compared = Callable[[str, str, Parallel], tuple[FloatArray, FloatArray]]
"""Of a language of queries, one of documents, and some concepts: comparable rows of both."""


def learnt(method: Method, split: ConceptSplit, dimensions: int | None = None, seed: int = 0) -> Compared:
    """A way to compare, learnt from training, its ridge chosen on validation.

    Args:
        method: ``raw``: as the encoder made them; ``centred``: each language's training mean taken out;
            ``lca-published``: documents mapped into the queries' space by the pseudo-inverse; ``lca``: by a ridge;
            ``lca-stay``: by a ridge towards leaving them as they are; ``lcc``: codes of all languages; ``nca``: a
            network each direction.
        split: the concepts.
        dimensions: each language is cut to so many principal axes first; LCC's codes have so many.
        seed: of the networks.
    """
    if method == "raw":
        return lambda lang, other, some: (some.rows[lang], some.rows[other])
    if method == "nca":
        return _networks(split, seed)
    aligned = split.training.aligned()
    if method == "lcc":
        return _codes(aligned, split, dimensions or CODES)
    if method == "centred":
        means = {lang: aligned.mean(lang).astype(np.float32) for lang in aligned.parts}
        return lambda lang, other, some: (some.rows[lang] - means[lang], some.rows[other] - means[other])
    paths = {} if dimensions else {lang: source_path(aligned, lang) for lang in aligned.parts}

    def fit(lang: str, other: str, ridge: float) -> LCA:
        one = LCA(ridge, dimensions, stay=method == "lca-stay")
        return one.fit_moments(aligned, other, lang, paths.get(other))

    return _by_pair(split, fit, (0.0,) if method == "lca-published" else RIDGES)


def _networks(split: ConceptSplit, seed: int) -> Compared:
    """A network each direction of each pair."""
    from onnx_export.nca import NcaTraining, train  # noqa: PLC0415 - the train extra

    networks: dict[tuple[str, str], Network] = {}
    means = {lang: rows.mean(axis=0) for lang, rows in split.training.rows.items()}

    def network(source: str, target: str) -> Network:
        if (source, target) not in networks:
            rows = [(some.rows[source], some.rows[target]) for some in (split.training, split.validation)]
            networks[source, target] = Network(train(rows[0], rows[1], NcaTraining(seed=seed)))
        return networks[source, target]

    def compared(lang: str, other: str, some: Parallel) -> tuple[FloatArray, FloatArray]:
        both = network(lang, other), network(other, lang)
        return nca.compared(some.rows[lang], some.rows[other], (means[lang], means[other]), *both)

    return compared


def _by_pair(split: ConceptSplit, fit: Callable[[str, str, float], LCA], ridges: Sequence[float]) -> Compared:
    """One map a pair, documents into the queries' space, with the ridge that does best on validation."""
    maps: dict[tuple[str, str], LCA] = {}

    def compared(lang: str, other: str, some: Parallel) -> tuple[FloatArray, FloatArray]:
        if (lang, other) not in maps:
            tried = [fit(lang, other, ridge) for ridge in ridges]
            maps[lang, other] = max(tried, key=lambda one: _value(one, lang, other, split.validation))
        return _applied(maps[lang, other], lang, other, some)

    def _value(one: LCA, lang: str, other: str, some: Parallel) -> float:
        return mates(*_applied(one, lang, other, some)).mrr if len(ridges) > 1 else 0.0

    return compared


def _applied(one: LCA, lang: str, other: str, some: Parallel) -> tuple[FloatArray, FloatArray]:
    return (some.rows[lang] - one.target_mean_).astype(np.float32), one.transform(some.rows[other])


def _codes(aligned: AlignedMoments, split: ConceptSplit, dimensions: int) -> Compared:
    """LCC of all languages at once, with the ridge that does best on validation."""
    paths: dict[str, RidgePath] = {lang: source_path(aligned, lang) for lang in aligned.parts}
    tried = [partial(_coded, LCC(dimensions, ridge).fit_moments(aligned, paths)) for ridge in RIDGES]
    return max(tried, key=lambda one: over_pairs(one, split.validation).mrr)


def _coded(one: LCC, lang: str, other: str, some: Parallel) -> tuple[FloatArray, FloatArray]:
    return one.transform(some.rows[lang], lang), one.transform(some.rows[other], other)


def by_pair(compared: Compared, some: Parallel) -> dict[tuple[str, str], Mates]:
    """Mate retrieval of every ordered pair of languages, (of queries, of documents)."""
    return {(lang, other): mates(*compared(lang, other, some)) for lang, other in permutations(some.rows, 2)}


def over_pairs(compared: Compared, some: Parallel) -> Mates:
    """The mean over all ordered pairs."""
    return mean(list(by_pair(compared, some).values()))


def measured(folder: Path, parallel: Parallel, model: str) -> tuple[dict[str, Mates], list[str]]:
    """Mate retrieval over all ordered pairs of all documents: raw, centred, and by the mapping; and what it knows not.

    Linear maps are of what the documents' own means leave, as in a search; networks have means of their own. Languages
    that a linear map knows nothing of are as they are, or stand in the mean of the others' maps.

    Raises:
        BadInput: no concept is in all of the languages; the folder holds no mapping, or none for a pair of them.
        ModelMismatch: the mapping is for vectors of another model.
    """
    if not parallel.concepts:
        raise BadInput(
            f"no concept is in all of {', '.join(parallel.rows)}, so there is nothing to find; "
            "name languages that have documents of the same concepts: --languages"
        )
    maps = read_mapping(folder)
    check_model(maps, model, next(iter(parallel.rows.values())).shape[1])
    means = {lang: rows.mean(axis=0) for lang, rows in parallel.rows.items()}
    ways: dict[str, Compared] = {
        "raw": lambda lang, other, some: (some.rows[lang], some.rows[other]),
        "centred": lambda lang, other, some: (some.rows[lang] - means[lang], some.rows[other] - means[other]),
        str(maps.about["method"]): _by(maps),
    }
    unknown = [lang for lang in parallel.rows if not maps.knows(lang)]
    return {name: over_pairs(way, parallel) for name, way in ways.items()}, unknown


def _by(maps: SpaceMaps | Networks) -> Compared:
    if isinstance(maps, Networks):
        return lambda lang, other, some: maps.compared(lang, other, some.rows[lang], some.rows[other])
    return lambda lang, other, some: maps.compared(
        lang,
        other,
        some.rows[lang] - some.rows[lang].mean(axis=0),
        some.rows[other] - some.rows[other].mean(axis=0),
    )
