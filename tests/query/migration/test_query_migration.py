"""Moving a collection to another encoder: asked by the new one, no document touched, and back again."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import connect
from query.calibration import calibration_table
from query.calibration_fitting.recalibration import keep_calibrated
from query.cli import run
from query.migration.document_reencoding import is_migrating
from query.migration.query_migration import migrate
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch
from tests.query.calibration.earlier import make_earlier
from tests.query.conftest import copied
from tests.query.migration.encoding_again import first, log_queries
from tests.query.migration.test_candidate_maps import Cutting
from trials import DEMO

pytestmark = pytest.mark.parts

JUDGED = ("--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"))


@pytest.fixture(autouse=True)
def _few_queries(monkeypatch: Patch) -> None:
    monkeypatch.setattr("query.migration.overlap._QUERIES", 20)


@pytest.fixture
def words(word_model: ModelFolder) -> str:
    return str(word_model.path)


def asked_by(settings: Settings) -> tuple[str, float | None]:
    """The method of the encoder that queries go to, and their balance."""
    with Searcher.open("demo", settings, device="cpu") as searcher:
        return searcher.spec.method, searcher.ranking.balance


def everything(settings: Settings) -> list[str]:
    with closing(sqlite3.connect(settings.home / "store" / "demo.db")) as database:
        return list(database.iterdump())


def test_queries_go_to_the_new_encoder_and_rollback_brings_the_old_one_back(
    calibrated_by_words: Settings, migrated_by_words: Settings, tmp_path: Path, capsys: Capture
) -> None:
    """The method *first* makes vectors of another model of the same encoder: documents are their first tokens."""
    before, stored = first(calibrated_by_words), everything(calibrated_by_words)
    home = copied(migrated_by_words.home, tmp_path)
    place = ["-c", "demo", "--home", str(home.home), "-q"]
    told = json.loads((home.home / "said.json").read_text())
    assert told["migrated"]
    assert sum(told["documents"].values()) == 235
    assert 0 < told["mapped"] <= 1
    assert told["kept"] > 0.5
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert searcher.calibration.space.query_encoder is not None
        assert searcher.spec.method == "first"
        assert searcher.stored_model == searcher.calibration.model != searcher.spec.model
        hits = searcher.search("Bienen im Garten", lang="de", k=5, explain=True)
    assert hits[0].doc_id in before
    assert everything(home) == stored
    assert run(["evaluate", *JUDGED, "--langs", "de", "--json", *place]) == 0
    capsys.readouterr()
    assert run(["rollback", *place]) == 0
    assert "by its own encoder again" in capsys.readouterr().out
    assert first(home) == before


def test_an_encoder_is_known_again_by_its_place_and_refused_if_it_became_another_model(
    home: Settings, words: str, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    new = tmp_path / "new"
    shutil.copytree(words, new)
    monkeypatch.chdir(tmp_path)
    assert not is_migrating("demo", "./new", "first", home)
    migrate("demo", "./new", "first", home, sample=60, anyway=True, device="cpu")
    places = [("./new", "first"), (str(new), None), (words, "first")]
    assert [is_migrating("demo", *place, home) for place in places] == [True, True, False]
    config = json.loads((new / "config.json").read_text())
    (new / "config.json").write_text(json.dumps({**config, "weights": "another"}))
    assert run(["search", "Bienen", "-c", "demo", "--lang", "de", "-q"]) == 1
    said = capsys.readouterr().err
    assert f"demo has migrated to {new} by first" in said
    assert "bring the first back, or leave the migration: dragoman rollback -c demo" in said
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert first(home)


def test_rollback_says_by_whom_queries_are_asked(home: Settings, words: str, capsys: Capture) -> None:
    """To one encoder, to it again, and to another: as many migrations as there are encoders are left."""
    before = first(home)
    for method in ("first", "first", "sentences"):
        migrate("demo", words, method, home, sample=60, anyway=True, device="cpu")
    capsys.readouterr()
    assert run(["rollback", "-c", "demo"]) == 0
    said = capsys.readouterr()
    assert f"demo is asked by {words} by first again" in said.out
    assert "its own encoder" not in said.out
    assert "dragoman rollback -c demo" in said.err
    assert asked_by(home)[0] == "first"
    assert run(["rollback", "-c", "demo"]) == 0
    assert "demo is asked by its own encoder again" in capsys.readouterr().out
    assert first(home) == before


def test_a_dry_run_reports_and_changes_nothing(home: Settings, words: str, capsys: Capture) -> None:
    """The overlap is of logged queries where there are some, and what can't migrate gets one sentence."""

    def said(*arguments: str, status: int = 0) -> str:
        assert run([*arguments, "-c", "demo"]) == status
        output, remarks = capsys.readouterr()
        return remarks if status else output

    before, searched = said("status", "--json"), first(home)
    migrated = ["migrate", "--encoder", words, "--method", "first", "--device", "cpu"]
    told = said(*migrated, "--sample", "100", "--dry-run")
    assert re.search(r"new encoder +old vectors, through the map +[01]\.\d{3}", told)
    assert "demo stays as it is: this was a dry run" in told
    report = migrate("demo", words, "first", home, sample=100, dry_run=True, device="cpu")
    assert report.calibration is None
    assert report.quality.queries > 0
    assert "already; name another encoder" in said("migrate", "--encoder", words, status=1)
    assert "there is no encoder 'nothing'" in said("migrate", "--encoder", "nothing", status=1)
    assert "the sample has 10 documents" in said(*migrated, "--sample", "10", status=1)
    assert said("status", "--json") == before
    assert first(home) == searched
    done = migrate("demo", words, "first", home, sample=100, anyway=True, device="cpu")
    assert not report.comparison.logged
    assert report.comparison == done.comparison
    assert 0.2 < report.comparison.overlap < 1
    log_queries(home, "Bienen im Garten", "Honig", "Waldbrand")
    logged = migrate("demo", words, "sentences", home, sample=60, dry_run=True, device="cpu").comparison
    assert (logged.logged, logged.queries) == (True, 3)


def test_an_encoder_that_says_nothing_is_advised_against_and_nothing_changes(
    home: Settings, words: str, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr("query.migration.query_migration.open_named", lambda *_, **__: Cutting("random", 1))
    engine = connect(home.database)
    before = calibration_table.all_calibrations(engine, "demo")
    searched = first(home)
    assert run(["migrate", "-c", "demo", "--encoder", words]) == 0
    said = capsys.readouterr()
    assert "demo stays as it is: the map would find less than the old encoder does; --anyway migrates" in said.out
    assert "calibrating" in said.err
    assert "would be the same as before" in said.err
    assert "the advice is that of 19 queries; more documents, or a larger --sample, say more" in said.err
    assert calibration_table.all_calibrations(engine, "demo") == before
    assert first(home) == searched


def test_a_migration_stays_when_documents_come_and_when_it_is_calibrated(
    home: Settings, words: str, tmp_path: Path, capsys: Capture
) -> None:
    """Or given a balance: only what is for its own encoder's vectors on both sides is refused."""
    assert run(["train", "mapping", "-c", "demo", "--languages", "en,de", "-o", str(tmp_path / "m"), "-q"]) == 0
    migrate("demo", words, "first", home, anyway=True, device="cpu")
    texts = ("En ny bok om bin i trädgården.", "Skogsbranden spred sig under natten.")
    records = [json.dumps({"id": f"sv{n}", "lang": "sv", "text": text}) for n, text in enumerate(texts)]
    (tmp_path / "more.jsonl").write_text("\n".join(records))
    index([str(tmp_path / "more.jsonl")], "demo", settings=home, device="cpu")
    upkeep = keep_calibrated("demo", home, device="cpu")
    assert upkeep.report is not None
    assert "sv" in upkeep.reason
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.spec.method == "first"
        assert "sv" in searcher.languages
        assert searcher.search("bin i trädgården", lang="sv", to=["sv"], k=1)[0].doc_id == "sv0"
    for balance in ([], ["--balance", "0.6"]):
        assert run(["calibrate", "-c", "demo", *balance, "-q"]) == 0
    assert "decided by you" in capsys.readouterr().out
    assert asked_by(home) == ("first", 0.6)
    for refused in (("--map", str(tmp_path / "m")), JUDGED):
        assert run(["calibrate", "-c", "demo", *refused, "-q"]) == 1
        assert "leave the migration first: dragoman rollback -c demo" in capsys.readouterr().err
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert asked_by(home)[0] == "windows"


def test_a_migration_by_an_earlier_version_stays_when_its_calibration_is_made_anew(
    migrated_by_words: Settings, tmp_path: Path
) -> None:
    """Its balance, too; and what it was searched with before is there to return to."""
    home = copied(migrated_by_words.home, tmp_path)
    make_earlier(home, "demo", "you", balance=0.6)
    before = first(home)
    assert asked_by(home) == ("first", 0.6)
    assert "an earlier version of Dragoman made its calibration" in keep_calibrated("demo", home, device="cpu").reason
    assert asked_by(home) == ("first", 0.6)
    assert set(before) & set(first(home))
    assert run(["rollback", "-c", "demo", "--home", str(home.home), "-q"]) == 0
    assert asked_by(home)[0] == "windows"
