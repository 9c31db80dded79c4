"""TREC's files: what is written and read of runs, and relevance judgements."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import Qrel

from encoders.errors import BadInput
from query.trec_files.qrels import read_qrels
from query.trec_files.trec_run import Run

ids = st.text(min_size=1, max_size=12)
awkward = st.text(alphabet=" %2052a\u00a0\u3000\t\nCE80", min_size=1, max_size=12)
scores = st.floats(-1e6, 1e6, width=32)
rankings = st.dictionaries(
    ids | awkward,
    st.lists(st.tuples(ids | awkward, scores), min_size=1, max_size=8, unique_by=lambda scored: scored[0]),
    min_size=1,
    max_size=4,
)


@given(tag=ids | awkward, rankings=rankings)
def test_a_run_comes_back_in_the_order_given(tag: str, rankings: dict[str, list[tuple[str, float]]]) -> None:
    run = Run(tag, rankings)
    assert Run.from_trec(run.to_trec().split("\n"), "run.txt") == run
    for qid, ranking in rankings.items():
        assert [doc_id for doc_id, _ in run.rankings[qid]] == [doc_id for doc_id, _ in ranking]
        values = np.array([score for _, score in run.rankings[qid]], dtype=np.float32)
        assert (np.diff(values) < 0).all()


def test_trec_eval_sees_ties_in_our_order_and_falling_scores_are_left_alone() -> None:
    ranking = [("a", 1.0), ("z", 1.0), ("b", 1.0 - 1e-9)]
    values = dict(Run("tag", {"1": ranking}).rankings["1"])
    for position, (relevant, _) in enumerate(ranking, start=1):
        evaluator = pytrec_eval.RelevanceEvaluator({"1": {relevant: 1}}, {"recip_rank"})
        assert evaluator.evaluate({"1": values})["1"]["recip_rank"] == pytest.approx(1 / position)
    falling = [("a", 3.5), ("b", 0.25), ("c", -2.0)]
    assert Run("tag", {"1": falling}).rankings["1"] == falling


def test_a_line_is_six_columns_with_blanks_encoded() -> None:
    run = Run("my tag", {"141": [("LA 1994/01\u00a0x", 0.5), ("50%", 0.25), ("a%20b", 0.125)]})
    assert run.to_trec() == (
        "141 Q0 LA%201994/01%C2%A0x 1 0.5 my%20tag\n141 Q0 50% 2 0.25 my%20tag\n141 Q0 a%2520b 3 0.125 my%20tag\n"
    )


def test_a_foreign_run_is_read_in_trec_evals_order(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    file.write_text(
        "\ufeff1 Q0 b 1 0.5 sys\n\n1\tQ0\ta 2  0.9 sys\r\n1 Q0 c 3 0.5 sys\n2 Q0 http://x/%C3%A9 1 7 sys\n", "utf-8"
    )
    run = Run.read_trec(file)
    assert run.tag == "sys"
    assert [doc_id for doc_id, _ in run.rankings["1"]] == ["a", "c", "b"]
    assert run.rankings["2"] == [("http://x/%C3%A9", 7.0)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a 1 0.5", "has 5 columns"),
        ("a b 1 0.5 sys", "has 7 columns"),
        ("a 1 high sys", "has the score 'high'; put a number there"),
        ("a 1 nan sys", "has the score nan; put a finite number there"),
        ("a 1 1e99 sys", "has the score 1e99; put a finite number there"),
        ("first 1 0.5 sys", "ranks 'first' for topic 1 a second time"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "run.txt").write_text(f"1 Q0 first 1 0.9 sys\n1 Q0 {line}\n", "utf-8")
    with pytest.raises(BadInput, match=f"run.txt:2 {said}"):
        Run.read_trec(tmp_path / "run.txt")


def test_files_that_cannot_be_read_and_what_cannot_be_a_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "latin.txt").write_bytes(b"1 Q0 caf\xe9 1 0.5 sys\n")
    for name, said in (("nowhere", r"nowhere\.txt can't be read"), ("empty", "is empty"), ("latin", "not UTF-8")):
        with pytest.raises(BadInput, match=said):
            Run.read_trec(tmp_path / f"{name}.txt")
    for ranking, said in (
        ([("a", 1.0), ("a", 0.5)], "document 'a' twice"),
        ([("a", float("nan"))], "no finite number"),
        ([("", 1.0)], "document id is empty"),
    ):
        with pytest.raises(BadInput, match=said):
            Run("tag", {"1": ranking}).to_trec()


def test_judgements_of_several_files_are_one_list_where_each_counts_once(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("141 0 LA010194-0001 1\r\n10.2452/142-AH\t0\tLA010194-0002\t0\n\n")
    with gzip.open(tmp_path / "de.txt.gz", "wt") as file:
        file.write("C141 0 a doc with blanks 2\n141 Q0 neg -1")
    assert read_qrels([tmp_path / "en.txt", tmp_path / "de.txt.gz"]) == [
        Qrel("141", "LA010194-0001", 1, "0"),
        Qrel("142", "LA010194-0002", 0, "0"),
        Qrel("141", "a doc with blanks", 2, "0"),
        Qrel("141", "neg", -1, "Q0"),
    ]
    path = tmp_path / "q.txt"
    path.write_text("1 0 a 1\n1 0 a 1\n")
    assert read_qrels([path, path]) == [Qrel("1", "a", 1, "0")]
    (tmp_path / "a.txt").write_text("1 0 a 1\n")
    (tmp_path / "b.txt").write_text("1 0 b 1\nC1 0 a 0\n")
    with pytest.raises(BadInput, match=r"b\.txt:2 grades 'a' 0 for topic 1, and .*a\.txt:1 grades it 1"):
        read_qrels([tmp_path / "a.txt", tmp_path / "b.txt"])


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ("query-id\tcorpus-id\tscore\n1\ta b 3\t1\n", ("a b 3", 1)),
        ("\nquery_id doc_id relevance iteration\n1 a 2 0\n", ("a", 2)),
        ("topic iter docno rel\n1 0 a 1\n", ("a", 1)),
        ("1 0 a 1.0\n", ("a", 1)),
        ("1 0 a -2.\n", ("a", -2)),
        ("1\t0\ta 3\t1\n", ("a 3", 1)),
    ],
)
def test_tables_with_a_header_and_grades_with_a_point_are_read(
    tmp_path: Path, text: str, judged: tuple[str, int]
) -> None:
    (tmp_path / "q.txt").write_text(text)
    assert read_qrels([tmp_path / "q.txt"]) == [Qrel("1", *judged, "0")]


RUN_LINES = ["1 Q0 a 1 9", "1 Q0 a 1 9.5", "1\tQ0\ta\t1\t9", "1 Q0 a 1 9.5 7", "1 Q0 a 1 1e-3 7", "1 Q0 a 1 9 x"]


def test_a_line_that_is_no_judgement_is_refused_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "q.txt"
    monkeypatch.setattr("indexer.readers.records.files.RECORD_LIMIT", 100)
    for line in ("1 0 a", "1 0 a high", "query-id corpus-id score", "1 0 a 1.5", *RUN_LINES, "1 0 " + "b" * 200 + " 1"):
        path.write_text(f"1 0 a 1\n{line}\n")
        long = r"after line 2: the line has more than 64 MB; split the record"
        with pytest.raises(BadInput, match=long if "b" * 200 in line else r"q\.txt:2 is .* no judgement"):
            read_qrels([path])


def test_qrels_of_any_line_ends_and_marks_are_read(tmp_path: Path) -> None:
    for encoding, end in (("utf-8", "\r"), ("utf-16", "\n"), ("utf-8-sig", "\r\n")):
        (tmp_path / "q.txt").write_bytes(f"1 0 a 1{end}1 0 b 0{end}".encode(encoding))
        assert [qrel.doc_id for qrel in read_qrels([tmp_path / "q.txt"])] == ["a", "b"]


def test_qrels_that_are_empty_missing_binary_or_broken_are_refused(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("1 0 a 1\n")
    cut = gzip.compress(b"1 0 a 1\n" * 1000)[:-9]
    for name, content, reason in (
        ("empty.txt", b"\n", "are empty"),
        ("nowhere.txt", b"", "No such file"),
        ("latin.txt", b"1 0 caf\xe9 1\n", "latin.txt are not UTF-8"),
        ("cut.txt.gz", cut, "ends too early"),
    ):
        if content:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=reason):
            read_qrels([tmp_path / "good.txt", tmp_path / name])
