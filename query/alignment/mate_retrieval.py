"""Methods to compare documents of two languages, learnt from other documents and evaluated by mate retrieval."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.maps.lca import LCA, ridge_path
from encoders.maps.lcc import LCC
from encoders.maps.mate_scores import Comparer, MateScores, centred, mates, over_pairs
from encoders.maps.parallel import ConceptSplit, Parallel
from encoders.maps.ridge_path import RIDGES
from encoders.maps.space_maps import SpaceMaps
from query.calibration.comparison_space import check_model

Method = Literal["raw", "centred", "lca-published", "lca", "lca-stay", "lcc-published", "lcc"]
METHODS: tuple[str, ...] = get_args(Method)
CODES = 200
"""Default number of dimensions of LCC's codes."""
_Rows = tuple[FloatArray, FloatArray]


def learn_comparer(method: str, split: ConceptSplit, dimensions: int | None = None) -> Comparer:
    """A comparer learnt from the training concepts, its ridge chosen on the validation concepts.

    ``raw``: vectors as encoded; ``centred``: each language's training mean subtracted; ``lca-published``: documents
    mapped into the queries' space by the pseudo-inverse of vectors that are not centred; ``lca``: by a ridge regression
    of centred vectors; ``lca-stay``: by a ridge towards the identity; ``lcc-published``: codes of a pair of languages,
    as wide as the vectors; ``lcc``: codes of all languages. ``dimensions`` is the number of principal axes, or of LCC's
    codes; for the published methods the number of a vector's first coordinates that count.
    """
    if method == "raw":
        return _raw
    if method in {"lca-published", "lcc-published"}:
        return _published(method, split.training, dimensions)
    aligned = split.training.aligned()
    if method == "lcc":
        paths = {lang: ridge_path(aligned, lang) for lang in aligned.parts}
        fitted = (LCC(dimensions or CODES, ridge).fit_moments(aligned, paths) for ridge in RIDGES)
        comparers = [partial(_coded, lcc) for lcc in fitted]
        return max(comparers, key=lambda comparer: over_pairs(comparer, split.validation).mrr)
    if method == "centred":
        return centred({lang: aligned.mean(lang).astype(np.float32) for lang in aligned.parts})
    paths = {} if dimensions else {lang: ridge_path(aligned, lang) for lang in aligned.parts}

    def fit(query_lang: str, doc_lang: str, ridge: float) -> LCA:
        lca = LCA(ridge, dimensions, stay=method == "lca-stay")
        return lca.fit_moments(aligned, doc_lang, query_lang, paths.get(doc_lang))

    return _by_pair(split, fit)


def _raw(_query_lang: str, _doc_lang: str, queries: FloatArray, documents: FloatArray) -> _Rows:
    return queries, documents


def _published(method: str, training: Parallel, dimensions: int | None) -> Comparer:
    """LCA or LCC as published; vectors are cut to their first coordinates."""
    rows = {lang: vectors[:, :dimensions] for lang, vectors in training.rows.items()}
    aligned = Parallel(training.concepts, rows).aligned()

    @cache
    def lcc(first: str, second: str) -> LCC:
        return LCC.published(rows[first], rows[second])

    def compare(query_lang: str, doc_lang: str, queries: FloatArray, documents: FloatArray) -> _Rows:
        queries, documents = queries[:, :dimensions], documents[:, :dimensions]
        if method == "lca-published":
            return _mapped(LCA.published(aligned, doc_lang, query_lang), queries, documents)
        first, second = sorted((query_lang, doc_lang))
        codes, names = lcc(first, second), {first: "x", second: "y"}
        return codes.transform(queries, names[query_lang]), codes.transform(documents, names[doc_lang])

    return compare


def _by_pair(split: ConceptSplit, fit: Callable[[str, str, float], LCA]) -> Comparer:
    """Map documents into the queries' space, by a map for each pair with the ridge that is best on validation."""
    maps: dict[tuple[str, str], LCA] = {}

    def compare(query_lang: str, doc_lang: str, queries: FloatArray, documents: FloatArray) -> _Rows:
        if (query_lang, doc_lang) not in maps:
            fits = [fit(query_lang, doc_lang, ridge) for ridge in RIDGES]
            rows = split.validation.rows[query_lang], split.validation.rows[doc_lang]
            maps[query_lang, doc_lang] = max(fits, key=lambda lca: mates(*_mapped(lca, *rows)).mrr)
        return _mapped(maps[query_lang, doc_lang], queries, documents)

    return compare


def _mapped(lca: LCA, queries: FloatArray, documents: FloatArray) -> _Rows:
    return (queries - lca.target_mean_).astype(np.float32), lca.transform(documents)


def _coded(lcc: LCC, query_lang: str, doc_lang: str, queries: FloatArray, documents: FloatArray) -> _Rows:
    return lcc.transform(queries, query_lang), lcc.transform(documents, doc_lang)


def mates_by_method(folder: Path, parallel: Parallel, model: str) -> tuple[dict[str, MateScores], list[str]]:
    """Mate retrieval over all ordered pairs of languages by method, and the languages that the mapping does not know.

    Maps act on vectors centred by the documents' own means. An unknown language is left unmapped, or is mapped by the
    mean of the known maps. Raises BadInput: no concept is in all languages, or the folder holds no mapping.
    """
    if not parallel.concepts:
        raise BadInput(
            f"no concept is in all of {', '.join(parallel.rows)}, so there is nothing to find; "
            "name languages that have documents of the same concepts: --languages"
        )
    maps = SpaceMaps.read(folder)
    check_model(maps, model, next(iter(parallel.rows.values())).shape[1])

    def by_mapping(query_lang: str, doc_lang: str, queries: FloatArray, documents: FloatArray) -> _Rows:
        return maps.compared(query_lang, doc_lang, queries - queries.mean(axis=0), documents - documents.mean(axis=0))

    comparers: dict[str, Comparer] = {
        "raw": _raw,
        "centred": centred({lang: rows.mean(axis=0) for lang, rows in parallel.rows.items()}),
        str(maps.about["method"]): by_mapping,
    }
    unknown = [lang for lang in parallel.rows if not maps.knows(lang)]
    return {method: over_pairs(comparer, parallel) for method, comparer in comparers.items()}, unknown
