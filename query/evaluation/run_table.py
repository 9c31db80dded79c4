"""The table of a paper: a row for each run, a column for each measure, marks where a run differs from the first."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from encoders.errors import BadInput
from query.evaluation.output_files import write_lines
from query.evaluation.significance import ALPHA, Comparison

_ESCAPES = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)


@dataclass(frozen=True)
class TableRow:
    """A run of the table.

    Attributes:
        run: the run's id.
        system: the run's tag.
        means: by measure.
    """

    run: str
    system: str
    means: Mapping[str, float]


@dataclass(frozen=True)
class RunTable:
    """Runs over the same topics; ``comparisons`` are those with the first run, by run and measure."""

    measures: Sequence[str]
    rows: Sequence[TableRow]
    comparisons: Mapping[tuple[str, str], Comparison]

    @classmethod
    def of(cls, measures: Sequence[str], rows: Sequence[TableRow], comparisons: Sequence[Comparison]) -> RunTable:
        """The table of runs that were compared with the first of them."""
        return cls(measures, rows, {(comparison.run, comparison.measure): comparison for comparison in comparisons})

    def write(self, path: Path) -> None:
        """Write the table as the file's ending says: .csv or .tex.

        Raises:
            BadInput: the ending is another, or the file can't be written.
        """
        forms = {".csv": self.as_csv, ".tex": self.as_latex}
        if path.suffix not in forms:
            raise BadInput(f"{path} has no ending of a table; name it .csv or .tex")
        write_lines(path, [forms[path.suffix]()])

    def as_csv(self) -> str:
        """A line for each run and measure."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["run", "system", "measure", "mean", "difference", "p", "p_holm"])
        for row in self.rows:
            for measure in self.measures:
                comparison = self.comparisons.get((row.run, measure))
                tested = ["", "", ""]
                if comparison:
                    figures = (comparison.difference, comparison.p_randomisation, comparison.p_holm)
                    tested = [f"{figure:.6g}" for figure in figures]
                writer.writerow([row.run, row.system, measure, f"{row.means[measure]:.6f}", *tested])
        return lines.getvalue()

    def as_latex(self) -> str:
        """A table for the package booktabs; the best mean of each measure is bold."""
        best = {measure: max(row.means[measure] for row in self.rows) for measure in self.measures}
        lines = []
        for row in self.rows:
            cells = []
            for measure in self.measures:
                figure = f"{row.means[measure]:.3f}"
                if row.means[measure] == best[measure]:
                    figure = rf"\textbf{{{figure}}}"
                cells.append(figure + self._mark(row.run, measure))
            lines.append(rf"{row.system.translate(_ESCAPES)} & {' & '.join(cells)} \\")
        headings = ["MAP" if measure == "AP" else measure.translate(_ESCAPES) for measure in self.measures]
        first = self.rows[0].run
        return "\n".join(
            [
                f"% triangles: against run {first}, p < {ALPHA:g}, randomisation over topics, Holm over all shown;",
                r"% needs \usepackage{booktabs,amssymb}",
                rf"\begin{{tabular}}{{l{'r' * len(self.measures)}}}",
                r"\toprule",
                rf"system & {' & '.join(headings)} \\",
                r"\midrule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )

    def _mark(self, run: str, measure: str) -> str:
        comparison = self.comparisons.get((run, measure))
        return LATEX_MARKS[comparison.mark] if comparison else ""


LATEX_MARKS = {"▲": r"$^{\blacktriangle}$", "▼": r"$^{\blacktriangledown}$", "": ""}
"""Marks of ``Comparison.mark`` in LaTeX."""
