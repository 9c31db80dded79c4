"""The pair matrix: topics in each language against documents in each, tested against another run's (Holm)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoders.errors import BadInput
from query.evaluation.run_table import LATEX_MARKS, TABLES, booktabs, csv_text
from query.measures.significance import ALPHA, Comparison, Topics, compare, corrected
from query.trec_files.output_files import require_writable, write_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATRICES = (*TABLES, ".png", ".svg", ".pdf")
"""Endings of a matrix's file."""


@dataclass(frozen=True)
class PairRun:
    """The run of one pair of languages."""

    run: str  # the run's id
    lang: str  # language of the topics; ``documents`` is that of the documents
    documents: str
    scores: Topics  # by topic id and measure

    @property
    def pair(self) -> tuple[str, str]:
        """Language of the topics, and language of the documents."""
        return self.lang, self.documents

    def qids(self, measure: str) -> set[str]:
        """Ids of the topics that have a value of the measure."""
        return {qid for qid, values in self.scores.items() if measure in values}


@dataclass(frozen=True)
class PairMatrix:
    """One measure of a pair of languages in each cell."""

    name: str  # the evaluation whose pairs these are; ``against`` is what they are compared with, empty if nothing is
    measure: str
    runs: Sequence[PairRun]  # a run for each cell; a pair without relevant documents has no cell
    against: str = ""
    comparisons: dict[tuple[str, str], Comparison] = field(default_factory=dict)  # by pair that both have

    @cached_property
    def means(self) -> dict[tuple[str, str], float]:
        """Mean over the topics, by pair."""
        return {run.pair: float(np.mean([values[self.measure] for values in run.scores.values()])) for run in self.runs}

    @cached_property
    def langs(self) -> list[str]:
        """Languages of topics: the rows."""
        return list(dict.fromkeys(run.lang for run in self.runs))

    @cached_property
    def documents(self) -> list[str]:
        """Languages of documents: the columns."""
        places = {lang: place for place, lang in enumerate(self.langs)}
        return sorted({run.documents for run in self.runs}, key=lambda lang: (places.get(lang, len(places)), lang))

    @property
    def mean(self) -> float:
        """Mean over all cells."""
        return float(np.mean(list(self.means.values())))

    @property
    def cross_mean(self) -> float | None:
        """Mean over the cells of two languages; none if there is no such cell."""
        values = [value for (lang, documents), value in self.means.items() if lang != documents]
        return float(np.mean(values)) if values else None

    def cell(self, lang: str, documents: str, empty: str = "–") -> str:
        """A pair's mean with its mark; ``empty`` if no document of the pair is relevant."""
        pair = lang, documents
        return f"{self.means[pair]:.3f}{self.mark(pair)}" if pair in self.means else empty

    def mark(self, pair: tuple[str, str]) -> str:
        """Whether a pair's mean is significantly higher or lower than in the other evaluation; empty: neither."""
        return self.comparisons[pair].mark if pair in self.comparisons else ""


def pair_matrix(
    name: str, measure: str, runs: Sequence[PairRun], against: str = "", earlier: Sequence[PairRun] = ()
) -> PairMatrix:
    """An evaluation's pairs, tested where the earlier one has common topics. Raises BadInput: none can be tested."""
    if not runs:
        raise BadInput(f"evaluation {name} has no pairs of languages; log them with: dragoman evaluate … --pairs")
    if any(measure not in values for run in runs for values in run.scores.values()):
        measured = next(iter(runs[0].scores.values()))
        raise BadInput(f"the pairs of {name} were not measured with {measure}; choose one of {', '.join(measured)}")
    by_pair = {run.pair: run for run in earlier}
    pairs = [(by_pair[run.pair], run) for run in runs if run.pair in by_pair]
    shared = [(other, run) for other, run in pairs if other.qids(measure) & run.qids(measure)]
    if against and not shared:
        raise BadInput(
            f"evaluations {against} and {name} have no pair of languages in common whose topics both measured with "
            f"{measure}; compare evaluations of the same pairs"
        )
    compared = [compare(other.run, other.scores, run.run, run.scores, [measure])[0] for other, run in shared]
    by_comparison = {run.pair: comparison for (_, run), comparison in zip(shared, corrected(compared), strict=True)}
    return PairMatrix(name, measure, runs, against, by_comparison)


def write_matrix(matrix: PairMatrix, path: Path) -> None:
    """Write a matrix as .csv, .tex or picture. Raises BadInput: the ending is another, or the file can't be written."""
    require_writable(path, MATRICES)
    if (ending := path.suffix.lower()) in TABLES:
        write_lines(path, [as_csv(matrix) if ending == ".csv" else as_latex(matrix)])
    else:
        from query.evaluation.drawing import save_figure  # noqa: PLC0415 - matplotlib is only for this

        save_figure(matrix_figure(matrix), path)


def as_csv(matrix: PairMatrix) -> str:
    """A line for each pair."""
    compared = ["against", "mean_against", "difference", "p", "p_holm"] if matrix.against else []
    rows: list[list[object]] = [["topics", "documents", "measure", "count", "mean", *compared]]
    for run in matrix.runs:
        row: list[object] = [run.lang, run.documents, matrix.measure, len(run.scores), f"{matrix.means[run.pair]:.6f}"]
        if comparison := matrix.comparisons.get(run.pair):
            row += [comparison.baseline, f"{comparison.baseline_mean:.6f}", f"{comparison.difference:.6f}"]
            row += [f"{comparison.p_randomisation:.6g}", f"{comparison.p_holm:.6g}"]
        rows.append(row + [""] * (len(rows[0]) - len(row)))
    return csv_text(rows)


def as_latex(matrix: PairMatrix) -> str:
    """A table for the package booktabs: topic languages as rows, document languages as columns."""
    rows = []
    for lang in matrix.langs:
        cells = [
            f"{matrix.means[lang, documents]:.3f}{LATEX_MARKS[matrix.mark((lang, documents))]}"
            if (lang, documents) in matrix.means
            else "--"
            for documents in matrix.documents
        ]
        rows.append(rf"{lang} & {' & '.join(cells)} \\")
    about = f"{matrix.measure}, topics (rows) against documents (columns), evaluation {matrix.name}"
    if matrix.against:
        about += f"; triangles: against {matrix.against}, p < {ALPHA}, randomisation test, Holm over all tested pairs"
    return booktabs(about, ["", *matrix.documents], rows)


def matrix_figure(matrix: PairMatrix) -> "Figure":
    """Draw the matrix: the darker a cell, the higher its mean."""
    from query.evaluation.drawing import empty_figure, heat_map, plain_texts  # noqa: PLC0415 - half a second

    langs, documents = matrix.langs, matrix.documents
    values = np.array([[matrix.means.get((lang, code), np.nan) for code in documents] for lang in langs])
    figure = empty_figure(max(3.5, 0.72 * values.shape[1] + 1.5), max(2.5, 0.5 * len(values) + 1.2))
    with plain_texts():
        axes = figure.subplots()
        texts = [[matrix.cell(lang, code, "") for code in documents] for lang in langs]
        heat_map(axes, values, (langs, documents), "YlGnBu", lambda row, column: texts[row][column])
        axes.set(xlabel="documents", ylabel="topics")
        against = f", against {matrix.against}" if matrix.against else ""
        axes.set_title(f"{matrix.measure}, evaluation {matrix.name}{against}", fontsize=10, loc="left")
    return figure
