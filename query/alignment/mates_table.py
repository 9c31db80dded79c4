"""Sweeps of mate retrieval over splits, dimensions and numbers of training concepts, as a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.console import Console
from encoders.errors import BadInput
from encoders.maps.mates import Mates, mean
from encoders.maps.parallel import ConceptSplit, Parallel
from query.alignment.mates import Method, by_pair, learnt

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Sweep:
    """What to try.

    Attributes:
        methods: ways to compare.
        dimensions: to try; none: as the methods have it.
        pairs: numbers of training concepts to try; none: all there are.
        splits: of the concepts.
        seed: of the first split.
    """

    methods: Sequence[Method]
    dimensions: Sequence[int] = ()
    pairs: Sequence[int] = ()
    splits: int = 3
    seed: int = 0

    @property
    def swept(self) -> str:
        """What is varied; nothing where nothing is."""
        return "dimensions" if self.dimensions else "training concepts" if self.pairs else ""

    @property
    def values(self) -> Sequence[int | None]:
        """What it takes on."""
        return self.dimensions or self.pairs or (None,)

    def varies(self, method: Method) -> bool:
        """Whether a method depends on it: a mean is a mean."""
        return method not in ({"raw", "centred", "nca"} if self.dimensions else {"raw"})


@dataclass(frozen=True)
class Point:
    """One method at one value, the mean over ordered pairs and splits.

    Attributes:
        method: which.
        value: of what is swept; none where nothing is, or the method doesn't depend on it.
        rate: mate retrieval rate.
        mrr: mean reciprocal rank.
        rate_spread: standard deviation of the rate over splits.
        mrr_spread: of the rank.
        pairs: mates by pair of languages, (of queries, of documents), mean over splits.
    """

    method: Method
    value: int | None
    rate: float
    mrr: float
    rate_spread: float
    mrr_spread: float
    pairs: dict[tuple[str, str], Mates]

    @property
    def said(self) -> str:
        """The value in a table."""
        return "" if self.value is None else f"{self.value:,}"

    def as_json(self) -> dict[str, Any]:
        """All of it, rounded."""
        return {
            "method": self.method,
            "value": self.value,
            "rate": round(self.rate, 6),
            "mrr": round(self.mrr, 6),
            "rate_spread": round(self.rate_spread, 6),
            "mrr_spread": round(self.mrr_spread, 6),
            "pairs": [
                {"queries": lang, "documents": other, "rate": round(one.rate, 6), "mrr": round(one.mrr, 6)}
                for (lang, other), one in self.pairs.items()
            ],
        }


def swept(parallel: Parallel, sweep: Sweep, console: Console) -> list[Point]:
    """Every method at every value, over all splits.

    Raises:
        BadInput: too few concepts are in all languages, or fewer than are to be learnt from.
    """
    tried = [
        (method, value) for method in sweep.methods for value in (sweep.values if sweep.varies(method) else (None,))
    ]
    splits = [ConceptSplit.of(parallel, sweep.seed + number) for number in range(sweep.splits)]
    most = min(len(split.training.concepts) for split in splits)
    if sweep.pairs and max(sweep.pairs) > most:
        raise BadInput(f"there are {most:,} concepts to learn from, and --pairs asks for {max(sweep.pairs):,}")
    points = []
    with console.progress("mates", len(tried) * len(splits), "fits") as advance:
        for method, value in tried:
            found = []
            for number, split in enumerate(splits):
                cut = split.shortened(value) if sweep.pairs and value else split
                dimensions = value if sweep.dimensions else None
                found.append(by_pair(learnt(method, cut, dimensions, sweep.seed + number), split.test))
                advance(1)
            points.append(_point(method, value, found))
    return points


def _point(method: Method, value: int | None, found: Sequence[dict[tuple[str, str], Mates]]) -> Point:
    over = [mean(list(one.values())) for one in found]
    rates, mrrs = [one.rate for one in over], [one.mrr for one in over]
    pairs = {pair: mean([one[pair] for one in found]) for pair in found[0]}
    every = mean(over)
    return Point(method, value, every.rate, every.mrr, float(np.std(rates)), float(np.std(mrrs)), pairs)


def mates_figure(points: Sequence[Point], sweep: Sweep) -> Figure:
    """Rate and mean reciprocal rank: bars by method, or a line a method over what is swept."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second

    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), ("rate", "mrr"), strict=True):
        for method in sweep.methods:
            mine = [one for one in points if one.method == method]
            values = [getattr(one, measure) for one in mine]
            spreads = [getattr(one, f"{measure}_spread") for one in mine]
            if not sweep.swept:
                axes.bar([method], values, yerr=spreads, capsize=3)
            elif mine[0].value is None:
                axes.axhline(values[0], linestyle="--", linewidth=1, color="gray")
                axes.annotate(
                    method, (1.0, values[0]), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8
                )
            else:
                axes.errorbar([one.value for one in mine], values, yerr=spreads, marker="o", markersize=3, label=method)
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
