"""Encoding a migrated collection again: every document is found meanwhile, and at the end it is the new encoder's."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput, StoreError
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import connect, open_database, transaction
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import PutReport, StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.calibration import calibration_table
from query.calibration.lineage import leave_migration
from query.calibration_fitting.calibration_fit import calibrate
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.cli import run
from query.commands.migrate import show_reencoding
from query.migration import document_reencoding
from query.migration.document_reencoding import finish_migration
from query.query_log.query_log_tables import SearchRow
from query.ranking.searcher import Searcher
from tests.query.conftest import SOURCES, copied, moved
from tests.query.migration.encoding_again import (
    DOCUMENTS,
    command,
    encoded_again,
    first,
    found_through_the_map,
    migrated_to,
    row,
    vectors,
)
from tests.query.ranking.same_ranking import assert_same
from trials import ROOT

pytestmark = pytest.mark.parts


@pytest.fixture
def home(migrated_by_words: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A copy of the migrated demo by the word model."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    return copied(migrated_by_words.home, tmp_path)


KILLED = """
import os, signal
from indexer.stores.embedded import EmbeddedStore
from query.cli import run
put, calls = EmbeddedStore.put, []
def dying(store, model, documents):
    calls.append(model)
    if len(calls) == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return put(store, model, documents)
EmbeddedStore.put = dying
run({command!r})
"""


def killed(settings: Settings, at: int) -> None:
    """Encode again in another process, which is killed when it is about to write for the nth time."""
    program = KILLED.format(at=at, command=command(row(settings).encoder))
    environment = dict(os.environ, DRAGOMAN_HOME=str(settings.home), PYTHONPATH=str(ROOT))
    process = subprocess.run([sys.executable, "-c", program], env=environment, check=False, capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


@pytest.mark.parts
def test_killed_in_the_middle_every_document_is_found_and_the_same_command_goes_on_to_the_same_bytes(
    home: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(home.home, tmp_path / "undisturbed")
    undisturbed = Settings.read(home=tmp_path / "undisturbed")
    finish_migration("demo", undisturbed, device="cpu")
    new, before = migrated_to(home), found_through_the_map(home)
    for at in (1, 3):  # before anything is stored; after the second chunk
        killed(home, at)
    done = encoded_again(home, new)
    assert 0 < done < DOCUMENTS
    assert found_through_the_map(home) == before
    put, written = EmbeddedStore.put, list[str]()

    def noted(store: EmbeddedStore, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        written.extend(one.document.doc_id for one in documents)
        return put(store, model, documents)

    monkeypatch.setattr(EmbeddedStore, "put", noted)
    assert run([*command(row(home).encoder), "--json"]) == 0
    assert len(written) == len(set(written)) == DOCUMENTS - done
    told = json.loads(capsys.readouterr().out)
    assert told["encoded"] + told["unchanged"] == DOCUMENTS
    assert vectors(home) == vectors(undisturbed)
    assert row(home).method == "first"
    assert migrated_to(home) == ""
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert searcher.calibration.space.query_encoder is None
        assert searcher.spec.model == searcher.stored_model == new


@pytest.mark.parametrize(
    ("plain", "asked"),
    [("calibrated_by_words", "migrated_by_words"), pytest.param("calibrated", "migrated", marks=pytest.mark.long)],
    ids=["words", "the default encoder"],
)
def test_at_the_end_it_answers_as_if_it_had_been_indexed_so_and_rollback_goes_back_and_forth(
    plain: str,
    asked: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calibrated: Settings = request.getfixturevalue(plain)
    home = copied(request.getfixturevalue(asked).home, tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(home.home))
    encoder = row(home).encoder
    report = finish_migration("demo", home, device="cpu")
    assert report.run.encoded + report.run.unchanged == DOCUMENTS
    show_reencoding(report, "demo", Console())
    assert f"{DOCUMENTS} documents have a vector of {encoder}" in capsys.readouterr().err
    assert 0.3 < report.comparison.overlap <= 1
    assert not report.comparison.logged
    found = row(home)
    assert (found.method, found.generation) == ("first", 1)
    anew = Settings.read(home=tmp_path / "anew")
    index([str(path) for path in SOURCES], "demo", settings=anew, device="cpu", encoder=encoder, method="first")
    with Searcher.open("demo", home, device="cpu") as ours, Searcher.open("demo", anew, device="cpu") as theirs:
        assert ours.stored_model == theirs.stored_model == ours.spec.model
        ids = list(theirs.store.ids())
        cosines = (ours.store.vectors(ours.stored_model, ids) * theirs.store.vectors(ours.stored_model, ids)).sum(
            axis=1
        )
        assert cosines.min() > 0.99  # int8 depends a little on what is encoded together
    new = first(home)
    assert run(["status", "-c", "demo"]) == 0
    assert f"returns to the vectors of {encoder} by windows" in capsys.readouterr().out
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert first(home) == first(calibrated)
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert first(home) == new


def test_left_in_the_middle_it_stops_with_one_sentence_and_the_old_encoder_answers(
    home: Settings, calibrated_by_words: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, put, calls = migrated_to(home), EmbeddedStore.put, list[str]()

    def left_at_the_second(store: EmbeddedStore, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        calls.append(model)
        if len(calls) == 2:
            assert run(["rollback", "-c", "demo", "-q"]) == 0
        return put(store, model, documents)

    monkeypatch.setattr(EmbeddedStore, "put", left_at_the_second)
    monkeypatch.setattr("indexer.reencode.CHUNK_DOCUMENTS", 8)
    with pytest.raises(BadInput, match=r"no longer encodes the queries of demo"):
        finish_migration("demo", home, device="cpu")
    assert first(home) == first(calibrated_by_words)
    assert migrated_to(home) == ""
    assert encoded_again(home, new)  # these stay for a later migration


def test_while_it_opens_its_encoder_no_other_command_changes_the_collection(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened_while_another_begins(*_: object) -> None:
        with pytest.raises(StoreError, match="another process is indexing collection demo"):
            index([str(SOURCES[0])], "demo", settings=home, device="cpu", rebuild=True)
        raise BadInput("it is locked")

    monkeypatch.setattr(document_reencoding, "open_specified", opened_while_another_begins)
    with pytest.raises(BadInput, match="it is locked"):
        finish_migration("demo", home, device="cpu")


def test_what_could_not_be_encoded_for_any_other_reason_keeps_the_collection_as_it_is_until_it_can(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, refused = EmbeddedStore.put, list[str]()

    def refusing(store: EmbeddedStore, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        refused[:] = refused or [documents[0].document.doc_id]
        report = put(store, model, [one for one in documents if one.document.doc_id not in refused])
        return PutReport(report.stored, report.older, dict.fromkeys(refused, "it is too large"))

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "put", refusing)
        with pytest.raises(BadInput, match=r"is not changed to .+ because 1 document has .+ \(1: it is too large\)"):
            finish_migration("demo", home, device="cpu")
    assert row(home).method != "first"
    assert first(home)
    report = finish_migration("demo", home, device="cpu")
    assert (report.run.encoded, row(home).method) == (1, "first")


def test_where_queries_were_logged_both_encoders_are_compared_on_them(home: Settings) -> None:
    engine = connect(home.database)
    with transaction(engine) as session:
        for number in range(3):
            session.add(
                SearchRow(
                    id=str(number), created=row(home).created, collection="demo", query=f"Honig {number}", lang="de",
                    space="", settings={}, hits=[], took=1,
                )
            )  # fmt: skip
    engine.dispose()
    report = finish_migration("demo", home, device="cpu")
    assert (report.comparison.logged, report.comparison.queries) == (True, 3)


def test_the_new_field_is_calibrated_before_it_is_searched(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at the switch, the map still answers; and the same command ends as if nothing had stopped it."""
    new, before, switch = migrated_to(home), found_through_the_map(home), document_reencoding._switch

    def stopped(*arguments: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(document_reencoding, "_switch", stopped)
    with pytest.raises(StoreError, match="disk is full"):
        finish_migration("demo", home, device="cpu")
    assert found_through_the_map(home) == before
    with open_database(home.database) as engine:
        models = {stored.model for stored in calibration_table.all_calibrations(engine, "demo") if stored.active}
    assert new in models
    monkeypatch.setattr(document_reencoding, "_switch", switch)
    finish_migration("demo", home, device="cpu")
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert searcher.spec.model == searcher.stored_model == new


def test_a_persons_balance_stays_when_the_new_field_is_whole(home: Settings) -> None:
    calibrate("demo", home, CalibrationRequest(balance=0.6), device="cpu")
    assert migrated_to(home)
    finish_migration("demo", home, device="cpu")
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert (searcher.ranking.balance, searcher.calibration.space.query_encoder) == (0.6, None)


def test_what_cannot_be_encoded_again_gets_one_sentence(
    calibrated_by_words: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match="demo has not migrated"):
        finish_migration("demo", calibrated_by_words, device="cpu")
    monkeypatch.setenv("DRAGOMAN_HOME", str(calibrated_by_words.home))
    assert run([*command(row(calibrated_by_words).encoder), "--dry-run"]) == 2
    assert "leave --re-encode out" in capsys.readouterr().err


def test_an_attached_collection_is_refused_in_a_sentence_that_says_what_to_do(
    home: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = row(home).encoder
    engine = connect(home.database)
    with transaction(engine) as session:
        session.execute(sa.update(Collection).values(store="http://127.0.0.1:1/theirs?text=body"))
    engine.dispose()
    assert run(command(encoder)) == 1
    assert "leave --re-encode out, and the map answers" in capsys.readouterr().err


def test_on_elasticsearch_it_is_the_same(
    migrated_by_words: Settings, elastic_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = moved(migrated_by_words, "demo", elastic_url, tmp_path / "moved")
    monkeypatch.setenv("DRAGOMAN_HOME", str(home.home))
    put, calls = ElasticStore.put, list[str]()

    def interrupted_at_the_third(store: ElasticStore, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        calls.append(model)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return put(store, model, documents)

    with monkeypatch.context() as patch:
        patch.setattr(ElasticStore, "put", interrupted_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            finish_migration("demo", home, device="cpu")
    assert 0 < encoded_again(home, migrated_to(home)) < DOCUMENTS
    found_through_the_map(home)
    with Searcher.open("demo", home, device="cpu") as searcher:
        here = searcher.rank([Document("q", "de", "Bienen im Garten")], k=10)[0]
    copied = Settings.read(home=tmp_path / "embedded")
    shutil.copytree(migrated_by_words.home, copied.home)
    shutil.copy(home.home / "dragoman.db", copied.home / "dragoman.db")
    _embedded(copied, home)
    with Searcher.open("demo", copied, device="cpu") as searcher:
        there = searcher.rank([Document("q", "de", "Bienen im Garten")], k=10)[0]
    assert_same(here, there, tolerance=1e-4)
    finish_migration("demo", home, device="cpu")
    assert row(home).method == "first"
    assert len(vectors(home)) == DOCUMENTS
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert first(home) == first(rolled_back(migrated_by_words, tmp_path))


def _embedded(copied: Settings, home: Settings) -> None:
    """Let a copy hold on its own disk what a home holds on a server."""
    found = row(home)
    source = found.open_store(home)
    engine = connect(copied.database)
    with transaction(engine) as session:
        session.execute(sa.update(Collection).values(store=""))
    target = row(copied).open_store(copied)
    for model, dim in source.models().items():
        target.create(model, dim)
        for page in source.scan(model):
            target.put(model, page)
    target.close()
    source.close()
    engine.dispose()


def rolled_back(migrated_by_words: Settings, tmp_path: Path) -> Settings:
    """The migrated home, rolled back."""
    home = Settings.read(home=tmp_path / "back")
    shutil.copytree(migrated_by_words.home, home.home)
    engine = connect(home.database)
    leave_migration(engine, "demo")
    engine.dispose()
    return home
