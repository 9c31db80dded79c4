"""Pairs of languages and runs as matrices and tables of a paper: runs, tests, the files."""

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from encoders.console import Console
from encoders.errors import BadInput
from query.commands.output.comparisons import matrix_parts
from query.evaluation.pair_matrix import PairRun, as_csv, as_latex, pair_matrix, write_matrix
from query.evaluation.run_table import RunTable, TableRow
from query.evaluation.scored_runs import EvaluationPlan
from query.evaluation.topic_ranking import rank_and_score
from query.measures.quality_measures import parse_measures
from query.measures.significance import compare, corrected, holm
from query.trec_files.topic_set import by_language
from tests.query.evaluation.test_scored_runs import QRELS, TOPICS, word_searcher


def runs_of(name: str, values: Mapping[str, list[float]]) -> list[PairRun]:
    """Runs of pairs such as ``de-fi`` with a value for each of their topics."""
    runs = []
    for pair, of_pair in values.items():
        lang, documents = pair.split("-")
        scores = {str(qid): {"AP": value} for qid, value in enumerate(of_pair)}
        runs.append(PairRun(f"{name}.{pair}", lang, documents, scores))
    return runs


OURS = runs_of("1", {"de-de": [0.9] * 14, "de-fi": [0.5, 0.6] * 7, "fi-de": [0.2] * 14})
THEIRS = runs_of("2", {"de-de": [0.8] * 14, "de-fi": [0.6, 0.5] * 7, "fi-de": [0.3] * 14, "fi-fi": [1.0] * 14})


def test_a_pair_is_what_a_search_in_one_language_of_documents_alone_gives(tmp_path: Path) -> None:
    topics = by_language(TOPICS)
    plan = EvaluationPlan(parse_measures(["AP", "P@10"]), "words", baseline="none", pairs=True)
    steps = list[int]()
    with word_searcher(tmp_path / "store") as searcher:
        runs = {run.name: run for run in rank_and_score(searcher, topics, QRELS, plan, steps.append).runs}
        assert list(runs) == ["de", "de-de", "de-en", "de-fi", "en", "en-de", "en-en", "en-fi", "all"]
        assert sum(steps) == 4 * len(TOPICS)
        for lang, documents in (("de", "fi"), ("en", "de"), ("en", "en")):
            alone = EvaluationPlan(plan.measures, "words", to=[documents], baseline="none")
            (expected,) = rank_and_score(searcher, {lang: topics[lang]}, QRELS, alone).runs
            pair = runs[f"{lang}-{documents}"]
            assert (pair.lang, pair.documents, pair.kind) == (lang, documents, "pair")
            assert (pair.scores, pair.trec) == (expected.scores, expected.trec)
        steps.clear()
        english = EvaluationPlan(plan.measures, "words", to=["en"], pairs=True)
        found = rank_and_score(searcher, topics, QRELS, english, steps.append).runs
    assert [run.name for run in found if run.kind == "pair"] == ["de-en", "en-en"]
    assert sum(steps) == len(TOPICS)  # none is ranked twice


def test_a_matrix_is_tested_with_holms_correction_over_all_shared_pairs() -> None:
    matrix = pair_matrix("1", "AP", OURS, "2", THEIRS)
    pairs = zip(OURS, THEIRS, strict=False)
    p_values = [compare("2", two.scores, "1", one.scores, ["AP"])[0].p_randomisation for one, two in pairs]
    corrected_values = dict(zip(("de-de", "de-fi", "fi-de"), holm(p_values), strict=True))
    assert {"-".join(pair): one.p_holm for pair, one in matrix.comparisons.items()} == corrected_values
    assert [matrix.mark(run.pair) for run in OURS] == ["▲", "", "▼"]
    assert matrix.means == pytest.approx({("de", "de"): 0.9, ("de", "fi"): 0.55, ("fi", "de"): 0.2})
    assert (matrix.mean, matrix.cross_mean) == pytest.approx((0.55, 0.375))
    elsewhere = PairRun("2.de-fi", "de", "fi", {"other": {"AP": 1.0}})  # has no topic in common
    assert list(pair_matrix("1", "AP", OURS, "2", [THEIRS[0], elsewhere]).comparisons) == [("de", "de")]


def test_a_matrix_is_written_as_csv_latex_and_pictures(tmp_path: Path) -> None:
    matrix, alone = pair_matrix("1", "AP", OURS, "2", THEIRS), pair_matrix("1", "AP", OURS)
    for ending in ("csv", "tex", "png", "svg", "pdf"):
        write_matrix(matrix, tmp_path / f"pairs.{ending}")
        assert (tmp_path / f"pairs.{ending}").stat().st_size
    rows = csv.DictReader((tmp_path / "pairs.csv").read_text(encoding="utf-8").splitlines())
    shown = [f"{row['topics']} {row['documents']} {row['mean']} {row['difference']}" for row in rows]
    assert shown == ["de de 0.900000 0.100000", "de fi 0.550000 0.000000", "fi de 0.200000 -0.100000"]
    lines = as_latex(matrix).splitlines()
    assert lines[1] == r"\begin{tabular}{lrr}"
    assert r"de & 0.900$^{\blacktriangle}$ & 0.550 \\" in lines
    assert r"fi & 0.200$^{\blacktriangledown}$ & -- \\" in lines
    assert as_csv(alone).splitlines()[0] == "topics,documents,measure,count,mean"
    assert "triangles" not in as_latex(alone)
    with pytest.raises(BadInput, match=r"has none of the known endings: \.csv, \.tex, \.png, \.svg, \.pdf"):
        write_matrix(matrix, tmp_path / "pairs.xyz")


def test_a_matrix_that_can_not_be_made_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for measure, runs, sentence in (
        ("AP", [], "evaluation 1 has no pairs of languages; log them with: dragoman evaluate"),
        ("RR", OURS, "the pairs of 1 were not measured with RR; choose one of AP"),
        ("AP", OURS[:1], "evaluations 2 and 1 have no pair of languages in common"),
    ):
        with pytest.raises(BadInput, match=sentence):
            pair_matrix("1", measure, runs, "2", THEIRS[1:])
    Console().print(matrix_parts(pair_matrix("1", "AP", OURS[:1], "2", THEIRS[:1])))
    shown = capsys.readouterr().out
    for said in ("mean over 1 pair 0.900", "▲ 1 pair higher", "over the 1 pair that both have"):
        assert said in shown


PLAIN, FAIR = ({str(qid): {"AP": value, "P@10": 0.5} for qid in range(14)} for value in (0.2, 0.4))


def test_in_latex_the_best_is_bold_and_in_csv_a_line_is_a_run_and_a_measure(tmp_path: Path) -> None:
    plain = TableRow("1.all", "plain_cosine", 14, PLAIN["0"])
    fair = TableRow("2.all", "[50% & more]", 14, FAIR["0"])
    comparisons = corrected(compare("1.all", PLAIN, "2.all", FAIR, ["AP", "P@10"]))
    table = RunTable.of(["AP", "P@10"], [plain, fair], comparisons)
    lines = table.as_latex().splitlines()
    assert r"system & MAP & P@10 \\" in lines
    assert r"{}plain\_cosine & 0.200 & \textbf{0.500} \\" in lines
    assert r"{}[50\% \& more] & \textbf{0.400}$^{\blacktriangle}$ & \textbf{0.500} \\" in lines
    table.write(tmp_path / "systems.csv")
    rows = list(csv.DictReader((tmp_path / "systems.csv").read_text(encoding="utf-8").splitlines()))
    assert [" ".join((row["run"], row["measure"], row["mean"], row["difference"])) for row in rows] == [
        "1.all AP 0.200000 ", "1.all P@10 0.500000 ", "2.all AP 0.400000 0.2", "2.all P@10 0.500000 0"
    ]  # fmt: skip
    assert float(rows[2]["p_holm"]) < 0.05
    with pytest.raises(BadInput, match=r"has none of the known endings: \.csv, \.tex"):
        table.write(tmp_path / "systems.txt")


def test_systems_of_one_name_are_told_apart_and_nothing_is_bold_that_is_not_better() -> None:
    rows = [TableRow("1.de", "fair", 2, {"AP": 0.2}), TableRow("2.de", "fair", 1, {"AP": 0.4})]  # over other topics
    comparisons = compare("1.de", {"1": {"AP": 0.2}, "2": {"AP": 0.2}}, "2.de", {"1": {"AP": 0.4}}, ["AP"])
    lines = RunTable.of(["AP"], rows, comparisons).as_latex().splitlines()
    assert r"{}fair (1.de), 2 topics & 0.200 \\" in lines
    assert r"{}fair (2.de), 1 topic & 0.400 \\" in lines
    shares = [TableRow("1.de", "plain", 1, {"LPR": 1.0}), TableRow("2.de", "fair", 1, {"LPR": 0.5})]
    assert "textbf" not in RunTable.of(["LPR"], shares, []).as_latex()
