"""The query log: opt-in, kept for a time, and turned into scores."""

import datetime as dt
import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa

from indexer.collection.settings import Settings
from indexer.ledger.database import now, open_database, transaction
from query.query_log.judged_queries import by_week, logged_queries, logged_searches
from query.query_log.query_log_tables import ClickRow, SearchRow
from query.service.query_log_writer import QueryLog
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from tests.conftest import until
from tests.query.conftest import Command
from trials.servers.service import serving

ASKED = (("de", "Wie backe ich Brot ohne gekaufte Hefe?"), ("ru", "ночные поезда"), ("ja", "眠れない夜"))


def rows(settings: Settings, table: type[SearchRow] | type[ClickRow]) -> list[Any]:
    with open_database(settings.database) as engine, transaction(engine) as session:
        return list(session.scalars(sa.select(table)))


def logging(settings: Settings, log: bool = True) -> AbstractContextManager[httpx.Client]:
    return serving(ServiceOptions(settings, device="cpu", log=log))


def test_nothing_is_kept_unless_it_is_asked_for(real: Settings) -> None:
    with logging(real, log=False) as client:
        assert client.post("/api/search", json={"query": "coffee"}).json()["search"] is None
        assert client.post("/api/clicks", json={"search": "0" * 32, "id": "a"}).status_code == 204
    assert rows(real, SearchRow) == rows(real, ClickRow) == []


def test_clicks_become_scores(real: Settings, dragoman: Command) -> None:
    with logging(real) as client:
        for lang, query in ASKED:
            found = client.post(
                "/api/search", json={"query": query, "lang": lang, "balance": 0.7, "subjects": False}
            ).json()
            opened = found["hits"][1]["id"]
            for doc_id in (opened, opened, "not among the hits"):
                assert client.post("/api/clicks", json={"search": found["search"], "id": doc_id}).status_code == 204
        client.post("/api/clicks", json={"search": "f" * 32, "id": "of no search"})
    searches = logged_searches("demo", real)
    assert [(one.lang, one.query) for one in searches] == list(ASKED)
    assert [list(one.relevant) for one in searches] == [[one.hits[1]] for one in searches]
    assert list(by_week(searches).values()) == [(3, 0.5)]
    assert {one.settings["balance"] for one in rows(real, SearchRow)} == {0.7}
    weeks, evaluation = dragoman.json("evaluate", "--from-log", "-c", "demo")
    assert [one["AP"] for one in weeks["weeks"].values()] == [0.5]
    (pooled,) = (one for one in evaluation["runs"] if one["kind"] == "pooled")
    assert (pooled["topics"], evaluation["topics"]) == (3, "query-log.jsonl")
    assert 0 < pooled["means"]["AP"] <= 1
    assert [(one.lang, one.text) for one in logged_queries("demo", real)] == sorted(ASKED)


def test_a_character_that_no_database_takes_is_replaced(real: Settings) -> None:
    with logging(real) as client:
        found = client.post("/api/search", json={"query": "coffee\x00beans", "lang": "en"}).json()
        assert client.post("/api/clicks", json={"search": found["search"], "id": "a\x00"}).status_code == 204
    assert [(row.id, row.query) for row in rows(real, SearchRow)] == [(found["search"], "coffee\ufffdbeans")]


def test_what_is_too_old_goes(real: Settings) -> None:
    with open_database(real.database) as engine:
        with transaction(engine) as session:
            for days in (1, 100):
                one = {"created": now() - dt.timedelta(days=days)}
                asked = {"collection": "demo", "query": "a", "lang": "en", "space": "", "settings": {}, "hits": ["x"]}
                session.add(SearchRow(id=f"{days}", took=1, **asked, **one))
                session.add(ClickRow(search=f"{days}", doc_id="x", **one))
        (log := QueryLog(engine, 90, Metrics())).start()
        until(lambda: len(rows(real, SearchRow)) == 1)
        log.close()
    assert [one.id for one in rows(real, SearchRow)] == ["1"]
    assert [one.search for one in rows(real, ClickRow)] == ["1"]


def test_judgements_of_what_was_asked_become_scores(real: Settings, tmp_path: Path, dragoman: Command) -> None:
    with logging(real) as client:
        for lang, query in (*ASKED, ASKED[0]):
            client.post("/api/search", json={"query": query, "lang": lang, "subjects": False})
    dragoman("queries", "-c", "demo", "-o", tmp_path / "asked.jsonl")
    asked = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text("utf-8").splitlines()]
    assert [(one["lang"], one["title"], one["asked"]) for one in asked[:1]] == [(*ASKED[0], 2)]
    assert {len(one["shown"]) for one in asked} == {10}
    assert {tuple(one["relevant"]) for one in asked} == {()}
    assert ASKED[0][1] in dragoman("queries", "-c", "demo")
    judged, evaluate = tmp_path / "judged", ["evaluate", "-c", "demo", "--from-log", "--qrels", tmp_path / "judged"]
    (first, second), shown = (one["qid"] for one in asked[:2]), [one["shown"] for one in asked]
    judged.write_text(f"{first} 0 {shown[0][3]} 2\n{second} 0 {shown[1][0]} 0\n", "utf-8")
    weeks, evaluation = dragoman.json(*evaluate)
    assert list(weeks["weeks"].values()) == [{"searches": 2, "AP": 0.25}]
    (only,) = (one for one in evaluation["runs"] if one["kind"] == "language")
    assert (only["lang"], only["topics"], only["means"]["AP"]) == ("de", 1, 0.25)
    judged.write_text("141 0 a 1\n", "utf-8")
    assert "dragoman queries -c demo" in dragoman(*evaluate, status=1)


def test_queries_go_with_their_collection(real: Settings, dragoman: Command) -> None:
    with logging(real) as client:
        found = client.post("/api/search", json={"query": "coffee"}).json()
        client.post("/api/clicks", json={"search": found["search"], "id": found["hits"][0]["id"]})
    assert len(rows(real, ClickRow)) == 1
    dragoman("delete", "--all", "-y", "-c", "demo")
    assert rows(real, SearchRow) == rows(real, ClickRow) == []


def test_without_clicks_there_is_nothing_to_score(real: Settings, dragoman: Command) -> None:
    evaluate = ["evaluate", "-c", "demo", "--from-log"]
    assert "keep one with: dragoman serve --log" in dragoman(*evaluate, status=1)
    dragoman(*evaluate, "--topics", "x", "--qrels", "y", status=2)
