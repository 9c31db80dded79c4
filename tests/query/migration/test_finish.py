"""Encoding a migrated collection again: every document is found meanwhile, and at the end it is the new encoder's."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput, StoreError
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.index import index
from indexer.ledger.database import connect, transaction
from indexer.stores.contract import PutReport, StoredDocument
from indexer.stores.elastic.store import ElasticStore
from indexer.stores.embedded import EmbeddedStore
from query.calibration.lineage import leave_migration
from query.calibration.old_and_new_calibration import OldAndNewCalibration
from query.cli import run
from query.commands.output.migrations import show_reencoding
from query.migration import finish
from query.migration.finish import finish_migration
from query.query_log.tables import SearchRow
from query.ranking.searcher import Searcher
from tests.query.conftest import SOURCES, copied, moved
from tests.query.migration.encoding_again import SAMPLE, command, first, row, status, vectors
from trials import ROOT


@pytest.fixture
def home(migrated_by_words: Settings, quick_probe: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A copy of the migrated demo by the word model."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(finish, "SAMPLE", SAMPLE)
    return copied(migrated_by_words.home, tmp_path)


KILLED = """
import os, signal
from indexer.stores.embedded import EmbeddedStore
from query.migration import finish
from query.cli import run
finish.SAMPLE = {sample}
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
    program = KILLED.format(sample=SAMPLE, at=at, command=command(row(settings).encoder))
    environment = dict(os.environ, DRAGOMAN_HOME=str(settings.home), PYTHONPATH=str(ROOT))
    process = subprocess.run([sys.executable, "-c", program], env=environment, check=False, capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


@pytest.mark.parts
def test_killed_in_the_middle_every_document_is_found_and_the_same_command_goes_on_to_the_same_bytes(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(home.home, tmp_path / "undisturbed")
    undisturbed = Settings.read(home=tmp_path / "undisturbed")
    finish_migration("demo", undisturbed, device="cpu")
    for at in (1, 3):  # in the sample; after the second chunk of the others
        killed(home, at)
    again = status(home)["encoding_again"]
    assert SAMPLE - 5 <= again["documents"] < 235
    assert again["searched"]
    with Searcher.open("demo", home, device="cpu") as searcher:
        assert isinstance(searcher.calibration, OldAndNewCalibration)
        hits = searcher.search("Bienen im Garten", lang="de", k=400, explain=True)
        assert {hit.doc_id for hit in hits} == set(searcher.store.ids())
        fresh = searcher.store.stamps(searcher.spec.model, [hit.doc_id for hit in hits])
        assert 0 < len(fresh) < 235
        assert all(-1 <= hit.cosine <= 1.0001 and hit.passage for hit in hits)
    assert run([*command(row(home).encoder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0 < told["encoded"] < 235
    assert vectors(home) == vectors(undisturbed)
    assert row(home).method == "first"
    assert status(home)["encoding_again"] is None


@pytest.mark.parametrize(
    ("plain", "asked"),
    [("calibrated_by_words", "migrated_by_words"), pytest.param("calibrated", "migrated", marks=pytest.mark.long)],
    ids=["words", "the default encoder"],
)
@pytest.mark.usefixtures("quick_probe")
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
    monkeypatch.setattr(finish, "SAMPLE", SAMPLE)
    encoder = row(home).encoder
    report = finish_migration("demo", home, device="cpu")
    assert report.encoded + report.unchanged == 235
    show_reencoding(report, "demo", Console())
    assert f"235 documents have a vector of {encoder}" in capsys.readouterr().err
    assert 0.3 < report.overlap <= 1
    assert not report.logged
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
    put, calls = EmbeddedStore.put, list[str]()

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
    assert not status(home)["encoding_again"]["searched"]


def test_while_it_opens_its_encoder_no_other_command_changes_the_collection(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened_while_another_begins(*_: object) -> None:
        with pytest.raises(StoreError, match="another process is indexing collection demo"):
            index([str(SOURCES[0])], "demo", settings=home, device="cpu", rebuild=True)
        raise BadInput("it is locked")

    monkeypatch.setattr(finish, "open_specified", opened_while_another_begins)
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
    assert (report.encoded, row(home).method) == (1, "first")


def test_documents_that_logged_searches_showed_most_are_encoded_first(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Searcher.open("demo", home, device="cpu") as searcher:
        last = list(searcher.store.ids())[-3:]
    engine = connect(home.database)
    with transaction(engine) as session:
        for number in range(3):
            session.add(
                SearchRow(
                    id=str(number), created=row(home).created, collection="demo", query=f"Honig {number}", lang="de",
                    space="", settings={}, hits=["gone", *last[: number + 1]], took=1,
                )
            )  # fmt: skip
    engine.dispose()
    order = list[str]()
    put = EmbeddedStore.put

    def noted(store: EmbeddedStore, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        order.extend(one.document.doc_id for one in documents)
        return put(store, model, documents)

    monkeypatch.setattr(EmbeddedStore, "put", noted)
    report = finish_migration("demo", home, device="cpu")
    rest = order[len(order) - report.encoded :]
    assert set(last) & set(rest)  # not all of them were in the sample
    assert [doc_id for doc_id in last if doc_id in rest] == rest[: len([one for one in last if one in rest])]
    assert (report.logged, report.queries) == (True, 3)


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
    monkeypatch.setattr(finish, "SAMPLE", SAMPLE)
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
    again = status(home)["encoding_again"]
    assert SAMPLE - 5 <= again["documents"] < 235
    assert again["searched"]
    with Searcher.open("demo", home, device="cpu") as searcher:
        hits = searcher.search("Bienen im Garten", lang="de", k=400)
        assert {hit.doc_id for hit in hits} == set(searcher.store.ids())
        assert len({hit.doc_id for hit in hits}) == len(hits)
        here = searcher.rank([Document("q", "de", "Bienen im Garten")], k=10)[0]
    copied = Settings.read(home=tmp_path / "embedded")
    shutil.copytree(migrated_by_words.home, copied.home)
    shutil.copy(home.home / "dragoman.db", copied.home / "dragoman.db")
    _embedded(copied, home)
    with Searcher.open("demo", copied, device="cpu") as searcher:
        there = searcher.rank([Document("q", "de", "Bienen im Garten")], k=10)[0]
    assert here.doc_ids == there.doc_ids
    np.testing.assert_allclose(here.scores, there.scores, atol=1e-4)
    finish_migration("demo", home, device="cpu")
    assert row(home).method == "first"
    assert len(vectors(home)) == 235
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
