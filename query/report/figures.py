"""Figures of a report, drawn by matplotlib and written as inline SVG in the page's colours."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from encoders.printable import one_line
from query.evaluation.drawing import MEAN, empty_figure, heat_map, plain_texts
from query.report.language_pairs import PairTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_WIDTH = 9.6
_INK, _PAPER = "#102030", "#fefdfc"
"""Placeholders that ``inline_svg`` replaces by the page's own colours."""

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7f7f7f")
"""Okabe and Ito's colours, without those invisible on white or on black."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_MOST_NUMBERED = 16
"""Most languages of a table whose cells show their values."""
_MOST_SIDE_BY_SIDE = 24
"""Most languages of two tables drawn side by side."""


def inline_svg(draw: Callable[[], Figure], name: str, description: str) -> str:
    """A figure as ``<svg>``, with ``description`` for screen readers; ``name``, unique, is the prefix of its ids."""
    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
    }
    buffer = io.StringIO()
    with plain_texts(**style):
        draw().savefig(buffer, format="svg", dpi=160, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{name}-", svg)
    for colour in (_INK, MEAN, "#000000"):
        svg = svg.replace(colour, "currentColor")
    svg = svg.replace(_PAPER, "var(--paper)")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(one_line(description))}"', 1).strip()


def languages_figure(panels: Mapping[str, FloatArray], langs: npt.NDArray[np.str_]) -> Figure:
    """Documents as dots, (n, 2), a panel for each title; ``langs`` (n,) decides the colour and form of a dot."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    languages = sorted(set(langs.tolist()))
    columns = 12
    height = 4.5 + 0.22 * math.ceil(len(languages) / columns)
    figure = empty_figure(_WIDTH if len(panels) > 1 else 0.6 * _WIDTH, height)
    size = 24 if len(langs) < 1_000 else 9
    for axes, (title, points) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True):
        shuffled_rows = np.random.default_rng(0).permutation(len(points))
        for index, lang in enumerate(languages):
            language_rows = shuffled_rows[langs[shuffled_rows] == lang]
            axes.scatter(
                *points[language_rows].T,
                s=size,
                color=_COLOURS[index % len(_COLOURS)],
                marker=_MARKERS[index % len(_MARKERS)],
                alpha=0.75,
                linewidths=0,
                rasterized=True,
                label=lang,
            )
        # a language's code stands at the median of its dots, if no other language's median is near
        middles = {lang: np.median(points[langs == lang], axis=0) for lang in languages}
        least_distance = 0.045 * float(np.ptp(points, axis=0).max())
        for lang, middle in middles.items():
            other_middles = [other_middle for code, other_middle in middles.items() if code != lang]
            if all(np.abs(middle - other_middle).max() > least_distance for other_middle in other_middles):
                halo = withStroke(linewidth=2.5, foreground=_PAPER)
                axes.annotate(
                    lang, tuple(middle), ha="center", va="center", fontsize=10, fontweight="bold", path_effects=[halo]
                )
        axes.set_title(title, loc="left")
        axes.set(xticks=[], yticks=[], xlabel="first component", ylabel="second component")
        middle, reach = (points.max(axis=0) + points.min(axis=0)) / 2, 0.53 * float(np.ptp(points, axis=0).max()) or 1.0
        axes.set_xlim(middle[0] - reach, middle[0] + reach)
        axes.set_ylim(middle[1] - reach, middle[1] + reach)
        axes.set_box_aspect(1)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(columns if len(panels) > 1 else columns // 2, len(labels)),
        frameon=False,
        fontsize=9,
        markerscale=1.4 if size > 10 else 2.2,
        handletextpad=0.1,
        columnspacing=1.2,
    )
    return figure


def balance_figure(shares: Mapping[float, float], chosen: float, fair: float) -> Figure:
    """Share of own-language hits against balance."""
    figure = empty_figure(_WIDTH, 3.6)
    axes = figure.subplots()
    axes.axhline(fair, color=_COLOURS[4], linewidth=1, linestyle="--", label=f"fair share ({fair:.0%})")
    axes.plot(
        list(shares), list(shares.values()), color=_COLOURS[4], marker="o", label="own-language share of the first hits"
    )
    axes.axvline(chosen, color=_INK, linewidth=1, linestyle=":", label=f"balance that searches use ({chosen:g})")
    axes.set(xlim=(-0.02, 1.02), ylim=(0, 1.0), ylabel="share of the first hits")
    axes.set_xlabel("balance: 0 nothing balanced … 1 every language equal")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=8.5)
    return figure


def own_language_figure(shares: Mapping[str, tuple[float, float]]) -> Figure:
    """By language, its share of the first hits of its own queries, and a mark at its share of the documents."""
    figure = empty_figure(_WIDTH, 3.6)
    axes, languages = figure.subplots(), list(shares)
    hits, documents = zip(*shares.values(), strict=True)
    axes.bar(languages, hits, color=_COLOURS[0], width=0.6, label="share of the first hits of its queries")
    axes.scatter(languages, documents, marker="_", s=500, color=_COLOURS[4], label="share of the documents", zorder=3)
    axes.set(ylim=(0, 1.0), ylabel="share in the query's language")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8.5)
    return figure


def pairs_figure(tables: Mapping[str, PairTable], measure: str) -> Figure:
    """Heat maps on one scale, side by side or, with many languages, one below the other."""
    longest_side = max(max(len(table.queries), len(table.documents)) for table in tables.values())
    side_by_side = len(tables) > 1 and longest_side <= _MOST_SIDE_BY_SIDE
    width = _WIDTH if side_by_side or longest_side > _MOST_NUMBERED else 0.62 * _WIDTH
    rows = max(len(table.queries) for table in tables.values())
    cell_size = (width / len(tables) if side_by_side else width) / (longest_side + 2.5)
    height = min(cell_size, 0.4 if longest_side <= _MOST_NUMBERED else 0.15) * rows + 1.0
    figure = empty_figure(width, height * (1 if side_by_side else len(tables)))
    shape = (1, len(tables)) if side_by_side else (len(tables), 1)
    highest = max(
        (float(np.nanmax(table.values)) for table in tables.values() if np.isfinite(table.values).any()), default=1.0
    )
    panels = np.atleast_1d(figure.subplots(*shape))
    images = []
    for axes, (title, table) in zip(panels, tables.items(), strict=True):
        images.append(_draw_pairs(axes, table, highest or 1.0))
        axes.set_title(title, loc="left")
    shrink = 0.8 if side_by_side else 0.8 / len(tables)
    bar = figure.colorbar(images[0], ax=list(panels), shrink=shrink, anchor=(0.0, 1.0), pad=0.015, aspect=25)
    bar.set_label(measure)
    bar.outline.set_visible(False)
    return figure


def _draw_pairs(axes: Axes, table: PairTable, highest: float) -> AxesImage:
    is_large = max(len(table.queries), len(table.documents)) > _MOST_NUMBERED

    def text(row: int, column: int) -> str:
        value = float(table.values[row, column])
        if not math.isfinite(value):
            return "–"
        return "" if is_large else f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"

    labels, size = (table.queries, table.documents), 6.5 if is_large else 9
    image = heat_map(axes, table.values, labels, "cividis", text, highest=highest, size=size)
    axes.set(xlabel="language of the documents", ylabel="language of the query")
    axes.tick_params(length=0)
    axes.tick_params(axis="x", rotation=90 if is_large else 0)
    axes.spines[:].set_visible(False)
    return image
