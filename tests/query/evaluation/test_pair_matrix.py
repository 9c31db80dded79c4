"""Topics in each language against documents in each language: runs, tests, the files."""

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from encoders.console import Console
from encoders.errors import BadInput
from query.commands.output.comparisons import matrix_parts
from query.evaluation.pair_matrix import PairRun, as_csv, as_latex, pair_matrix, write_matrix
from query.evaluation.scored_runs import EvaluationPlan
from query.evaluation.topic_ranking import rank_and_score
from query.measures.quality_measures import parse_measures
from query.measures.significance import compare, holm
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
        assert sum(steps) == 4 * sum(map(len, topics.values()))
        for lang, documents in (("de", "fi"), ("en", "de"), ("en", "en")):
            alone = EvaluationPlan(plan.measures, "words", to=[documents], baseline="none")
            (expected,) = rank_and_score(searcher, {lang: topics[lang]}, QRELS, alone).runs
            pair = runs[f"{lang}-{documents}"]
            assert (pair.lang, pair.documents, pair.kind) == (lang, documents, "pair")
            assert pair.scores == expected.scores
            assert pair.trec == expected.trec


def test_pairs_of_a_single_language_of_documents_are_not_ranked_twice(tmp_path: Path) -> None:
    steps = list[int]()
    plan = EvaluationPlan(parse_measures(["AP"]), "words", to=["en"], pairs=True)
    with word_searcher(tmp_path / "store") as searcher:
        runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan, steps.append).runs
    assert [run.name for run in runs if run.kind == "pair"] == ["de-en", "en-en"]
    assert sum(steps) == len(TOPICS)


def test_a_matrix_is_tested_with_holms_correction_over_all_shared_pairs() -> None:
    matrix = pair_matrix("1", "AP", OURS, "2", THEIRS)
    p_values = [
        compare("2", theirs.scores, "1", ours.scores, ["AP"])[0].p_randomisation
        for ours, theirs in zip(OURS, THEIRS, strict=False)
    ]
    corrected = dict(zip(("de-de", "de-fi", "fi-de"), holm(p_values), strict=True))
    assert {"-".join(pair): one.p_holm for pair, one in matrix.comparisons.items()} == corrected
    assert [matrix.mark(run.pair) for run in OURS] == ["▲", "", "▼"]
    assert matrix.means == pytest.approx({("de", "de"): 0.9, ("de", "fi"): 0.55, ("fi", "de"): 0.2})
    assert matrix.mean == pytest.approx(0.55)
    assert matrix.cross_mean == pytest.approx(0.375)


def test_a_matrix_is_written_as_csv_latex_and_pictures(tmp_path: Path) -> None:
    matrix = pair_matrix("1", "AP", OURS, "2", THEIRS)
    for ending in ("csv", "tex", "png", "svg", "pdf"):
        write_matrix(matrix, tmp_path / f"pairs.{ending}")
        assert (tmp_path / f"pairs.{ending}").stat().st_size
    rows = list(csv.DictReader((tmp_path / "pairs.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["topics"], row["documents"], row["mean"], row["difference"]) for row in rows] == [
        ("de", "de", "0.900000", "0.100000"),
        ("de", "fi", "0.550000", "0.000000"),
        ("fi", "de", "0.200000", "-0.100000"),
    ]
    lines = as_latex(matrix).splitlines()
    assert lines[1] == r"\begin{tabular}{lrr}"
    assert r"de & 0.900$^{\blacktriangle}$ & 0.550 \\" in lines
    assert r"fi & 0.200$^{\blacktriangledown}$ & -- \\" in lines
    with pytest.raises(BadInput, match=r"has none of the known endings: \.csv, \.tex, \.png, \.svg, \.pdf"):
        write_matrix(matrix, tmp_path / "pairs.xyz")


def test_a_matrix_without_a_comparison_has_no_columns_of_a_comparison() -> None:
    matrix = pair_matrix("1", "AP", OURS)
    assert as_csv(matrix).splitlines()[0] == "topics,documents,measure,count,mean"
    assert "triangles" not in as_latex(matrix)


def test_a_pair_without_a_common_topic_is_not_tested() -> None:
    elsewhere = PairRun("2.de-fi", "de", "fi", {"other": {"AP": 1.0}})
    matrix = pair_matrix("1", "AP", OURS, "2", [THEIRS[0], elsewhere])
    assert list(matrix.comparisons) == [("de", "de")]


def test_a_single_pair_is_counted_in_the_singular(capsys: pytest.CaptureFixture[str]) -> None:
    Console().print(matrix_parts(pair_matrix("1", "AP", OURS[:1], "2", THEIRS[:1])))
    shown = capsys.readouterr().out
    assert "mean over 1 pair 0.900" in shown
    assert "▲ 1 pair higher" in shown
    assert "over the 1 pair that both have" in shown


def test_a_matrix_that_can_not_be_made_is_one_sentence() -> None:
    with pytest.raises(BadInput, match=r"evaluation 1 has no pairs of languages; log them with: dragoman evaluate"):
        pair_matrix("1", "AP", [])
    with pytest.raises(BadInput, match="the pairs of 1 were not measured with RR; choose one of AP"):
        pair_matrix("1", "RR", OURS)
    with pytest.raises(BadInput, match="evaluations 2 and 1 have no pair of languages in common"):
        pair_matrix("1", "AP", OURS[:1], "2", THEIRS[1:])
