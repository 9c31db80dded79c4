"""The guide to a paper's evaluation: its commands run as they stand there, and give what it says."""

import csv
import json
import re
import shlex
from pathlib import Path

import ir_measures
import pytest

from encoders.folder.model_folder import ModelFolder
from query.cli import run
from trials import DEMO, ROOT

pytestmark = pytest.mark.parts
GUIDE = ROOT / "docs" / "guides" / "paper.md"


def commands() -> list[list[str]]:
    """The commands of the guide, as a shell splits them."""
    blocks = re.findall(r"```\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_the_walk_of_a_paper_gives_its_tables(
    default_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    (tmp_path / "query").mkdir()
    (tmp_path / "query" / "demo").symlink_to(DEMO)
    monkeypatch.chdir(tmp_path)
    for program, *arguments in commands():
        assert program == "dragoman"
        assert run(arguments) == 0, arguments
    written = {"systems.tex", "systems.csv", "german.tex", "pairs.tex", "pairs.csv", "pairs.png", "topics.png"}
    assert written <= {file.name for file in tmp_path.iterdir()}
    systems = {(row["system"], row["measure"]): row for row in rows_of(tmp_path / "systems.csv")}
    assert {system for system, _ in systems} == {"plain cosine", "ranked fairly", "first", "second"}
    assert float(systems["ranked fairly", "AP"]["mean"]) > float(systems["plain cosine", "AP"]["mean"])
    assert float(systems["ranked fairly", "LPR"]["mean"]) < float(systems["plain cosine", "LPR"]["mean"])
    german = (tmp_path / "german.tex").read_text(encoding="utf-8")
    assert "{}BM25 &" in german
    assert len(rows_of(tmp_path / "pairs.csv")) == 9
    capsys.readouterr()
    assert run(["runs", "show", "2", "--json"]) == 0
    means = json.loads(capsys.readouterr().out)["means"]
    measures = [ir_measures.parse_measure(name) for name in ("AP", "nDCG@10", "R@100")]
    judged = ir_measures.read_trec_qrels(str(tmp_path / "fair.txt.qrels"))
    figures = ir_measures.pytrec_eval.calc_aggregate(measures, judged, ir_measures.read_trec_run("fair.txt"))
    assert {str(measure): value for measure, value in figures.items()} == {
        str(measure): pytest.approx(means[str(measure)], abs=1e-12) for measure in measures
    }
