"""Encoding a migrating collection again: every document is found meanwhile, and at the end it is the new encoder's."""

import json
import shutil
from pathlib import Path

import pytest

from indexer import collection as collections
from indexer.database import connect
from indexer.indexing import index
from indexer.settings import Settings
from onnx_export.models import DEFAULT
from query.cli import run
from query.searcher import Searcher
from tests.query.conftest import DEMO

AGAIN = ["migrate", "-c", "demo", "--encoder", DEFAULT, "--method", "first", "--anyway", "--re-encode", "-q"]


@pytest.fixture
def home(calibrated: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    shutil.copytree(calibrated.home, tmp_path / "home")
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    return Settings.read(home=tmp_path / "home")


def first(settings: Settings, text: str = "Bienen im Garten", k: int = 10) -> list[str]:
    with Searcher.open("demo", settings, device="cpu") as searcher:
        return [hit.doc_id for hit in searcher.search(text, lang="de", k=k)]


def test_at_the_end_it_answers_as_if_it_had_been_indexed_so_and_rollback_goes_back(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = first(home)
    assert run([*AGAIN, "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[1]["encoded"] + told[1]["unchanged"] == 235
    assert 0.3 < told[1]["overlap"] <= 1
    found = collections.require(connect(home.database), "demo")
    assert (found.method, found.generation) == ("first", 1)
    anew = Settings.read(home=tmp_path / "anew")
    index(
        [str(path) for path in sorted(DEMO.glob("docs.*.jsonl"))], "demo", settings=anew, device="cpu", method="first"
    )
    with Searcher.open("demo", home, device="cpu") as ours, Searcher.open("demo", anew, device="cpu") as theirs:
        assert ours.model == theirs.model
        ids = list(theirs.store.ids())
        cosines = (ours.store.vectors(ours.model, ids) * theirs.store.vectors(ours.model, ids)).sum(axis=1)
        assert cosines.min() > 0.99  # int8 depends a little on what is encoded together
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert first(home) == before
