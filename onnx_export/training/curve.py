"""The course of a training as JSON lines, which do not depend on the clock, and as a picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from encoders.errors import MissingPart

Row = Mapping[str, float]
"""Measurements at a step: ``step`` and further numbers by name."""


def write_rows(rows: Sequence[Row], file: Path) -> None:
    """Write rows as JSON lines; equal rows give equal bytes. Raises MissingPart: the disk can't be written."""
    try:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise MissingPart(f"{file} can't be written ({error.strerror}); make room and run the same command") from error


def draw(rows: Sequence[Row], panels: Mapping[str, Sequence[str]], file: Path | IO[bytes]) -> None:
    """Draw a PNG, a panel per title over steps, a line per measurement; rows without it have no point there."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second

    figure = Figure(figsize=(7.5, 2.6 * len(panels)), layout="constrained")
    for axes, (title, names) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels.items(), strict=True):
        for name in names:
            points = [(row["step"], row[name]) for row in rows if name in row]
            axes.plot([step for step, _ in points], [value for _, value in points], label=name, linewidth=1.4)
        axes.set_title(title, fontsize=10, loc="left")
        axes.grid(linewidth=0.4, alpha=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        if len(names) > 1:
            axes.legend(frameon=False, fontsize=9)
    figure.supxlabel("step", fontsize=9)
    figure.savefig(file, format="png", dpi=130)
