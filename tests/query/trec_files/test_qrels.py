"""Relevance judgements in TREC's format."""

import gzip
from pathlib import Path

import pytest
from ir_measures import Qrel

from encoders.errors import BadInput
from query.trec_files.qrels import read_qrels


def test_judgements_of_several_files_are_one_list_with_normalised_topics(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("141 0 LA010194-0001 1\r\n10.2452/142-AH\t0\tLA010194-0002\t0\n\n")
    with gzip.open(tmp_path / "de.txt.gz", "wt") as file:
        file.write("C141 0 a doc with blanks 2\n141 Q0 neg -1")
    assert read_qrels([tmp_path / "en.txt", tmp_path / "de.txt.gz"]) == [
        Qrel("141", "LA010194-0001", 1, "0"),
        Qrel("142", "LA010194-0002", 0, "0"),
        Qrel("141", "a doc with blanks", 2, "0"),
        Qrel("141", "neg", -1, "Q0"),
    ]


def test_a_judgement_that_stands_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_text("1 0 a 1\n1 0 a 1\n")
    assert read_qrels([path, path]) == [Qrel("1", "a", 1, "0")]


def test_two_grades_for_one_document_are_refused_naming_both_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 0 a 1\n")
    (tmp_path / "b.txt").write_text("1 0 b 1\nC1 0 a 0\n")
    with pytest.raises(BadInput, match=r"b\.txt:2 grades 'a' 0 for topic 1, and .*a\.txt:1 grades it 1"):
        read_qrels([tmp_path / "a.txt", tmp_path / "b.txt"])


@pytest.mark.parametrize("line", ["1 0 a", "1 0 a high", "query-id corpus-id score", "1 0 a 1.5"])
def test_a_line_that_is_no_judgement_is_refused_by_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "q.txt"
    path.write_text(f"1 0 a 1\n{line}\n")
    with pytest.raises(BadInput, match=r"q\.txt:2 is .* no judgement"):
        read_qrels([path])


def test_qrels_that_are_empty_missing_binary_or_broken_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "latin.txt").write_bytes(b"1 0 caf\xe9 1\n")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"1 0 a 1\n" * 1000)[:-9])
    (tmp_path / "good.txt").write_text("1 0 a 1\n")
    for name, reason in (
        ("empty.txt", "are empty"),
        ("nowhere.txt", "No such file"),
        ("latin.txt", "latin.txt:1 is not UTF-8"),
        ("cut.txt.gz", "ends too early"),
    ):
        with pytest.raises(BadInput, match=reason):
            read_qrels([tmp_path / "good.txt", tmp_path / name])


def test_a_line_longer_than_the_bound_is_refused_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.readers.records.files.RECORD_LIMIT", 100)
    (tmp_path / "q.txt").write_text("1 0 a 1\n1 0 " + "b" * 200 + " 1\n")
    with pytest.raises(BadInput, match=r"after line 2: the line has more than 64 MB; split the record"):
        read_qrels([tmp_path / "q.txt"])


@pytest.mark.data
def test_the_open_qrels_are_read(data_dir: Path) -> None:
    qrels = read_qrels(sorted((data_dir / "lohelp").glob("qrels.index.*.txt")))
    assert len({qrel.query_id for qrel in qrels}) == 311
    assert {qrel.relevance for qrel in qrels} == {1}
