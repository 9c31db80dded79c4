"""Moving a collection to another encoder: asked by the new one, no document touched, and back again."""

import json
import shutil
from pathlib import Path

import pytest

from encoders.folder import ModelFolder
from indexer import collection as collections
from indexer.database import connect
from indexer.indexing import index
from indexer.settings import Settings
from onnx_export.models import DEFAULT
from query import calibration_table
from query.calibrating import keep_calibrated
from query.cli import run
from query.mapped import MappedCalibration
from query.migrating import migrate
from query.reencoding import is_migrating
from query.searcher import Searcher
from tests.query.conftest import DEMO


@pytest.fixture
def home(calibrated: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    shutil.copytree(calibrated.home, tmp_path / "home")
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    return Settings.read(home=tmp_path / "home")


def first(settings: Settings, text: str) -> list[str]:
    with Searcher.open("demo", settings, device="cpu") as searcher:
        return [hit.doc_id for hit in searcher.search(text, lang="de", k=5)]


def test_queries_go_to_the_new_encoder_and_rollback_brings_the_old_one_back(
    home: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """The method *first* makes vectors of another model of the same encoder: documents are their first tokens."""
    before = first(home, "Bienen im Garten")
    stored = (home.home / "store" / "demo.db").read_bytes()
    arguments = ["migrate", "-c", "demo", "--encoder", DEFAULT, "--method", "first", "--anyway", "--json", "-q"]
    assert run(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["migrated"]
    assert sum(told["documents"].values()) == 235
    assert told["mates"]["rate"] > 0.5
    assert told["kind"] == "titles"  # too few held-out documents for concepts
    assert 0 < told["mapped"] <= 1
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert isinstance(searcher.calibration, MappedCalibration)
        assert searcher.spec.method == "first"
        assert searcher.model == searcher.calibration.model != searcher.spec.model
        hits = searcher.search("Bienen im Garten", lang="de", k=5, explain=True)
    assert hits[0].doc_id in before
    assert (home.home / "store" / "demo.db").read_bytes() == stored
    evaluate = [
        "evaluate",
        "-c",
        "demo",
        "--topics",
        str(DEMO / "topics.tsv"),
        "--qrels",
        str(DEMO / "qrels.txt"),
        "--langs",
        "de",
    ]
    assert run([*evaluate, "--json", "-q"]) == 0
    capsys.readouterr()
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert "by its own encoder again" in capsys.readouterr().out
    assert first(home, "Bienen im Garten") == before


def test_an_encoder_given_by_a_relative_path_is_known_again_from_the_same_place(
    home: Settings, default_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").symlink_to(default_folder.path)
    monkeypatch.chdir(tmp_path)
    assert not is_migrating("demo", "./new", "first", home)
    migrate("demo", "./new", "first", home, sample=60, anyway=True, device="cpu")
    assert is_migrating("demo", "./new", "first", home)
    assert is_migrating("demo", str(tmp_path / "new"), None, home)
    assert not is_migrating("demo", DEFAULT, "first", home)


def test_rollback_says_by_whom_a_collection_is_asked_after_two_migrations(
    home: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """To one encoder, to it again, and to another: as many migrations as there are encoders are left."""
    before = first(home, "Bienen im Garten")
    for method in ("first", "first", "sentences"):
        migrate("demo", DEFAULT, method, home, sample=60, anyway=True, device="cpu")
    capsys.readouterr()
    assert run(["rollback", "-c", "demo"]) == 0
    said = capsys.readouterr()
    assert f"demo is asked by {DEFAULT} by first again" in said.out
    assert "its own encoder" not in said.out
    assert "dragoman rollback -c demo" in said.err
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.spec.method == "first"
    assert run(["rollback", "-c", "demo"]) == 0
    assert "demo is asked by its own encoder again" in capsys.readouterr().out
    assert first(home, "Bienen im Garten") == before


def test_a_dry_run_reports_and_changes_nothing(home: Settings) -> None:
    engine = connect(home.database)
    before = calibration_table.every(engine, "demo")
    report = migrate("demo", DEFAULT, "first", home, dry_run=True, device="cpu")
    assert report.calibration is None
    assert report.worth.queries > 20
    assert calibration_table.every(engine, "demo") == before


def test_documents_that_come_later_are_encoded_as_before_and_the_migration_stays(
    home: Settings, tmp_path: Path
) -> None:
    migrate("demo", DEFAULT, "first", home, anyway=True, device="cpu")
    more = tmp_path / "more.jsonl"
    texts = ("En ny bok om bin i trädgården.", "Skogsbranden spred sig under natten.")
    more.write_text(
        "".join(json.dumps({"id": f"sv{n}", "lang": "sv", "text": text}) + "\n" for n, text in enumerate(texts))
    )
    index([str(more)], "demo", settings=home, device="cpu")
    upkeep = keep_calibrated("demo", home, device="cpu")
    assert upkeep.report is not None
    assert "sv" in upkeep.reason
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.spec.method == "first"
        assert "sv" in searcher.languages
        assert searcher.search("bin i trädgården", lang="sv", to=["sv"], k=1)[0].doc_id == "sv0"
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.spec.method == "segments"


def test_what_cannot_migrate_gets_one_sentence(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        assert run(["migrate", "-c", "demo", *arguments, "-q"]) == 1
        return capsys.readouterr().err

    assert "already; name another encoder" in said("--encoder", DEFAULT)
    assert "there is no encoder 'nothing'" in said("--encoder", "nothing")
    assert "the sample has 10 documents" in said("--encoder", DEFAULT, "--method", "first", "--sample", "10")
    assert collections.find(connect(home.database), "demo") is not None
