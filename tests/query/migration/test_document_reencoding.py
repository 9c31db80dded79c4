"""Encoding a migrated collection again: every document is found meanwhile, and at the end it is the new encoder's."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput, StoreError
from indexer.collection import generations
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import open_database, transaction
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import PutReport, StoredDocument, VectorStore
from indexer.stores.embedded import EmbeddedStore
from query.calibration import calibration_table
from query.calibration_fitting.calibration_fit import calibrate
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.cli import run
from query.commands.migrate import show_reencoding
from query.migration import document_reencoding
from query.migration.document_reencoding import finish_migration
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch
from tests.query.conftest import SOURCES, copied, moved
from tests.query.migration import encoding_again as demo
from tests.query.ranking.same_ranking import assert_same
from trials import ROOT

pytestmark = pytest.mark.parts


@pytest.fixture
def home(migrated_by_words: Settings, tmp_path: Path, monkeypatch: Patch) -> Settings:
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
    program = KILLED.format(at=at, command=demo.command(demo.row(settings).encoder))
    environment = dict(os.environ, DRAGOMAN_HOME=str(settings.home), PYTHONPATH=str(ROOT))
    process = subprocess.run([sys.executable, "-c", program], env=environment, check=False, capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


def at_the_nth_put(patch: Patch, store: type[Any], at: int, happens: Callable[[], None]) -> list[str]:
    """Let something happen when a store is about to write for the nth time; returns the ids that it writes."""
    put, calls, written = store.put, list[str](), list[str]()

    def noted(self: VectorStore, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        calls.append(model)
        if len(calls) == at:
            happens()
        written.extend(one.document.doc_id for one in documents)
        report: PutReport = put(self, model, documents)
        return report

    patch.setattr(store, "put", noted)
    return written


def leave(settings: Settings) -> None:
    assert run(["rollback", "-c", "demo", "-q", "--home", str(settings.home)]) == 0


def test_killed_in_the_middle_every_document_is_found_and_the_same_command_goes_on_to_the_same_bytes(
    home: Settings, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    shutil.copytree(home.home, tmp_path / "undisturbed")
    undisturbed = Settings.read(home=tmp_path / "undisturbed")
    finish_migration("demo", undisturbed, device="cpu")
    new, before = demo.migrated_to(home), demo.found_through_the_map(home)
    for at in (1, 3):  # before anything is stored; after the second chunk
        killed(home, at)
    done = demo.encoded_again(home, new)
    assert 0 < done < demo.DOCUMENTS
    assert demo.found_through_the_map(home) == before
    written = at_the_nth_put(monkeypatch, EmbeddedStore, 0, lambda: None)
    assert run([*demo.command(demo.row(home).encoder), "--json"]) == 0
    assert len(written) == len(set(written)) == demo.DOCUMENTS - done
    told = json.loads(capsys.readouterr().out)
    assert told["encoded"] + told["unchanged"] == demo.DOCUMENTS
    assert demo.vectors(home) == demo.vectors(undisturbed)
    assert demo.row(home).method == "first"
    assert demo.migrated_to(home) == ""
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert searcher.calibration.space.query_encoder is None
        assert searcher.spec.model == searcher.stored_model == new


def test_at_the_end_it_answers_as_if_it_had_been_indexed_so_and_rollback_goes_back_and_forth(
    home: Settings, calibrated_by_words: Settings, tmp_path: Path, capsys: Capture
) -> None:
    encoder = demo.row(home).encoder
    report = finish_migration("demo", home, device="cpu")
    assert report.run.encoded + report.run.unchanged == demo.DOCUMENTS
    show_reencoding(report, "demo", Console())
    assert f"{demo.DOCUMENTS} documents have a vector of {encoder}" in capsys.readouterr().err
    assert 0.3 < report.comparison.overlap <= 1
    assert not report.comparison.logged
    found = demo.row(home)
    assert (found.method, found.generation) == ("first", 1)
    anew = Settings.read(home=tmp_path / "anew")
    index([str(path) for path in SOURCES], "demo", settings=anew, device="cpu", encoder=encoder, method="first")
    with Searcher.open("demo", home, device="cpu") as ours, Searcher.open("demo", anew, device="cpu") as theirs:
        assert ours.stored_model == theirs.stored_model == ours.spec.model
        stored = [one.store.vectors(one.stored_model, list(theirs.store.ids())) for one in (ours, theirs)]
        assert (stored[0] * stored[1]).sum(axis=1).min() > 0.99  # int8 depends a little on what is encoded together
    new = demo.first(home)
    assert run(["status", "-c", "demo", "--home", str(home.home)]) == 0
    assert f"returns to the vectors of {encoder} by windows" in capsys.readouterr().out
    leave(home)
    assert demo.first(home) == demo.first(calibrated_by_words)
    leave(home)
    assert demo.first(home) == new


def test_left_in_the_middle_the_old_encoder_answers(
    home: Settings, calibrated_by_words: Settings, monkeypatch: Patch
) -> None:
    new = demo.migrated_to(home)
    at_the_nth_put(monkeypatch, EmbeddedStore, 2, lambda: leave(home))
    monkeypatch.setattr("indexer.reencode.CHUNK_DOCUMENTS", 8)
    with pytest.raises(BadInput, match=r"no longer encodes the queries of demo"):
        finish_migration("demo", home, device="cpu")
    assert demo.first(home) == demo.first(calibrated_by_words)
    assert demo.migrated_to(home) == ""
    assert demo.encoded_again(home, new)  # these stay for a later migration


def test_no_other_command_changes_it_and_the_new_field_is_calibrated_before_it_is_searched(
    home: Settings, monkeypatch: Patch
) -> None:
    """Stopped at the switch, the map still answers; and the same command ends as if nothing had stopped it."""
    demo.log_queries(home, "Honig", "Bienen", "Waldbrand")
    calibrate("demo", home, CalibrationRequest(balance=0.6), device="cpu")

    def opened_while_another_begins(*_: object) -> None:
        with pytest.raises(StoreError, match="another process is indexing collection demo"):
            index([str(SOURCES[0])], "demo", settings=home, device="cpu", rebuild=True)
        raise BadInput("it is locked")

    with monkeypatch.context() as patch:
        patch.setattr(document_reencoding, "open_specified", opened_while_another_begins)
        with pytest.raises(BadInput, match="it is locked"):
            finish_migration("demo", home, device="cpu")
    new, before = demo.migrated_to(home), demo.found_through_the_map(home)
    with monkeypatch.context() as patch:
        patch.setattr(generations, "switch_model", Mock(side_effect=StoreError("the disk is full")))
        with pytest.raises(StoreError, match="disk is full"):
            finish_migration("demo", home, device="cpu")
    assert demo.found_through_the_map(home) == before
    with open_database(home.database) as engine:
        models = {stored.model for stored in calibration_table.all_calibrations(engine, "demo") if stored.active}
    assert new in models
    report = finish_migration("demo", home, device="cpu")
    assert (report.comparison.logged, report.comparison.queries) == (True, 3)  # both encoders are compared on them
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert searcher.spec.model == searcher.stored_model == new
        assert (searcher.ranking.balance, searcher.calibration.space.query_encoder) == (0.6, None)


def test_until_all_is_encoded_the_collection_stays_as_it_is(home: Settings, monkeypatch: Patch) -> None:
    put, refused = EmbeddedStore.put, list[str]()

    def refusing(store: EmbeddedStore, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        refused[:] = refused or [documents[0].document.doc_id]
        report = put(store, model, [one for one in documents if one.document.doc_id not in refused])
        return PutReport(report.stored, report.older, dict.fromkeys(refused, "it is too large"))

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "put", refusing)
        with pytest.raises(BadInput, match=r"is not changed to .+ because 1 document has .+ \(1: it is too large\)"):
            finish_migration("demo", home, device="cpu")
    assert demo.row(home).method != "first"
    assert demo.first(home)
    assert (finish_migration("demo", home, device="cpu").run.encoded, demo.row(home).method) == (1, "first")


def test_what_cannot_be_encoded(home: Settings, calibrated_by_words: Settings, capsys: Capture) -> None:
    encoder = demo.row(home).encoder
    with pytest.raises(BadInput, match="demo has not migrated"):
        finish_migration("demo", calibrated_by_words, device="cpu")
    assert run([*demo.command(encoder), "--dry-run"]) == 2
    assert "leave --re-encode out" in capsys.readouterr().err
    with open_database(home.database) as engine, transaction(engine) as session:
        session.execute(sa.update(Collection).values(store="http://127.0.0.1:1/theirs?text=body"))
    assert run(demo.command(encoder)) == 1
    assert "leave --re-encode out, and the map answers" in capsys.readouterr().err


def test_on_elasticsearch_it_is_the_same(
    migrated_by_words: Settings, calibrated_by_words: Settings, elastic_url: str, tmp_path: Path
) -> None:
    home = moved(migrated_by_words, "demo", elastic_url, tmp_path / "moved")
    with Patch.context() as patch:
        at_the_nth_put(patch, ElasticStore, 3, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            finish_migration("demo", home, device="cpu")
    assert 0 < demo.encoded_again(home, demo.migrated_to(home)) < demo.DOCUMENTS
    demo.found_through_the_map(home)
    rankings = []
    for place in (home, migrated_by_words):
        with Searcher.open("demo", place, device="cpu") as searcher:
            rankings += searcher.rank([Document("q", "de", "Bienen im Garten")], k=10)
    assert_same(rankings[0], rankings[1], tolerance=1e-4)
    finish_migration("demo", home, device="cpu")
    assert demo.row(home).method == "first"
    assert len(demo.vectors(home)) == demo.DOCUMENTS
    leave(home)
    assert demo.first(home) == demo.first(calibrated_by_words)
