"""Sweeps of mate retrieval over splits, dimensions and numbers of training concepts, as a table and a figure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.console import Console
from encoders.errors import BadInput
from encoders.maps.mate_scores import Comparer, MateScores, Ranks, mean_mates, ranks_by_pair
from encoders.maps.parallel import ConceptSplit, Parallel
from query.alignment.mate_retrieval import METHODS, learn_comparer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Learner = Callable[[ConceptSplit, int], Comparer]
"""Learns a comparer from the concepts of a split, by a seed."""


@dataclass(frozen=True)
class Sweep:
    """Methods and settings to try."""

    methods: Sequence[str]
    dimensions: Sequence[int] = ()  # dimensions to try; none: the methods' defaults
    pairs: Sequence[int] = ()  # numbers of training concepts to try; none: all concepts
    splits: int = 3
    seed: int = 0  # seed of the first split
    # methods beyond ``METHODS``, by name; dimensions mean nothing to them
    learners: Mapping[str, Learner] = field(default_factory=dict)

    @property
    def swept(self) -> str:
        """Name of the setting that is varied; empty if no setting is."""
        return "dimensions" if self.dimensions else "training concepts" if self.pairs else ""

    @property
    def values(self) -> Sequence[int | None]:
        """The values of the setting that is varied; a single None if no setting is."""
        return self.dimensions or self.pairs or (None,)


@dataclass(frozen=True)
class Point:
    """The result of one method at one value, a mean over ordered pairs of languages and splits."""

    method: str
    value: int | None  # setting's value; none if no setting is swept, or the method doesn't depend on it
    mean: MateScores
    spread: MateScores  # standard deviations over splits
    pairs: dict[tuple[str, str], MateScores]  # means by pair of languages (of queries, of documents)
    concepts: Mapping[str, MateScores]  # means by concept, over the splits that test it and the pairs of languages

    @property
    def value_text(self) -> str:
        """The value as a table shows it."""
        return "" if self.value is None else f"{self.value:,}"

    def as_json(self) -> dict[str, Any]:
        """The point as JSON, numbers rounded to 6 decimals."""
        return {
            "method": self.method,
            "value": self.value,
            **_rounded(self.mean),
            "rate_spread": round(self.spread.rate, 6),
            "mrr_spread": round(self.spread.mrr, 6),
            "pairs": [
                {"queries": query_lang, "documents": document_lang, **_rounded(mates)}
                for (query_lang, document_lang), mates in self.pairs.items()
            ],
        }


def _rounded(mates: MateScores) -> dict[str, float]:
    return {"rate": round(mates.rate, 6), "mrr": round(mates.mrr, 6)}


def run_sweep(parallel: Parallel, sweep: Sweep, console: Console) -> list[Point]:
    """Evaluate every method at every value, over all splits. Raises BadInput: too few concepts are in all languages."""
    fixed = {"raw", "centred", *sweep.learners} if sweep.dimensions else {"raw"}  # by the setting that is varied
    settings = [(method, value) for method in sweep.methods for value in ((None,) if method in fixed else sweep.values)]
    splits = [ConceptSplit.of(parallel, sweep.seed + number) for number in range(sweep.splits)]
    concept_count = min(len(split.training.concepts) for split in splits)
    if sweep.pairs and max(sweep.pairs) > concept_count:
        raise BadInput(f"there are {concept_count:,} concepts to learn from, and --pairs asks for {max(sweep.pairs):,}")
    points = []
    with console.progress("mates", len(settings) * len(splits), "fits") as advance:
        for method, value in settings:
            results, tested = [], []
            for number, split in enumerate(splits):
                cut = split.shortened(value) if sweep.pairs and value else split
                dimensions = value if sweep.dimensions else None
                if method in METHODS:
                    comparer = learn_comparer(method, cut, dimensions)
                else:
                    comparer = sweep.learners[method](cut, sweep.seed + number)
                results.append(ranks_by_pair(comparer, split.test))
                tested.append(split.test.concepts)
                advance(1)
            points.append(_point(method, value, results, tested))
    return points


def _point(
    method: str, value: int | None, results: Sequence[Mapping[tuple[str, str], Ranks]], tested: Sequence[Sequence[str]]
) -> Point:
    """The point of a method at a value, from each split's ranks by pair of languages, and its tested concepts."""
    scores = [{pair: MateScores.of(mate_ranks) for pair, mate_ranks in result.items()} for result in results]
    means = [mean_mates(list(by_pair.values())) for by_pair in scores]
    spread = MateScores(*(float(np.std(values)) for values in zip(*map(astuple, means), strict=True)))
    pairs = {pair: mean_mates([by_pair[pair] for by_pair in scores]) for pair in scores[0]}
    ranks_by_concept: dict[str, list[Ranks]] = {}
    for result, concepts in zip(results, tested, strict=True):
        for concept, concept_ranks in zip(concepts, np.stack(list(result.values())).T, strict=True):
            ranks_by_concept.setdefault(concept, []).append(concept_ranks)
    by_concept = {concept: MateScores.of(np.concatenate(ranks)) for concept, ranks in ranks_by_concept.items()}
    return Point(method, value, mean_mates(means), spread, pairs, by_concept)


def mates_figure(points: Sequence[Point], sweep: Sweep) -> "Figure":
    """Draw rate and mean reciprocal rank: a bar for each method, or a line for each method over the swept values."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second

    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), ("rate", "mrr"), strict=True):
        for method in sweep.methods:
            method_points = [point for point in points if point.method == method]
            values = [getattr(point.mean, measure) for point in method_points]
            spreads = [getattr(point.spread, measure) for point in method_points]
            if not sweep.swept:
                axes.bar([method], values, yerr=spreads, capsize=3)
            elif method_points[0].value is None:
                axes.axhline(values[0], linestyle="--", linewidth=1, color="gray")
                axes.annotate(
                    method, (1.0, values[0]), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8
                )
            else:
                swept = [point.value for point in method_points]
                axes.errorbar(swept, values, yerr=spreads, marker="o", markersize=3, label=method)
        axes.set_ylabel({"rate": "mate retrieval rate", "mrr": "mean reciprocal rank"}[measure])
        if sweep.swept:
            axes.set_xscale("log")
            axes.set_xlabel(sweep.swept)
            axes.legend(frameon=False, fontsize=8)
        else:
            axes.tick_params(axis="x", labelrotation=30)
        axes.grid(axis="y", linewidth=0.4, alpha=0.5)
        axes.set_axisbelow(True)
    return figure
