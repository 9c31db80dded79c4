"""The table of a paper: a row for each run, a column for each measure, marks where a run differs from the first."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from encoders.phrases import counted
from query.measures.fairness import LPR, OWN_LANGUAGE
from query.measures.quality_measures import mean_name
from query.measures.significance import ALPHA, HIGHER, LOWER, Comparison
from query.trec_files.output_files import require_writable, write_lines

TABLES = (".csv", ".tex")
"""Endings of a table's file."""
_ESCAPES = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)

LATEX_MARKS = {HIGHER: r"$^{\blacktriangle}$", LOWER: r"$^{\blacktriangledown}$", "": ""}
"""Marks of ``Comparison.mark`` in LaTeX."""


@dataclass(frozen=True)
class TableRow:
    """A run of the table."""

    run: str  # the run's id
    system: str  # the run's tag
    topics: int  # number of topics that count
    means: Mapping[str, float]  # by measure


@dataclass(frozen=True)
class RunTable:
    """Runs over the same topics; ``comparisons`` are those with the first run, by run and measure."""

    measures: Sequence[str]
    rows: Sequence[TableRow]
    comparisons: Mapping[tuple[str, str], Comparison]

    @classmethod
    def of(cls, measures: Sequence[str], rows: Sequence[TableRow], comparisons: Sequence[Comparison]) -> "RunTable":
        """The table of runs that were compared with the first; ids tell apart systems of one name."""
        names = [row.system for row in rows]
        rows = [
            replace(row, system=f"{row.system} ({row.run})") if names.count(row.system) > 1 else row for row in rows
        ]
        return cls(measures, rows, {(comparison.run, comparison.measure): comparison for comparison in comparisons})

    def label(self, row: TableRow) -> str:
        """The system of a row, with the number of its topics where rows have different numbers."""
        is_equal = len({other.topics for other in self.rows}) == 1
        return row.system if is_equal else f"{row.system}, {counted(row.topics, 'topic')}"

    def write(self, path: Path) -> None:
        """Write the table by the file's ending. Raises BadInput: it is none of ``TABLES``, or can't be written."""
        require_writable(path, TABLES)
        write_lines(path, [self.as_csv() if path.suffix.lower() == ".csv" else self.as_latex()])

    def as_csv(self) -> str:
        """A line for each run and measure."""
        rows: list[list[object]] = [["run", "system", "topics", "measure", "mean", "difference", "p", "p_holm"]]
        for row in self.rows:
            for measure in self.measures:
                comparison = self.comparisons.get((row.run, measure))
                figures = (comparison.difference, comparison.p_randomisation, comparison.p_holm) if comparison else ()
                tested = [f"{figure:.6g}" for figure in figures] or [""] * 3
                rows.append([row.run, row.system, row.topics, measure, f"{row.means[measure]:.6f}", *tested])
        return csv_text(rows)

    def as_latex(self) -> str:
        """A booktabs table; the greatest mean is bold where all runs have the same topics and more is better."""
        unequal = {measure for (_, measure), comparison in self.comparisons.items() if comparison.left_out}
        rated = [measure for measure in self.measures if measure not in {OWN_LANGUAGE, LPR, *unequal}]
        best = {measure: max(row.means[measure] for row in self.rows) for measure in rated}
        lines = []
        for row in self.rows:
            cells = []
            for measure in self.measures:
                figure, comparison = f"{row.means[measure]:.3f}", self.comparisons.get((row.run, measure))
                figure = rf"\textbf{{{figure}}}" if row.means[measure] == best.get(measure) else figure
                cells.append(figure + (LATEX_MARKS[comparison.mark] if comparison else ""))
            # {} keeps a name that begins with [ or * from being an argument of the line before
            lines.append(rf"{{}}{self.label(row).translate(_ESCAPES)} & {' & '.join(cells)} \\")
        headings = [mean_name(measure).translate(_ESCAPES) for measure in self.measures]
        first = self.rows[0].run
        about = f"triangles: higher or lower than run {first}, p < {ALPHA:g}, randomisation test, Holm's correction"
        return booktabs(about, ["system", *headings], lines)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, each with its line end."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def booktabs(about: str, headings: Sequence[str], lines: Sequence[str]) -> str:
    """A LaTeX table of finished lines, after a comment; the first column is text, the rest are figures."""
    return "\n".join(
        [
            f"% {about}; needs \\usepackage{{booktabs,amssymb}}",
            rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
            r"\toprule",
            rf"{' & '.join(headings)} \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
