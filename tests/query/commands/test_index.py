"""``dragoman index``: languages that records lack, another encoder beside the one that is searched, and back."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from indexer.ledger.tables import IndexRun
from query.cli import run

RECORDS = [
    {"id": "a", "text": "The river rose and the town was under water."},
    {"id": "b", "lang": "de", "text": "Die Bäckerei öffnet morgens um sechs."},
]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[0])


def test_records_that_name_no_language_get_the_given_one_and_a_rebuild_is_returned_from(
    small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    place = ["-c", "c", "--home", str(tmp_path / "home")]
    index = ["index", str(source), *place, "--no-calibration", "-q"]
    assert said(capsys, *index, "--encoder", str(small.path), "--lang", "sw")["encoded"] == 2
    assert said(capsys, "status", *place)["languages"] == {"de": 1, "sw": 1}
    before = said(capsys, "status", *place)["encoder"]

    assert said(capsys, *index, "--encoder", str(small.path), "--method", "first", "--rebuild")["encoded"] == 2
    rebuilt = said(capsys, "status", *place)
    assert rebuilt["languages"] == {"de": 1, "en": 1}
    assert (rebuilt["method"], rebuilt["encoder"]) == ("first", before)
    assert said(capsys, "search", "water", *place, "--lang", "en")["hits"]

    assert run(["rollback", *place]) == 0
    returned = said(capsys, "status", *place)
    assert (returned["method"], returned["languages"]) == ("windows", {"de": 1, "sw": 1})


def test_a_files_id_does_not_depend_on_how_its_folder_is_named_nor_on_other_sources(
    small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, record in zip(("x", "y"), RECORDS, strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "doc.txt").write_text(record["text"], encoding="utf-8")
    place = ["-c", "c", "--home", str(tmp_path / "home"), "--no-calibration", "-q"]
    assert said(capsys, "index", f"{tmp_path}/x", *place, "--encoder", str(small.path))["encoded"] == 1
    assert said(capsys, "index", f"{tmp_path}/y", *place)["encoded"] == 1
    monkeypatch.chdir(tmp_path / "x")
    again = said(capsys, "index", "./", "../y/", *place)
    assert (again["encoded"], again["unchanged"], again["duplicates"]) == (0, 2, 0)


@pytest.mark.parametrize(
    ("former", "sources"),
    [({"doc.txt": ["x/a"]}, ["x/a"]), ({"x/a/doc.txt": ["x/a", "y/a"], "y/a/doc.txt": ["x/a", "y/a"]}, ["y/a"])],
)
def test_files_that_an_earlier_version_gave_other_ids_are_refused_until_prune_or_rebuild(
    small: ModelFolder,
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    former: dict[str, list[str]],
    sources: list[str],
) -> None:
    for folder in ("x/a", "y/a"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "doc.txt").write_text(RECORDS[0]["text"])
    place = ["-c", "c", "--home", str(settings.home), "--no-calibration", "-q"]
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({**RECORDS[0], "id": doc_id}) + "\n" for doc_id in former))
    assert run(["index", str(rows), *place, "--encoder", str(small.path)]) == 0
    with open_database(settings.database) as engine, transaction(engine) as session:
        names = [str(tmp_path / name) for name in next(iter(former.values()))]
        session.execute(sa.update(IndexRun).values(sources=names))
    index = ["index", *(str(tmp_path / source) for source in sources), *place]
    assert run(index) == 1
    assert "/doc.txt; now a/doc.txt)" in capsys.readouterr().err.replace("(doc.txt", "(/doc.txt")
    assert said(capsys, *index, "--rebuild")["encoded"] == 1
    assert said(capsys, *index)["unchanged"] == 1


def test_ids_that_clash_leave_no_collection_and_on_duplicate_decides(
    small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rows in (("a", "1,The river rose.\n2,The town.\n"), ("b", "1,Der Fluss stieg.\n2,Die Stadt.\n")):
        (tmp_path / f"{name}.csv").write_text(f"id,text\n{rows}")
    place = ["-c", "c", "--home", str(tmp_path / "home"), "--encoder", str(small.path), "--no-calibration", "-q"]
    index = ["index", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), *place]
    assert run(index) == 1
    refusal = capsys.readouterr().err
    assert f"2 ids stand more than once in the sources: 1 ({tmp_path}/a.csv:2 and {tmp_path}/b.csv:2), 2 (" in refusal
    assert run(["status", "-c", "c", "--home", str(tmp_path / "home")]) == 1
    assert run([*index, "--on-duplicate", "last"]) == 0
    assert "c: 2 encoded, 0 unchanged, 2 duplicate ids in " in capsys.readouterr().out
    first = said(capsys, *index, "--on-duplicate", "first")
    assert (first["encoded"], first["unchanged"], first["duplicates"]) == (2, 0, 2)
    assert [remark["id"] for remark in first["remarks"]] == ["1", "2"]


def test_standard_input_is_indexed_and_goes_on_where_the_same_input_was_interrupted(
    small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def index() -> list[str]:
        lines = "".join(json.dumps({"lang": "en", "text": f"The river {row}."}) + "\n" for row in range(200))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        return ["index", "-", "-c", "c", "--home", str(tmp_path), "--encoder", str(small.path), "--no-calibration"]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("indexer.stores.embedded.EmbeddedStore.put", interrupt)
        assert run(index()) == 130
    report = said(capsys, *index())
    assert (report["resumed"], report["encoded"]) == (True, 200)
    assert run(index()) == 0
    captured = capsys.readouterr()
    assert "c: 0 encoded, 200 unchanged in" in captured.out
    assert captured.err.count("records without an id have FILE:LINE as their id") == 1


def test_a_remark_on_many_files_is_said_once(
    small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    for row in range(12):
        (folder / f"{row:02}.csv").write_text(f"text\nThe river {row}.\n")
    place = ["-c", "c", "--home", str(tmp_path / "home"), "--encoder", str(small.path), "--no-calibration"]
    assert run(["index", str(folder), *place]) == 0
    (remark,) = [line for line in capsys.readouterr().err.splitlines() if "without an id" in line]
    assert remark.startswith(f"  {folder}/00.csv and 11 others: records without an id have FILE:LINE as their id")
