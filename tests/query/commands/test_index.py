"""``dragoman index``: languages that records lack, another encoder beside the one that is searched, and back."""

import io
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
import sqlalchemy as sa

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from indexer.ledger.tables import IndexRun
from tests.query.conftest import Command

PLAIN = ["--no-calibration", "-q"]
RECORDS = [
    {"id": "a", "text": "The river rose and the town was under water."},
    {"id": "b", "lang": "de", "text": "Die Bäckerei öffnet morgens um sechs."},
]


@pytest.fixture
def dragoman(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "-c", "c", "--home", str(tmp_path / "home"))


@pytest.fixture
def first(small: ModelFolder) -> list[str]:
    return ["--encoder", str(small.path), *PLAIN]


def test_records_get_a_language_and_rollback_returns(dragoman: Command, first: list[str], tmp_path: Path) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    assert dragoman.json("index", source, *first, "--lang", "sw")[0]["encoded"] == 2
    before = dragoman.one("status")
    assert before["languages"] == {"de": 1, "sw": 1}
    assert dragoman.json("index", source, *first, "--method", "first", "--rebuild")[0]["encoded"] == 2
    rebuilt = dragoman.one("status")
    assert rebuilt["languages"] == {"de": 1, "en": 1}
    assert (rebuilt["method"], rebuilt["encoder"]) == ("first", before["encoder"])
    assert dragoman.one("search", "water", "--lang", "en")["hits"]
    dragoman("rollback")
    returned = dragoman.one("status")
    assert (returned["method"], returned["languages"]) == ("windows", {"de": 1, "sw": 1})


def test_a_files_id_stays(dragoman: Command, first: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, record in zip(("x", "y"), RECORDS, strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "doc.txt").write_text(record["text"], encoding="utf-8")
    assert dragoman.one("index", tmp_path / "x", *first)["encoded"] == 1
    assert dragoman.one("index", tmp_path / "y", *PLAIN)["encoded"] == 1
    monkeypatch.chdir(tmp_path / "x")
    again = dragoman.one("index", "./", "../y/", *PLAIN)
    assert (again["encoded"], again["unchanged"], again["duplicates"]) == (0, 2, 0)


@pytest.mark.parametrize(
    ("former", "sources"),
    [({"doc.txt": ["x/a"]}, ["x/a"]), ({"x/a/doc.txt": ["x/a", "y/a"], "y/a/doc.txt": ["x/a", "y/a"]}, ["y/a"])],
)
def test_files_that_an_earlier_version_gave_other_ids_are_refused_until_prune_or_rebuild(
    dragoman: Command, first: list[str], tmp_path: Path, former: dict[str, list[str]], sources: list[str]
) -> None:
    for folder in ("x/a", "y/a"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "doc.txt").write_text(RECORDS[0]["text"])
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({**RECORDS[0], "id": doc_id}) + "\n" for doc_id in former))
    dragoman("index", rows, *first)
    with open_database(Settings.read(home=tmp_path / "home").database) as engine, transaction(engine) as session:
        names = [str(tmp_path / name) for name in next(iter(former.values()))]
        session.execute(sa.update(IndexRun).values(sources=names))
    index = ["index", *(tmp_path / source for source in sources), *PLAIN]
    assert "/doc.txt; now a/doc.txt)" in dragoman(*index, status=1).replace("(doc.txt", "(/doc.txt")
    assert (dragoman.one(*index, "--rebuild")["encoded"], dragoman.one(*index)["unchanged"]) == (1, 1)


def test_ids_that_clash_leave_nothing_or_are_decided(dragoman: Command, first: list[str], tmp_path: Path) -> None:
    for name, rows in (("a", "1,The river rose.\n2,The town.\n"), ("b", "1,Der Fluss stieg.\n2,Die Stadt.\n")):
        (tmp_path / f"{name}.csv").write_text(f"id,text\n{rows}")
    index = ["index", tmp_path / "a.csv", tmp_path / "b.csv", *first]
    said = dragoman(*index, status=1)
    assert f"2 ids stand more than once in the sources: 1 ({tmp_path}/a.csv:2 and {tmp_path}/b.csv:2), 2 (" in said
    dragoman("status", status=1)
    assert "c: 2 encoded, 0 unchanged, 2 duplicate ids in " in dragoman(*index, "--on-duplicate", "last")
    report = dragoman.one(*index, "--on-duplicate", "first")
    assert (report["encoded"], report["unchanged"], report["duplicates"]) == (2, 0, 2)
    assert [remark["id"] for remark in report["remarks"]] == ["1", "2"]


def test_standard_input_goes_on(dragoman: Command, first: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def index() -> list[str]:
        lines = "".join(json.dumps({"lang": "en", "text": f"The river {row}."}) + "\n" for row in range(200))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        return ["index", "-", *first[:-1]]

    with monkeypatch.context() as patch:
        patch.setattr("indexer.stores.embedded.EmbeddedStore.put", Mock(side_effect=KeyboardInterrupt))
        dragoman(*index(), status=130)
    report = dragoman.one(*index())
    assert (report["resumed"], report["encoded"]) == (True, 200)
    assert "c: 0 encoded, 200 unchanged in" in dragoman(*index())
    assert dragoman.err.count("records without an id have FILE:LINE as their id") == 1


def test_a_remark_on_many_files_is_said_once(dragoman: Command, first: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    for row in range(12):
        (folder / f"{row:02}.csv").write_text(f"text\nThe river {row}.\n")
    dragoman("index", folder, *first[:-1])
    (remark,) = [line for line in dragoman.err.splitlines() if "without an id" in line]
    assert remark.startswith(f"  {folder}/00.csv and 11 others: records without an id have FILE:LINE as their id")
