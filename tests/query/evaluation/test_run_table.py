"""Runs and measures as a table for a paper."""

import csv
from pathlib import Path

import pytest

from encoders.errors import BadInput
from query.evaluation.run_table import RunTable, TableRow
from query.measures.significance import compare, corrected

PLAIN = {str(qid): {"AP": 0.2, "P@10": 0.5} for qid in range(14)}
FAIR = {str(qid): {"AP": 0.4, "P@10": 0.5} for qid in range(14)}


@pytest.fixture
def table() -> RunTable:
    rows = [
        TableRow("1.all", "plain_cosine", 14, {"AP": 0.2, "P@10": 0.5}),
        TableRow("2.all", "[50% & more]", 14, FAIR["0"]),
    ]
    return RunTable.of(["AP", "P@10"], rows, corrected(compare("1.all", PLAIN, "2.all", FAIR, ["AP", "P@10"])))


def test_in_latex_the_best_is_bold_and_what_differs_is_marked(table: RunTable) -> None:
    lines = table.as_latex().splitlines()
    assert r"system & MAP & P@10 \\" in lines
    assert r"{}plain\_cosine & 0.200 & \textbf{0.500} \\" in lines
    assert r"{}[50\% \& more] & \textbf{0.400}$^{\blacktriangle}$ & \textbf{0.500} \\" in lines


def test_shares_of_a_language_are_never_bold() -> None:
    rows = [TableRow("1.de", "plain", 1, {"LPR": 1.0}), TableRow("2.de", "fair", 1, {"LPR": 0.5})]
    assert "textbf" not in RunTable.of(["LPR"], rows, []).as_latex()


def test_a_line_of_the_csv_is_a_run_and_a_measure(table: RunTable, tmp_path: Path) -> None:
    table.write(tmp_path / "systems.csv")
    rows = list(csv.DictReader((tmp_path / "systems.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["run"], row["measure"], row["mean"], row["difference"]) for row in rows] == [
        ("1.all", "AP", "0.200000", ""),
        ("1.all", "P@10", "0.500000", ""),
        ("2.all", "AP", "0.400000", "0.2"),
        ("2.all", "P@10", "0.500000", "0"),
    ]
    assert float(rows[2]["p_holm"]) < 0.05


def test_systems_of_one_name_are_told_apart_and_nothing_is_bold_over_other_topics() -> None:
    rows = [TableRow("1.de", "fair", 2, {"AP": 0.2}), TableRow("2.de", "fair", 1, {"AP": 0.4})]
    comparisons = compare("1.de", {"1": {"AP": 0.2}, "2": {"AP": 0.2}}, "2.de", {"1": {"AP": 0.4}}, ["AP"])
    lines = RunTable.of(["AP"], rows, comparisons).as_latex().splitlines()
    assert r"{}fair (1.de) & 0.200 \\" in lines
    assert r"{}fair (2.de) & 0.400 \\" in lines


def test_another_ending_is_refused(table: RunTable, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has none of the known endings: \.csv, \.tex"):
        table.write(tmp_path / "systems.txt")


def test_topics_without_a_value_are_left_out_of_that_measure() -> None:
    plain = {"1": {"AP": 0.5, "LPR": 1.0}, "2": {"AP": 0.5}}
    fair = {"1": {"AP": 0.5, "LPR": 0.0}, "2": {"AP": 1.0}}
    average, preference = compare("a", plain, "b", fair, ["AP", "LPR"])
    assert (average.measure, average.run_mean, average.wins, average.ties) == ("AP", 0.75, 1, 1)
    assert (preference.measure, preference.differences) == ("LPR", {"1": -1.0})
    with pytest.raises(BadInput, match="the run a was not measured with RR"):
        compare("a", plain, "b", fair, ["RR"])
    with pytest.raises(BadInput, match="share no topic with LPR"):
        compare("a", plain, "b", {"1": {"AP": 1.0}, "2": {"AP": 1.0, "LPR": 1.0}}, ["LPR"])
