"""Calibrating a collection: what is kept, when it is made anew, what decides."""

import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.document import Document
from encoders.errors import BadInput, ModelMismatch, StoreError
from encoders.folder.model_folder import ModelFolder
from encoders.methods.vector_parts import VectorParts
from indexer.collection.collection import Collection, require
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import connect, transaction
from query.calibration import calibration_table
from query.calibration.calibration import BALANCE, Calibration
from query.calibration.calibration_summary import CommonSpaceSummary, MatesSummary, Summary
from query.calibration.comparison_space import CommonSpace
from query.calibration_fitting.calibration_decision import BALANCES
from query.calibration_fitting.calibration_fit import calibrate
from query.calibration_fitting.calibration_request import CalibrationRequest, JudgedTopics
from query.calibration_fitting.recalibration import is_calibrated, keep_calibrated
from query.cli import run
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import queries_of, read_topics
from tests.query.calibration.earlier import make_earlier
from trials import DEMO

pytestmark = pytest.mark.parts


def kept(settings: Settings) -> list[calibration_table.StoredCalibration]:
    return calibration_table.all_calibrations(connect(settings.database), "demo")


def use(settings: Settings, chosen: str) -> None:
    engine = connect(settings.database)
    calibration_table.use(engine, require(engine, "demo"), chosen)


def change(settings: Settings, calibration: str = "", **values: object) -> None:
    row = calibration_table.CalibrationRow
    statement = sa.update(row).where(row.id == calibration) if calibration else sa.update(row)
    with transaction(connect(settings.database)) as session:
        session.execute(statement.values(**values))


def opened_calibration(settings: Settings) -> Calibration:
    with Searcher.open("demo", settings, device="cpu") as opened:
        assert opened.calibration is not None
        assert opened.ranking.balance == opened.calibration.balance
        return opened.calibration


def documents(path: Path, lang: str, texts: list[str]) -> Path:
    records = [{"id": f"{lang}{at}", "lang": lang, "text": text} for at, text in enumerate(texts)]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def test_the_same_sample_gives_the_same_calibration_and_others_are_switched_to(home: Settings) -> None:
    (first,) = kept(home)
    assert calibrate("demo", home, device="cpu").stored.id == first.id
    assert [one.id for one in kept(home)] == [first.id]
    other = calibrate("demo", home, CalibrationRequest(balance=0.6), device="cpu")
    assert {one.id: one.active for one in kept(home)} == {first.id: False, other.stored.id: True}
    with Searcher.open("demo", home, device="cpu") as opened:
        assert opened.ranking.balance == 0.6
        spaces = {opened.space}
        assert len(opened.search("Schach", lang="de")) == 10
    for chosen in (first.id[:6], "none"):
        use(home, chosen)
        with Searcher.open("demo", home, device="cpu") as opened:
            assert (opened.calibration is None) == (chosen == "none")
            spaces.add(opened.space)
    assert len(spaces) == 3
    with pytest.raises(BadInput, match="no calibrations of demo begin with 'zzz'"):
        Searcher.open("demo", home, ranking=RankingOptions(calibration="zzz"))


def test_a_calibration_that_cannot_be_read_is_said_and_replaced_by_one_with_a_persons_balance(home: Settings) -> None:
    (first,) = kept(home)
    other = calibrate("demo", home, CalibrationRequest(balance=0.3), device="cpu")
    change(home, first.id, artifact=b"damaged")
    with pytest.raises(StoreError, match="make another: dragoman calibrate"):
        use(home, first.id)
    assert [one.id for one in kept(home) if one.active] == [other.stored.id]
    change(home, artifact=b"damaged")
    with pytest.raises(StoreError, match="make another: dragoman calibrate"):
        Searcher.open("demo", home, device="cpu")
    upkeep = keep_calibrated("demo", home, device="cpu")
    assert upkeep.reason == "its calibration can't be read"
    assert upkeep.report is not None
    summary = upkeep.report.stored.summary
    assert (summary.balance, summary.decided_by, upkeep.report.taken_over) == (0.3, "you", True)
    with Searcher.open("demo", home, device="cpu") as opened:
        assert opened.search("Schach", lang="de")


def test_a_database_that_fails_is_no_damaged_calibration(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_table, "read", Mock(side_effect=StoreError("the database is locked")))
    with pytest.raises(StoreError, match="is locked"):
        keep_calibrated("demo", home, device="cpu")


def test_plain_cosine_by_choice_stays_and_calibrations_of_another_model_are_none(
    home: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """The latter as after a rebuild with another encoder, when the calibration that follows was interrupted."""
    assert is_calibrated("demo", home)
    assert run(["calibrate", "-c", "demo", "--use", "none"]) == run(["status", "-c", "demo"]) == 0
    said = capsys.readouterr().out
    assert "searched with plain cosine now" in said
    assert "no calibration: plain cosine; choose one: dragoman calibrate --use ID -c demo" in said
    assert is_calibrated("demo", home)
    upkeep = keep_calibrated("demo", home, device="cpu")
    assert (upkeep.report, "as you chose" in upkeep.reason) == (None, True)
    change(home, model="another")
    assert not is_calibrated("demo", home)


@pytest.mark.parametrize("texts", [["Nur ein einziger Text."], ["Immer dasselbe."] * 40, ["一", "二"]])
def test_a_collection_of_almost_nothing_is_calibrated_and_searched(
    settings: Settings, tmp_path: Path, word_model: ModelFolder, texts: list[str]
) -> None:
    source, encoder = documents(tmp_path / "d.jsonl", "de", texts), str(word_model.path)
    index([str(source)], "demo", settings=settings, encoder=encoder, device="cpu")
    summary = calibrate("demo", settings, device="cpu").stored.summary
    assert (summary.decided_by, summary.mates) == ("default", None)
    for balance in (0.0, 0.75, 1.0):
        with Searcher.open("demo", settings, device="cpu", ranking=RankingOptions(balance=balance)) as opened:
            hits = opened.search("ein Text", lang="de")
            assert len(hits) == min(10, len(texts))
            assert all(-1000 < hit.score < 1000 for hit in hits)


DUTCH = ["Hoe bescherm ik mijn huis tegen overstroming?", "Een zeer korte tekst over schaken.", "Brood bakken."]


def test_what_a_person_gave_stays(home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = [Document(f"q{at}", "de" if at else "sw", f"wie backe ich Brot Nummer {at}") for at in range(6)]
    calibrate("demo", home, CalibrationRequest(balance=0.3, logged_queries=log), device="cpu")
    source = str(documents(tmp_path / "nl.jsonl", "nl", DUTCH))
    index([source], "demo", settings=home, device="cpu")
    with Searcher.open("demo", home, device="cpu") as opened:  # before it is calibrated again: an answer all the same
        assert {hit.lang for hit in opened.search("schaken", lang="nl", to=["nl"])} == {"nl"}
    assert run(["index", source, "-c", "demo"]) == 0
    out, err = capsys.readouterr()
    assert "Searches lean to the query's language across 11 languages: " in out
    assert "queries in sw are not used" in err
    summary, calibration = kept(home)[-1].summary, opened_calibration(home)
    assert (summary.decided_by, summary.few["nl"], calibration.balance) == ("you", 3, 0.3)
    assert calibration.languages["de"].sources.count("") == 5
    assert "nl" in calibration.languages


def test_a_collection_has_one_active_calibration_of_each_model(home: Settings) -> None:
    """Going back to an earlier model finds the calibration again that it was searched with."""
    engine = connect(home.database)
    (first,) = kept(home)
    with transaction(engine) as session:
        row = session.get_one(Collection, "demo")
        before, row.model = row.model, "another"
    nothing = Calibration.none("another", VectorParts.equal(384))
    other = calibration_table.keep(engine, require(engine, "demo"), nothing, Summary.of(nothing, "default"))
    assert {one.id: one.active for one in kept(home)} == {first.id: True, other.id: True}
    active = calibration_table.active(engine, require(engine, "demo"))
    assert active is not None
    assert active.id == other.id
    with pytest.raises(ModelMismatch, match=f"calibration {first.id} is of model {before}"):
        use(home, first.id)
    use(home, "none")
    assert {one.id: one.active for one in kept(home)} == {first.id: True, other.id: False}
    with transaction(engine) as session:
        session.get_one(Collection, "demo").model = before
    assert opened_calibration(home).id == first.id
    with pytest.raises(ModelMismatch, match=f"calibration {other.id} is of model another"):
        Searcher.open("demo", home, device="cpu", ranking=RankingOptions(calibration=other.id))
    second = calibrate("demo", home, CalibrationRequest(balance=0.6), device="cpu").stored
    with pytest.raises(StoreError, match="UNIQUE"):
        change(home, active=True)
    assert [one.id for one in kept(home) if one.active] == [second.id]


def test_drift_asks_for_a_new_calibration(home: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = kept(home)
    texts = [f"{chr(65 + at % 26)}{at * 7919 % 10_000:04} {at * 104_729 % 1_000_003}" for at in range(42)]
    index([str(documents(tmp_path / "numbers.jsonl", "de", texts))], "demo", settings=home, device="cpu")
    before = keep_calibrated("demo", home, device="cpu")
    monkeypatch.setattr("query.calibration_fitting.recalibration.DRIFT", 0.1)
    after = keep_calibrated("demo", home, device="cpu")
    assert before.report is None
    assert after.report is not None
    assert (before.reason, before.languages) == ("it still fits", 10)
    assert re.fullmatch(r"it would change the first ten hits of \d+% of the queries in \w+", after.reason)
    assert 0 < min(before.own_language or 0, after.own_language or 0) < 0.2
    assert after.report.stored.id != first.id
    assert keep_calibrated("demo", home, device="cpu").report is None


def test_index_runs_calibrate(settings: Settings, word_model: ModelFolder, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["-c", "c", "--home", str(settings.home)]
    sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "ja")]
    assert run(["index", *sources, "--encoder", str(word_model.path), *place]) == 0
    said = capsys.readouterr()
    assert re.search(
        r"^Searches are fair across 2 languages: own-language share \d+%, equal would be 50%\.$", said.out, re.MULTILINE
    )
    assert "MAP" not in said.out + said.err
    assert run(["status", "--calibration", *place]) == 0
    assert "c: calibration " in (told := capsys.readouterr()).out
    assert re.search("^mates (don't )?count", told.err)
    assert run(["index", str(DEMO / "docs.tr.jsonl"), *place]) == 0
    assert "across 3 languages" in capsys.readouterr().out
    assert run(["delete", "--all", "-y", *place]) == 0
    assert calibration_table.all_calibrations(connect(settings.database), "c") == []


def test_a_common_space_is_shown_and_its_loss_is_said(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    (before,) = [one for one in kept(home) if one.active]
    engine = connect(home.database)
    statistics = calibration_table.read(engine, "demo", before.id)
    space = CommonSpace.rounded({"de": np.eye(len(statistics.pooled["document"]))})
    summary = replace(before.summary, common_space=CommonSpaceSummary(853, 3.0, 0.7, 0.73))
    calibration_table.keep(engine, require(engine, "demo"), replace(statistics, space=space), summary)
    assert run(["status", "-c", "demo"]) == 0
    assert "asked through maps: a common space" in capsys.readouterr().out
    assert calibrate("demo", home, device="cpu").lost == "a common space"
    assert calibrate("demo", home, device="cpu").lost == ""


@pytest.mark.parametrize(("decided_by", "balance"), [("you", 0.3), ("judgements", 0.5), ("concepts", 0.25)])
def test_a_calibration_of_an_earlier_version_is_used_until_it_is_made_anew_with_a_persons_balance(
    home: Settings, capsys: pytest.CaptureFixture[str], decided_by: str, balance: float
) -> None:
    log = [Document("q", "de", "wie backe ich Brot")]
    calibrate("demo", home, CalibrationRequest(balance=balance, logged_queries=log), device="cpu")
    make_earlier(home, "demo", decided_by, lift=0.8)
    assert not is_calibrated("demo", home)
    earlier = opened_calibration(home)
    assert (earlier.balance, earlier.mates) == (balance, True)
    with Searcher.open("demo", home, device="cpu") as opened:
        assert len(opened.search("Schach", lang="de")) == 10
    upkeep = keep_calibrated("demo", home, device="cpu")
    assert upkeep.reason == "an earlier version of Dragoman made its calibration, with settings that are gone"
    assert upkeep.report is not None
    assert upkeep.report.taken_over == (decided_by in {"you", "judgements"})
    assert upkeep.report.stored.summary.balance == (balance if upkeep.report.taken_over else BALANCE)
    assert not upkeep.report.stored.summary.is_earlier
    assert opened_calibration(home).languages["de"].sources.count("") == 1
    assert (is_calibrated("demo", home), keep_calibrated("demo", home, device="cpu").report) == (True, None)
    assert run(["status", "--calibration", "-c", "demo"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 2


def test_an_earlier_one_is_made_anew_with_a_persons_balance(home: Settings) -> None:
    """The warning of a search advises it, so nothing that a person gave may be lost by it."""
    calibrate("demo", home, CalibrationRequest(balance=0.3), device="cpu")
    make_earlier(home, "demo", "you")
    summary = calibrate("demo", home, device="cpu").stored.summary
    assert (summary.balance, summary.decided_by) == (0.3, "you")
    assert calibrate("demo", home, device="cpu").stored.summary.balance == BALANCE


@pytest.mark.parametrize("mates", [False, True])
def test_what_judgements_decided_stays_when_calibrated_again(home: Settings, tmp_path: Path, mates: bool) -> None:
    engine = connect(home.database)
    (before,) = kept(home)
    judged = replace(calibration_table.read(engine, "demo", before.id), balance=0.5, mates=mates)
    summary = Summary.of(judged, "judgements", mates=MatesSummary(mates, 0.9, 0.9, 100, 0.5, 0.6))
    calibration_table.keep(engine, require(engine, "demo"), judged, summary)
    index([str(documents(tmp_path / "nl.jsonl", "nl", DUTCH))], "demo", settings=home, device="cpu")
    report = keep_calibrated("demo", home, device="cpu").report
    assert report is not None
    assert report.taken_over
    again = report.stored.summary
    assert again.mates is not None
    assert (again.decided_by, again.balance, again.mates.count) == ("judgements", 0.5, mates)
    assert again.common_space is None
    made = calibration_table.read(engine, "demo", report.stored.id)
    assert (made.mates, made.balance, made.space.name) == (mates, 0.5, "")
    assert "nl" in made.languages


@pytest.mark.parametrize("decided_by", ["you", "judgements"])
def test_a_new_balance_or_new_judgements_are_decided_anew(home: Settings, decided_by: str) -> None:
    calibrate("demo", home, CalibrationRequest(balance=0.3), device="cpu")
    topics = [topic for topic in read_topics(DEMO / "topics.tsv") if topic.lang in ("de", "en")]
    judged = JudgedTopics(queries_of(topics), read_qrels([DEMO / "qrels.txt"]))
    request = CalibrationRequest(balance=0.6) if decided_by == "you" else CalibrationRequest(judged=judged)
    report = calibrate("demo", home, request, device="cpu")
    assert (report.taken_over, report.stored.summary.decided_by) == (False, decided_by)
    assert report.stored.summary.balance in ((0.6,) if decided_by == "you" else BALANCES)
