"""Moving a collection to another encoder: asked by the new one, no document touched, and back again."""

import json
import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, short_hash, unit_rows
from encoders.folder.model_folder import ModelFolder
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import connect, transaction
from query.calibration import calibration_table
from query.calibration_fitting.recalibration import keep_calibrated
from query.cli import run
from query.migration.document_reencoding import is_migrating
from query.migration.query_migration import migrate
from query.query_log.query_log_tables import SearchRow
from query.ranking.searcher import Searcher
from tests.query.calibration.earlier import make_earlier
from tests.query.conftest import Homes, copied
from trials import DEMO

pytestmark = pytest.mark.parts

JUDGED = ("--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"))


@pytest.fixture(autouse=True)
def _few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after are compared on a few queries."""
    monkeypatch.setattr("query.migration.overlap._QUERIES", 20)


@pytest.fixture
def words(word_model: ModelFolder) -> str:
    """The word model, as an encoder is named."""
    return str(word_model.path)


def first(settings: Settings, text: str) -> list[str]:
    with Searcher.open("demo", settings, device="cpu") as searcher:
        return [hit.doc_id for hit in searcher.search(text, lang="de", k=5)]


def everything(settings: Settings) -> list[str]:
    """All that the store's database holds."""
    with closing(sqlite3.connect(settings.home / "store" / "demo.db")) as database:
        return list(database.iterdump())


@pytest.mark.parametrize(
    "made", ["homes_by_words", pytest.param("homes", marks=pytest.mark.long)], ids=["words", "the default encoder"]
)
def test_queries_go_to_the_new_encoder_and_rollback_brings_the_old_one_back(
    made: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The method *first* makes vectors of another model of the same encoder: documents are their first tokens."""
    homes: Homes = request.getfixturevalue(made)
    unchanged = copied(homes.calibrated(), tmp_path / "unchanged")
    before = first(unchanged, "Bienen im Garten")
    stored = everything(unchanged)
    home = copied(homes.migrated(), tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(home.home))
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
    assert run(["evaluate", "-c", "demo", *JUDGED, "--langs", "de", "--json", "-q"]) == 0
    capsys.readouterr()
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert "by its own encoder again" in capsys.readouterr().out
    assert first(home, "Bienen im Garten") == before


def test_an_encoder_given_by_a_relative_path_is_known_again_from_the_same_place(
    home: Settings, word_model: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").symlink_to(word_model.path)
    monkeypatch.chdir(tmp_path)
    assert not is_migrating("demo", "./new", "first", home)
    migrate("demo", "./new", "first", home, sample=60, anyway=True, device="cpu")
    assert is_migrating("demo", "./new", "first", home)
    assert is_migrating("demo", str(tmp_path / "new"), None, home)
    assert not is_migrating("demo", str(word_model.path), "first", home)


def test_rollback_says_by_whom_a_collection_is_asked_after_two_migrations(
    home: Settings, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """To one encoder, to it again, and to another: as many migrations as there are encoders are left."""
    before = first(home, "Bienen im Garten")
    for method in ("first", "first", "sentences"):
        migrate("demo", words, method, home, sample=60, anyway=True, device="cpu")
    capsys.readouterr()
    assert run(["rollback", "-c", "demo"]) == 0
    said = capsys.readouterr()
    assert f"demo is asked by {words} by first again" in said.out
    assert "its own encoder" not in said.out
    assert "dragoman rollback -c demo" in said.err
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.spec.method == "first"
    assert run(["rollback", "-c", "demo"]) == 0
    assert "demo is asked by its own encoder again" in capsys.readouterr().out
    assert first(home, "Bienen im Garten") == before


def test_a_dry_run_reports_and_changes_nothing(home: Settings, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    def status() -> str:
        assert run(["status", "-c", "demo", "--json"]) == 0
        return capsys.readouterr().out

    before, searched = status(), first(home, "Bienen im Garten")
    migrated = ["migrate", "-c", "demo", "--encoder", words, "--method", "first", "--sample", "100", "--device", "cpu"]
    assert run([*migrated, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"new encoder +old vectors, through the map +[01]\.\d{3}", told)
    assert "demo stays as it is: this was a dry run" in told
    report = migrate("demo", words, "first", home, sample=100, dry_run=True, device="cpu")
    assert report.calibration is None
    assert report.quality.queries > 0
    assert status() == before
    assert first(home, "Bienen im Garten") == searched
    done = migrate("demo", words, "first", home, sample=100, anyway=True, device="cpu")
    assert not report.comparison.logged
    assert report.comparison == done.comparison
    assert 0.2 < report.comparison.overlap < 1


class Random:
    """An encoder that makes of every text a vector by chance."""

    spec = EncoderSpec("random", "segments", 32, (), "random", "random")

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        vectors = self.encode_queries(documents)
        none = Passages(np.zeros((0, 32), np.int8), np.zeros((0, 2), np.int32))
        return Encoded(vectors, [none] * len(documents), np.ones((len(documents), 1), dtype=np.bool_))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        seeds = [int(short_hash(query.content), 16) for query in queries]
        return unit_rows(np.stack([np.random.default_rng(seed).standard_normal(32, np.float32) for seed in seeds]))


def test_an_encoder_that_says_nothing_is_advised_against_and_nothing_changes(
    home: Settings, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("query.migration.query_migration.open_named", lambda *_, **__: Random())
    engine = connect(home.database)
    before = calibration_table.all_calibrations(engine, "demo")
    searched = first(home, "Bienen im Garten")
    assert run(["migrate", "-c", "demo", "--encoder", words]) == 0
    said = capsys.readouterr()
    assert "demo stays as it is: the map would find less than the old encoder does; --anyway migrates" in said.out
    assert "pseudo-queries" in said.err
    assert "would be the same as before" in said.err
    assert "the advice is that of 19 queries; a larger --sample says more" in said.err
    assert calibration_table.all_calibrations(engine, "demo") == before
    assert first(home, "Bienen im Garten") == searched


def test_the_overlap_is_of_logged_queries_where_there_are_some(home: Settings, words: str) -> None:
    engine = connect(home.database)
    created = collections.require(engine, "demo").created
    with transaction(engine) as session:
        for number, text in enumerate(("Bienen im Garten", "Honig", "Waldbrand")):
            session.add(
                SearchRow(
                    id=str(number), created=created, collection="demo", query=text, lang="de", space="", settings={},
                    hits=[], took=1,
                )
            )  # fmt: skip
    engine.dispose()
    report = migrate("demo", words, "first", home, sample=60, dry_run=True, device="cpu")
    assert (report.comparison.logged, report.comparison.queries) == (True, 3)


def test_documents_that_come_later_are_encoded_as_before_and_the_migration_stays(
    home: Settings, words: str, tmp_path: Path
) -> None:
    migrate("demo", words, "first", home, anyway=True, device="cpu")
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
        assert searcher.spec.method == "windows"


def test_calibrating_a_migrated_collection_does_not_end_its_migration(
    home: Settings, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a balance: only what is for its own encoder's vectors on both sides is refused."""
    before = first(home, "Bienen im Garten")
    learn = ["train", "mapping", "-c", "demo", "--languages", "en,de", "-o", str(tmp_path / "m"), "-q"]
    assert run(learn) == 0
    migrate("demo", words, "first", home, sample=60, anyway=True, device="cpu")
    assert run(["calibrate", "-c", "demo", "-q"]) == 0
    assert run(["calibrate", "-c", "demo", "--balance", "0.6", "-q"]) == 0
    assert "decided by you" in capsys.readouterr().out
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert (searcher.spec.method, searcher.ranking.balance) == ("first", 0.6)
    for refused in (("--map", str(tmp_path / "m")), JUDGED):
        assert run(["calibrate", "-c", "demo", *refused, "-q"]) == 1
        assert "leave the migration first: dragoman rollback -c demo" in capsys.readouterr().err
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert first(home, "Bienen im Garten") == before


def test_a_migration_by_an_earlier_version_stays_when_its_calibration_is_made_anew(
    migrated_by_words: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its balance, too; and what it was searched with before is there to return to."""
    home = copied(migrated_by_words.home, tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(home.home))
    make_earlier(home, "demo", "you", balance=0.6)
    before = first(home, "Bienen im Garten")
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert (searcher.spec.method, searcher.ranking.balance) == ("first", 0.6)
    upkeep = keep_calibrated("demo", home, device="cpu")
    assert "an earlier version of Dragoman made its calibration" in upkeep.reason
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert (searcher.spec.method, searcher.ranking.balance) == ("first", 0.6)
    assert set(before) & set(first(home, "Bienen im Garten"))
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.spec.method == "windows"


def test_an_encoder_that_became_another_model_is_refused_with_the_way_back(
    home: Settings, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new"
    shutil.copytree(words, new)
    migrate("demo", str(new), "first", home, sample=60, anyway=True, device="cpu")
    config = json.loads((new / "config.json").read_text())
    (new / "config.json").write_text(json.dumps({**config, "weights": "another"}))
    assert run(["search", "Bienen", "-c", "demo", "--lang", "de", "-q"]) == 1
    said = capsys.readouterr().err
    assert f"demo has migrated to {new} by first" in said
    assert "bring the first back, or leave the migration: dragoman rollback -c demo" in said
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert first(home, "Bienen im Garten")


def test_what_cannot_migrate_gets_one_sentence(home: Settings, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        assert run(["migrate", "-c", "demo", *arguments, "-q"]) == 1
        return capsys.readouterr().err

    assert "already; name another encoder" in said("--encoder", words)
    assert "there is no encoder 'nothing'" in said("--encoder", "nothing")
    assert "the sample has 10 documents" in said("--encoder", words, "--method", "first", "--sample", "10")
    assert collections.find(connect(home.database), "demo") is not None
