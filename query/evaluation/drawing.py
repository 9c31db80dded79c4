"""Figures of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from encoders.errors import BadInput
from encoders.phrases import counted
from encoders.printable import one_line
from query.measures.significance import Comparison
from query.trec_files.output_files import PICTURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

BETTER, WORSE, MEAN = "#1b7f79", "#c8553d", "#222222"
_LUMA = (0.299, 0.587, 0.114)
"""How bright red, green and blue are to the eye."""
_LABELLED = 40
"""Greatest number of topics for which every bar is named; of more topics, only the best and the worst are named."""

_LONGEST_NAME = 24
"""Characters of a topic's id that a figure shows: longer names leave the bars no room."""


@contextmanager
def plain_texts(**style: Any) -> Iterator[None]:
    """Draw and save figures with settings of matplotlib, in which a text between dollars is no formula."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second

    settings: Any = {"text.parse_math": False, **style}
    with mpl.rc_context(settings):
        yield


def empty_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches, in which axes and legends make room for each other."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second

    return Figure(figsize=(width, height), layout="constrained")


def heat_map(
    axes: Axes,
    values: npt.NDArray[np.float64],
    labels: tuple[Sequence[str], Sequence[str]],
    colours: str,
    cell_text: Callable[[int, int], str],
    *,
    highest: float | None = None,
    size: float | None = None,
) -> AxesImage:
    """Draw (rows, columns) values, from 0 to ``highest``, with texts and ``labels`` of both axes; NaN has no colour."""
    highest = max(float(np.nanmax(values, initial=0)), 1e-9) if highest is None else highest
    image = axes.imshow(values, cmap=colours, vmin=0, vmax=highest, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(labels[0])), labels[0], fontsize=size)
    axes.set_xticks(range(len(labels[1])), labels[1], fontsize=size)
    for row, column in np.ndindex(values.shape):
        is_dark = np.isfinite(values[row, column]) and np.dot(image.to_rgba(values[row, column])[:3], _LUMA) < 0.5
        colour = "white" if is_dark else MEAN
        axes.text(column, row, cell_text(row, column), ha="center", va="center", fontsize=8, color=colour)
    return image


def difference_figure(comparisons: Sequence[Comparison]) -> Figure:
    """Draw the per-topic differences as sorted bars, with a panel for each comparison."""
    widest = max(len(comparison.differences) for comparison in comparisons)
    figure = empty_figure(min(10.0, max(7.0, 0.26 * widest)), 3.4 * len(comparisons))
    with plain_texts():
        for axes, comparison in zip(np.atleast_1d(figure.subplots(len(comparisons))), comparisons, strict=True):
            _draw(axes, comparison)
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure. Raises BadInput: no picture format has the file's ending, or the file can't be written."""
    try:
        with plain_texts():
            figure.savefig(path, dpi=150)
    except ValueError as error:
        raise BadInput(f"{path} has no ending of a picture that can be drawn; name it {', '.join(PICTURES)}") from error
    except OSError as error:
        raise BadInput(f"the picture {path} can't be written ({error.strerror or error}); give another file") from error


def _draw(axes: Axes, comparison: Comparison) -> None:
    topics = sorted(comparison.differences.items(), key=lambda topic: (-topic[1], topic[0]))
    values = np.array([value for _, value in topics])
    axes.bar(np.arange(len(values)), values, width=0.85, color=[BETTER if value > 0 else WORSE for value in values])
    axes.axhline(0, color="black", linewidth=0.8)
    mean = f"mean {comparison.difference:+.3f}".replace("-", "−")
    axes.axhline(comparison.difference, color=MEAN, linewidth=1, linestyle="--", label=mean)
    axes.legend(loc="upper right", frameon=False, fontsize=9)
    axes.set_title(
        f"{comparison.run} against {comparison.baseline}: {counted(comparison.wins, 'topic')} higher, "
        f"{comparison.losses} lower, {comparison.ties} equal (p {comparison.p_holm:.3g}, Holm)",
        fontsize=10,
        loc="left",
    )
    peak = 1.08 * (float(np.abs(values).max()) or 1.0)
    axes.set(xlim=(-0.8, len(values) - 0.2), ylim=(-peak, peak))
    axes.set_ylabel(f"{comparison.measure} of {comparison.run} − {comparison.baseline}")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    names = [one_line(qid) for qid, _ in topics]
    qids = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names]
    if len(qids) <= _LABELLED:
        axes.set_xticks(np.arange(len(qids)), qids, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
        axes.set_xlabel("topic")
    else:
        best, worst = ", ".join(qids[:3]), ", ".join(qids[:-4:-1])
        axes.set(xticks=[], xlabel=f"{len(qids)} topics, sorted · highest: {best} · lowest: {worst}")
