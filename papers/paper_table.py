"""A table of a paper's figures and ours, side by side."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from encoders import table_layout
from encoders.console import Console

Figures = str | float | Sequence[float] | None
"""What a cell shows: a text, a number, or several numbers; none: nothing."""


@dataclass(frozen=True)
class PaperTable:
    """A paper's figures beside ours."""

    title: str
    labels: Sequence[str]  # heads of the first columns, which say what a row is
    paper: Sequence[str]  # heads of the columns of the paper's figures
    ours: Sequence[str]  # heads of the columns of our figures
    counts: Sequence[str] = ()  # heads of the last columns
    digits: int = 1  # of a figure after the point
    paper_data: str = ""  # what the paper's figures are of
    our_data: str = ""  # what ours are of
    rows: list[list[str]] = field(default_factory=list)

    def add(self, labels: Sequence[str], paper: Sequence[Figures], ours: Sequence[Figures], *counts: str) -> None:
        """Add a row; the paper's cells are blank if it has no figures."""
        paper_cells = [self._cell(figures) for figures in paper] or [""] * len(self.paper)
        self.rows.append([*labels, *paper_cells, *(self._cell(figures) for figures in ours), *counts])

    def show(self, console: Console) -> None:
        """Print the table."""
        figure_columns = [f">{head}" for head in (*self.paper, *self.ours, *self.counts)]
        console.print([table_layout.Table([*self.labels, *figure_columns], self.rows, self.title)])
        if self.paper_data or self.our_data:
            console.print(f"the paper's data: {self.paper_data}")
            console.print(f"here: {self.our_data}")

    def data_json(self) -> dict[str, str]:
        """What the paper's figures are of, and ours, as JSON values."""
        return {"paper_data": self.paper_data, "our_data": self.our_data}

    def _cell(self, figures: Figures) -> str:
        if figures is None or isinstance(figures, str):
            return figures or ""
        numbers = [figures] if isinstance(figures, (int, float)) else figures
        return " ".join(f"{number:.{self.digits}f}" for number in numbers)


def documents_in_words(counts: Mapping[str, int]) -> str:
    """Numbers of documents by language, such as ``de 12, fi 3,400``."""
    return ", ".join(f"{lang} {count:,}" for lang, count in counts.items())


@cache
def published(paper: str) -> dict[str, Any]:
    """The figures of a paper, by the names of its file."""
    return tomllib.loads((Path(__file__).parent / "figures" / f"{paper}.toml").read_text(encoding="utf-8"))


def by_pair(rows: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Rows by pair of languages, from names like ``de-fi``."""
    pairs = {}
    for name, row in rows.items():
        first, _, second = name.partition("-")
        pairs[first, second] = row
    return pairs
