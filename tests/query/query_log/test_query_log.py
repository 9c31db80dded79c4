"""The query log: opt-in, kept for a time, and turned into scores."""

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from indexer.collection.settings import Settings
from indexer.ledger.database import connect, now, transaction
from query.cli import root, run
from query.query_log.judged_queries import by_week, logged_queries, logged_searches
from query.query_log.query_log_tables import ClickRow, SearchRow
from query.service.query_log_writer import QueryLog
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from tests.conftest import until
from trials.servers.service import serving

ASKED = (("de", "Wie backe ich Brot ohne gekaufte Hefe?"), ("ru", "ночные поезда"), ("ja", "眠れない夜"))


@pytest.fixture
def own(calibrated: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(calibrated.home, tmp_path / "home")
    return Settings.read(home=tmp_path / "home")


def rows(settings: Settings, table: type[SearchRow] | type[ClickRow]) -> list[Any]:
    engine = connect(settings.database)
    with transaction(engine) as session:
        found = list(session.scalars(sa.select(table)))
    engine.dispose()
    return found


def test_nothing_is_kept_unless_it_is_asked_for(own: Settings) -> None:
    with serving(ServiceOptions(own, device="cpu")) as client:
        answer = client.post("/api/search", json={"query": "coffee"}).json()
        assert answer["search"] is None
        assert client.post("/api/clicks", json={"search": "0" * 32, "id": "a"}).status_code == 204
    assert rows(own, SearchRow) == rows(own, ClickRow) == []


def test_clicks_become_scores(own: Settings) -> None:
    with serving(ServiceOptions(own, device="cpu", log=True)) as client:
        for lang, query in ASKED:
            found = client.post("/api/search", json={"query": query, "lang": lang, "balance": 0.7}).json()
            opened = found["hits"][1]["id"]
            for doc_id in (opened, opened, "not among the hits"):
                assert client.post("/api/clicks", json={"search": found["search"], "id": doc_id}).status_code == 204
        client.post("/api/clicks", json={"search": "f" * 32, "id": "of no search"})
    searches = logged_searches("demo", own)
    assert [(one.lang, one.query) for one in searches] == list(ASKED)
    assert [list(one.relevant) for one in searches] == [[one.hits[1]] for one in searches]
    assert list(by_week(searches).values()) == [(3, 0.5)]
    engine = connect(own.database)
    with transaction(engine) as session:
        assert {one.settings["balance"] for one in session.scalars(sa.select(SearchRow))} == {0.7}
    engine.dispose()
    done = CliRunner().invoke(root, ["evaluate", "--from-log", "-c", "demo", "--json", "--home", str(own.home)])
    assert done.exit_code == 0, done.output
    weeks, evaluation = map(json.loads, done.stdout.splitlines())
    assert [one["AP"] for one in weeks["weeks"].values()] == [0.5]
    (pooled,) = (one for one in evaluation["runs"] if one["kind"] == "pooled")
    assert (pooled["topics"], evaluation["topics"]) == (3, "query-log.jsonl")
    assert 0 < pooled["means"]["AP"] <= 1
    assert [(one.lang, one.text) for one in logged_queries("demo", own)] == sorted(ASKED)


def test_a_character_that_no_database_takes_is_replaced(own: Settings) -> None:
    with serving(ServiceOptions(own, device="cpu", log=True)) as client:
        found = client.post("/api/search", json={"query": "coffee\x00beans", "lang": "en"}).json()
        assert client.post("/api/clicks", json={"search": found["search"], "id": "a\x00"}).status_code == 204
    assert [(row.id, row.query) for row in rows(own, SearchRow)] == [(found["search"], "coffee\ufffdbeans")]


def test_what_is_too_old_goes(own: Settings) -> None:
    engine = connect(own.database)
    with transaction(engine) as session:
        for days in (1, 100):
            when = now() - dt.timedelta(days=days)
            session.add(
                SearchRow(
                    id=f"{days}", created=when, collection="demo", query="a", lang="en", space="", settings={},
                    hits=["x"], took=1,
                )
            )  # fmt: skip
            session.add(ClickRow(search=f"{days}", doc_id="x", created=when))
    log = QueryLog(engine, 90, Metrics())
    until(lambda: len(rows(own, SearchRow)) == 1)
    log.close()
    engine.dispose()
    assert [one.id for one in rows(own, SearchRow)] == ["1"]
    assert [one.search for one in rows(own, ClickRow)] == ["1"]


def test_judgements_of_what_was_asked_become_scores(own: Settings, tmp_path: Path) -> None:
    with serving(ServiceOptions(own, device="cpu", log=True)) as client:
        for lang, query in (*ASKED, ASKED[0]):
            client.post("/api/search", json={"query": query, "lang": lang})

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(root, [*arguments, "-c", "demo", "--home", str(own.home)])

    assert call("queries", "-o", str(tmp_path / "asked.jsonl")).exit_code == 0
    asked = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text("utf-8").splitlines()]
    assert [(one["lang"], one["title"], one["asked"]) for one in asked[:1]] == [(*ASKED[0], 2)]
    assert {len(one["shown"]) for one in asked} == {10}
    assert {tuple(one["relevant"]) for one in asked} == {()}
    assert ASKED[0][1] in call("queries").output
    (tmp_path / "judged").write_text(
        f"{asked[0]['qid']} 0 {asked[0]['shown'][3]} 2\n{asked[1]['qid']} 0 {asked[1]['shown'][0]} 0\n", "utf-8"
    )
    done = call("evaluate", "--from-log", "--qrels", str(tmp_path / "judged"), "--json")
    assert done.exit_code == 0, done.output
    weeks, evaluation = map(json.loads, done.stdout.splitlines())
    assert list(weeks["weeks"].values()) == [{"searches": 2, "AP": 0.25}]
    (only,) = (one for one in evaluation["runs"] if one["kind"] == "language")
    assert (only["lang"], only["topics"], only["means"]["AP"]) == ("de", 1, 0.25)
    (tmp_path / "judged").write_text("141 0 a 1\n", "utf-8")
    refused = call("evaluate", "--from-log", "--qrels", str(tmp_path / "judged"))
    assert "dragoman queries -c demo" in str(refused.exception)


def test_queries_go_with_their_collection(own: Settings) -> None:
    with serving(ServiceOptions(own, device="cpu", log=True)) as client:
        found = client.post("/api/search", json={"query": "coffee"}).json()
        client.post("/api/clicks", json={"search": found["search"], "id": found["hits"][0]["id"]})
    assert len(rows(own, ClickRow)) == 1
    assert run(["delete", "--all", "-y", "-c", "demo", "--home", str(own.home)]) == 0
    assert rows(own, SearchRow) == rows(own, ClickRow) == []


def test_without_clicks_there_is_nothing_to_score(own: Settings) -> None:
    done = CliRunner().invoke(root, ["evaluate", "--from-log", "-c", "demo", "--home", str(own.home)])
    assert done.exit_code == 1
    assert "keep one with: dragoman serve --log" in str(done.exception)
    both = CliRunner().invoke(root, ["evaluate", "-c", "demo", "--from-log", "--topics", "x", "--qrels", "y"])
    assert both.exit_code == 2
