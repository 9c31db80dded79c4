"""Pairs of languages from ``dragoman evaluate --pairs`` to the files of a paper, beside a run of another system."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ir_measures
import pytest

from indexer.collection.settings import Settings
from query.cli import run
from trials import DEMO

pytestmark = pytest.mark.parts
JUDGED = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de,ru"]
PAIRS = ["de-de", "de-ru", "ru-de", "ru-ru"]


@dataclass(frozen=True)
class Evaluated:
    """Two logged evaluations of two languages; ``file`` is the pooled run of the plain evaluation."""

    fair: str
    plain: str
    file: Path
    home: list[str]
    capsys: pytest.CaptureFixture[str]

    def emitted(self, *arguments: str) -> Any:
        self.capsys.readouterr()
        assert run([*arguments, "--json", *self.home]) == 0
        return json.loads(self.capsys.readouterr().out)


EVALUATE = ["evaluate", *JUDGED, "-c", "demo", "--to", "de,ru", "--pairs", "--baseline", "none"]


@pytest.fixture
def evaluated(calibrated: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Evaluated:
    numbers = list[str]()
    file = tmp_path / "plain.txt"
    home = ["--home", str(calibrated.home)]
    for options in (list[str](), ["--calibration", "none", "--run-file", str(file)]):
        capsys.readouterr()
        assert run([*EVALUATE, *options, *home, "--json"]) == 0
        numbers.append(str(json.loads(capsys.readouterr().out)["evaluation"]))
    fair, plain = numbers
    return Evaluated(fair, plain, file, home, capsys)


def names(matrix: Any) -> dict[str, float]:
    """Means by the names of the pairs."""
    return {pair["run"].partition(".")[2]: float(pair["mean"]) for pair in matrix["pairs"]}


def test_pairs_are_logged_tested_and_written(evaluated: Evaluated, tmp_path: Path) -> None:
    files = [str(tmp_path / f"pairs.{ending}") for ending in ("csv", "tex", "png")]
    fair, plain = evaluated.fair, evaluated.plain
    matrix = evaluated.emitted("runs", "pairs", fair, "--against", plain, *(f"-o{file}" for file in files))
    assert [pair["run"] for pair in matrix["pairs"]] == [f"{fair}.{name}" for name in PAIRS]
    assert all(0 < pair["p"] <= pair["p_holm"] <= 1 for pair in matrix["pairs"])
    assert all(Path(file).stat().st_size for file in files)
    shown = evaluated.emitted("runs", "show", f"{fair}.de-ru")
    assert (shown["kind"], shown["lang"]) == ("pair", "de")
    assert shown["means"]["AP"] == pytest.approx(matrix["pairs"][1]["mean"])
    evaluated.capsys.readouterr()
    assert run([*EVALUATE, "--compare", plain, *evaluated.home]) == 0
    printed = evaluated.capsys.readouterr().out
    assert "MAP by pair, evaluation" in printed
    assert f"against {plain}: ▲" in printed


def test_the_run_of_another_system_has_pairs_and_fairness_by_a_collections_languages(evaluated: Evaluated) -> None:
    imported = ["runs", "import", str(evaluated.file), *JUDGED, "-c", "demo", "--pairs", "--compare", evaluated.plain]
    theirs = evaluated.emitted(*imported)
    ours = names(evaluated.emitted("runs", "pairs", evaluated.plain))
    assert list(ours) == PAIRS
    assert {name: mean for name, mean in names(theirs["pairs"]).items() if name in ours} == pytest.approx(ours)
    assert {"own-language", "PEER@100", "TLR@20", "LPR"} <= theirs["runs"][-1]["means"].keys()


def test_documents_that_the_collection_lacks_are_in_no_pair(evaluated: Evaluated) -> None:
    topics = sorted({line.split(" ", 1)[0] for line in evaluated.file.read_text().splitlines()})
    strangers = "".join(f"{topic} Q0 stranger 1 9.0 theirs\n" for topic in topics)
    lines = (line.split(" ") for line in evaluated.file.read_text().splitlines())
    shifted = "".join(f"{qid} Q0 {doc_id} {int(rank) + 1} {score} theirs\n" for qid, _, doc_id, rank, score, _ in lines)
    (other := evaluated.file.with_name("strangers.txt")).write_text(strangers + shifted)
    judged = [*JUDGED, "-c", "demo", "--pairs"]
    ours = evaluated.emitted("runs", "import", str(evaluated.file), *judged)
    theirs = evaluated.emitted("runs", "import", str(other), *judged)
    assert names(theirs["pairs"]) == names(ours["pairs"])
    assert any("ranked documents that the collection does not have: 1" in remark for remark in theirs["remarks"])
    assert theirs["runs"][-1]["means"]["AP"] < ours["runs"][-1]["means"]["AP"]


def test_a_run_file_is_compared_pair_by_pair(evaluated: Evaluated) -> None:
    compared = evaluated.emitted(*EVALUATE, "--calibration", "none", "--compare", str(evaluated.file))
    assert {pair["difference"] for pair in compared["pairs"]["pairs"]} == {0.0}


@pytest.mark.parametrize("name", ["all", "de-ru"])
def test_trec_eval_gives_the_figures_of_runs_in_some_languages_of_documents(
    evaluated: Evaluated, tmp_path: Path, name: str
) -> None:
    exported, run_id = tmp_path / "run.txt", f"{evaluated.fair}.{name}"
    qrels = ["--qrels", str(DEMO / "qrels.txt")]
    assert run(["runs", "export", run_id, "-o", str(exported), *qrels, *evaluated.home]) == 0
    means = evaluated.emitted("runs", "show", run_id)["means"]
    measures = [ir_measures.parse_measure(measure) for measure in ("AP", "nDCG@10", "R@100")]
    judgements = list(ir_measures.read_trec_qrels(f"{exported}.qrels"))
    figures = ir_measures.pytrec_eval.calc_aggregate(measures, judgements, ir_measures.read_trec_run(str(exported)))
    assert {str(measure): value for measure, value in figures.items()} == {
        str(measure): pytest.approx(means[str(measure)], abs=1e-12) for measure in measures
    }


def test_pairs_that_nobody_logged_are_one_sentence(evaluated: Evaluated) -> None:
    number = evaluated.emitted("evaluate", *JUDGED, "-c", "demo", "--baseline", "none")["evaluation"]
    assert run(["runs", "pairs", str(number), *evaluated.home]) == 1
    assert f"evaluation {number} has no pairs of languages; log them with" in evaluated.capsys.readouterr().err
    assert run(["runs", "import", str(evaluated.file), *JUDGED, "--pairs", *evaluated.home]) == 1
    assert "only a collection knows the languages of the documents" in evaluated.capsys.readouterr().err
    (elsewhere := evaluated.file.with_name("elsewhere.txt")).write_text("D01.de Q0 somewhere 1 1.0 theirs\n")
    (qrels := evaluated.file.with_name("qrels.txt")).write_text("D01 0 somewhere 1\n")
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(qrels), "--langs", "de,ru"]
    assert run(["runs", "import", str(elsewhere), *judged, "-c", "demo", *evaluated.home]) == 1
    assert "has none of the ranked or judged documents" in evaluated.capsys.readouterr().err
