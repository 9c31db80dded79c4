"""Pairs of languages from ``dragoman evaluate --pairs`` to the files of a paper, beside a run of another system."""

import csv
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ir_measures
import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.report.study import RANKINGS
from tests.query.conftest import Command
from trials import DEMO, ROOT

pytestmark = pytest.mark.parts
JUDGED = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de,ru"]
PAIRS = ["de-de", "de-ru", "ru-de", "ru-ru"]
EVALUATE = ["evaluate", *JUDGED, "-c", "demo", "--to", "de,ru", "--pairs", "--baseline", "none"]


@dataclass(frozen=True)
class Evaluated:
    """Two logged evaluations of two languages; ``file`` is the pooled run of the plain evaluation."""

    fair: str
    plain: str
    file: Path
    dragoman: Command


@pytest.fixture
def evaluated(calibrated: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Evaluated:
    dragoman, file = Command(capsys, "--home", str(calibrated.home)), tmp_path / "plain.txt"
    plain = ("--calibration", "none", "--run-file", str(file))
    fair, unfair = (str(dragoman.one(*EVALUATE, *options)["evaluation"]) for options in ((), plain))
    return Evaluated(fair, unfair, file, dragoman)


def names(matrix: Any) -> dict[str, float]:
    return {pair["run"].partition(".")[2]: float(pair["mean"]) for pair in matrix["pairs"]}


def test_pairs_are_logged_tested_and_written(evaluated: Evaluated, tmp_path: Path) -> None:
    files = [str(tmp_path / f"pairs.{ending}") for ending in ("csv", "tex", "png")]
    fair, plain = evaluated.fair, evaluated.plain
    matrix = evaluated.dragoman.one("runs", "pairs", fair, "--against", plain, *(f"-o{file}" for file in files))
    assert [pair["run"] for pair in matrix["pairs"]] == [f"{fair}.{name}" for name in PAIRS]
    assert all(0 < pair["p"] <= pair["p_holm"] <= 1 for pair in matrix["pairs"])
    assert all(Path(file).stat().st_size for file in files)
    shown = evaluated.dragoman.one("runs", "show", f"{fair}.de-ru")
    assert (shown["kind"], shown["lang"]) == ("pair", "de")
    assert shown["means"]["AP"] == pytest.approx(matrix["pairs"][1]["mean"])
    printed = evaluated.dragoman(*EVALUATE, "--compare", plain)
    assert "MAP by pair, evaluation" in printed
    assert f"against {plain}: ▲" in printed


def test_our_own_run_is_imported_with_its_figures_pairs_and_fairness_and_with_exported_judgements(
    evaluated: Evaluated,
) -> None:
    imported = ["runs", "import", str(evaluated.file), *JUDGED, "-c", "demo", "--pairs", "--compare", evaluated.plain]
    ours = names(evaluated.dragoman.one("runs", "pairs", evaluated.plain))
    assert list(ours) == PAIRS
    unrestricted = evaluated.dragoman.one(*imported)
    assert list(names(unrestricted["pairs"])) == PAIRS  # the system was asked no other
    assert any("pairs without any hit, which are left out: de-" in remark for remark in unrestricted["remarks"])
    exported = evaluated.file.with_name("exported.txt")
    evaluated.dragoman("runs", "export", evaluated.plain, "-o", exported, "--qrels", DEMO / "qrels.txt")
    for qrels in (JUDGED[3], f"{exported}.qrels"):
        judged = [qrels if argument == JUDGED[3] else argument for argument in imported]
        theirs = evaluated.dragoman.one(*judged, "--to", "de,ru")
        assert names(theirs["pairs"]) == pytest.approx(ours)
        assert {comparison["difference"] for comparison in theirs["comparisons"]} == {0.0}
        assert {"own-language", "PEER@100", "TLR@20", "LPR"} <= theirs["runs"][-1]["means"].keys()
    number = str(unrestricted["evaluation"] + 2)
    assert "documents in de ru" in evaluated.dragoman("runs", "show", number)
    assert number in evaluated.dragoman("runs", "delete", number)
    assert "there is no run" in evaluated.dragoman("runs", "delete", number, status=1)


def test_documents_that_the_collection_lacks_are_in_no_pair(evaluated: Evaluated) -> None:
    topics = sorted({line.split(" ", 1)[0] for line in evaluated.file.read_text().splitlines()})
    strangers = "".join(f"{topic} Q0 stranger 1 9.0 theirs\n" for topic in topics)
    lines = (line.split(" ") for line in evaluated.file.read_text().splitlines())
    shifted = "".join(f"{qid} Q0 {doc_id} {int(rank) + 1} {score} theirs\n" for qid, _, doc_id, rank, score, _ in lines)
    (other := evaluated.file.with_name("strangers.txt")).write_text(strangers + shifted)
    judged = [*JUDGED, "-c", "demo", "--pairs"]
    ours = evaluated.dragoman.one("runs", "import", str(evaluated.file), *judged)
    theirs = evaluated.dragoman.one("runs", "import", str(other), *judged)
    assert names(theirs["pairs"]) == names(ours["pairs"])
    assert any("ranked documents that the collection does not have: 1" in remark for remark in theirs["remarks"])
    assert theirs["runs"][-1]["means"]["AP"] < ours["runs"][-1]["means"]["AP"]


def test_a_run_file_is_compared_pair_by_pair(evaluated: Evaluated) -> None:
    compared = evaluated.dragoman.one(*EVALUATE, "--calibration", "none", "--compare", str(evaluated.file))
    assert {pair["difference"] for pair in compared["pairs"]["pairs"]} == {0.0}


def test_trec_eval_gives_the_figures_of_runs_in_some_languages(evaluated: Evaluated, tmp_path: Path) -> None:
    exported, measures = tmp_path / "run.txt", [ir_measures.parse_measure(name) for name in ("AP", "nDCG@10", "R@100")]
    for run_id in (f"{evaluated.fair}.all", f"{evaluated.fair}.de-ru"):
        evaluated.dragoman("runs", "export", run_id, "-o", exported, "--qrels", DEMO / "qrels.txt")
        means = evaluated.dragoman.one("runs", "show", run_id)["means"]
        judgements = list(ir_measures.read_trec_qrels(f"{exported}.qrels"))
        figures = ir_measures.pytrec_eval.calc_aggregate(measures, judgements, ir_measures.read_trec_run(str(exported)))
        assert figures == {measure: pytest.approx(means[str(measure)], abs=1e-12) for measure in measures}


def test_pairs_that_nobody_logged_are_one_sentence(evaluated: Evaluated) -> None:
    dragoman = evaluated.dragoman
    number = dragoman.one("evaluate", *JUDGED, "-c", "demo", "--baseline", "none")["evaluation"]
    said = dragoman("runs", "pairs", number, status=1)
    assert f"evaluation {number} has no pairs of languages; log them with" in said
    said = dragoman("runs", "import", evaluated.file, *JUDGED, "--pairs", status=1)
    assert "only a collection knows the languages of the documents" in said
    (elsewhere := evaluated.file.with_name("elsewhere.txt")).write_text("D01.de Q0 somewhere 1 1.0 theirs\n")
    (qrels := evaluated.file.with_name("qrels.txt")).write_text("D01 0 somewhere 1\n")
    judged = ["--topics", DEMO / "topics.tsv", "--qrels", qrels, "--langs", "de,ru"]
    said = dragoman("runs", "import", elsewhere, *judged, "-c", "demo", status=1)
    assert "has none of the ranked or judged documents" in said


def commands() -> list[list[str]]:
    """The commands of the guide, as a shell splits them."""
    blocks = re.findall(r"```\n(.*?)```", (ROOT / "docs/guides/paper.md").read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_the_walk_of_a_paper_gives_its_tables(
    default_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dragoman: Command
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    (tmp_path / "query").mkdir()
    (tmp_path / "query" / "demo").symlink_to(DEMO)
    monkeypatch.chdir(tmp_path)
    (file := tmp_path / "words.tsv").write_text("Fluss\triver\nflood\tHochwasser\n", encoding="utf-8")
    lexicons = ["--lexicon", f"de-en={file}", "--lexicon", f"en-de={file}"]
    for _, *arguments in commands():
        dragoman(*arguments, *(lexicons if arguments[0] == "study" else []))
    folder, named = tmp_path / "study", {*RANKINGS, "PSQ"}
    systems = {(row["system"], row["measure"]): row for row in rows_of(folder / "systems.csv")}
    assert {system for system, _ in systems} == named
    bias = {(row["system"], row["measure"]): row for row in rows_of(folder / "bias.csv")}
    assert float(bias["fair", "LPR"]["mean"]) < float(bias["plain cosine", "LPR"]["mean"])
    assert float(bias["fair", "RBO"]["mean"]) > float(bias["plain cosine", "RBO"]["mean"])
    assert "{}BM25 &" in (folder / "own-language.tex").read_text(encoding="utf-8")
    assert len(rows_of(folder / "pairs.csv")) == 9
    page = re.sub(r"<[^>]*>", "", (folder / "study.html").read_text(encoding="utf-8"))
    for (system, measure), row in systems.items():
        if system != "plain cosine":
            said = page.partition(f"{'MAP' if measure == 'AP' else measure}, against plain cosine: ")[2]
            verdict = next(part for part in said.partition(", against")[0].split("; ") if f"{system} (p" in part)
            assert ("not significantly" in verdict) == (float(row["p_holm"]) >= 0.05)
    measures = [ir_measures.parse_measure(name) for name in ("AP", "nDCG@10", "R@100", "P@10")]
    for system in named:
        file = folder / f"{system.replace(' ', '-')}.run.txt"
        judgements = list(ir_measures.read_trec_qrels(f"{file}.qrels"))
        figures = ir_measures.pytrec_eval.calc_aggregate(measures, judgements, ir_measures.read_trec_run(str(file)))
        means = {name: float(systems[system, str(name)]["mean"]) for name in measures}
        assert figures == pytest.approx(means, abs=1e-6)
