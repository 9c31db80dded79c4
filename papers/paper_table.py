"""A table of a paper's figures and ours, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from encoders import table_layout
from encoders.console import Console

Figures = str | float | Sequence[float] | None
"""What a cell shows: a text, a number, or several numbers; none: nothing."""


@dataclass(frozen=True)
class PaperTable:
    """A paper's figures beside ours.

    Attributes:
        labels: heads of the first columns, which say what a row is.
        paper, ours, counts: heads of the other columns.
        digits: digits of a figure after the point.
        paper_data, our_data: the data of the paper's figures, and of ours.
    """

    title: str
    labels: Sequence[str]
    paper: Sequence[str]
    ours: Sequence[str]
    counts: Sequence[str] = ()
    digits: int = 1
    paper_data: str = ""
    our_data: str = ""
    rows: list[list[str]] = field(default_factory=list)

    def add(self, labels: Sequence[str], paper: Sequence[Figures], ours: Sequence[Figures], *counts: str) -> None:
        """Add a row; the paper's cells are blank if it has no figures."""
        paper_cells = [self._cell(figures) for figures in paper] or [""] * len(self.paper)
        self.rows.append([*labels, *paper_cells, *(self._cell(figures) for figures in ours), *counts])

    def show(self, console: Console) -> None:
        """Print the table."""
        figure_columns = [f">{head}" for head in (*self.paper, *self.ours, *self.counts)]
        console.print([table_layout.Table([*self.labels, *figure_columns], self.rows, self.title)])
        show_data(self.paper_data, self.our_data, console)

    def _cell(self, figures: Figures) -> str:
        if figures is None or isinstance(figures, str):
            return figures or ""
        numbers = [figures] if isinstance(figures, (int, float)) else figures
        return " ".join(f"{number:.{self.digits}f}" for number in numbers)


def show_data(paper: str, ours: str, console: Console) -> None:
    """Print which data a paper's figures are of, and which ours are of."""
    if paper or ours:
        console.print(f"the paper's data: {paper}")
        console.print(f"here: {ours}")


def data_json(paper: str, ours: str) -> dict[str, str]:
    """The same as JSON values."""
    return {"paper_data": paper, "our_data": ours}


def documents_in_words(counts: Mapping[str, int]) -> str:
    """Numbers of documents by language, such as ``de 12, fi 3,400``."""
    return ", ".join(f"{lang} {count:,}" for lang, count in counts.items())
