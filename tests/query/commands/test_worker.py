"""``dragoman worker`` and what looks after its runs, as processes, with the real encoder."""

import json
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from encoders.console import Console
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index, index_by_workers
from indexer.ledger import index_runs
from indexer.ledger.database import connect
from indexer.workers.run_watch import run_progress, watch_run
from tests.conftest import until
from tests.indexer.workers.conftest import new_database
from tests.indexer.workers.site import Site
from tests.query.conftest import Command
from trials import DEMO
from trials.documents import contents, sentences
from trials.servers.postgres import PostgresServer
from trials.servers.process import free_port
from trials.servers.rabbitmq import RabbitServer
from trials.servers.redis import RedisServer


@pytest.fixture
def site(tmp_path: Path, redis: RedisServer, default_folder: ModelFolder) -> Iterator[Site]:
    """A site with Redis, whose processes are ended afterwards."""
    with closing(Site(tmp_path, redis.url)) as made:
        yield made


@pytest.mark.parametrize("broker", ["redis", pytest.param("rabbitmq", marks=pytest.mark.long)])
def test_two_processes_write_what_one_writes(site: Site, broker: str, request: pytest.FixtureRequest) -> None:
    server: RedisServer | RabbitServer = request.getfixturevalue(broker)
    site.settings = Settings.read(site.settings.home, broker=server.url)
    source = site.write(sentences(640))
    port = free_port()
    worker = site.start("worker", "--concurrency", "2", "--lease", "4", "--metrics-port", str(port), "--json")
    ledger = index_by_workers([source], "c", settings=site.settings)
    number = ledger.run.id
    watching = site.start("status", "--watch", "-c", "c", "--every", "0.2", "--json")
    report = watch_run(ledger, site.settings, Console(quiet=True))
    assert (report.encoded, report.refused, report.resumed) == (640, [], False)
    index([source], "alone", settings=Settings.read(site.settings.home), device="cpu")
    assert contents(site.settings, "c") == contents(site.settings, "alone")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        metrics = answer.read().decode()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)
    assert re.search(r"^dragoman_documents_total 640\.0$", metrics, re.MULTILINE)
    assert 'dragoman_chunks_total{end="done"} 10.0' in metrics
    for step in ("claim", "read", "encode", "put", "mark"):
        assert f'dragoman_step_seconds_count{{step="{step}"}} 10.0' in metrics
    worker.terminate()
    assert worker.wait(60) == 0
    events = [json.loads(line) for line in site.said(worker).splitlines()]
    stored = [event for event in events if "documents stored" in event["event"]]
    assert sorted(event["chunk"] for event in stored) == list(range(10))
    assert {event["run"] for event in stored} == {number}
    looks = [json.loads(line) for line in watching.communicate(timeout=120)[0].splitlines()]
    assert (looks[-1]["state"], looks[0]["documents"], looks[-1]["documents"]) == ("done", 640, 640)
    assert min(look["rate"] for look in looks) >= 0


@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_worker_asked_to_end_returns_a_chunk_that_takes_too_long(site: Site, concurrency: int) -> None:
    """In the solo pool and in the prefork pool: in time, with status 0, and nothing is counted against the chunk."""
    source = site.write([{"id": "a", "lang": "en", "text": "rivers and floods " * 60_000}])
    number = index_by_workers([source], "c", settings=site.settings).run.id
    worker = site.start("worker", "--concurrency", str(concurrency), "--grace", "1", "--lease", "30")
    engine = connect(site.settings.database)
    until(lambda: run_progress(engine, number).chunks == {"leased": 1}, 120)
    worker.terminate()
    asked = time.monotonic()
    assert worker.wait(60) == 0
    assert time.monotonic() - asked < 45
    assert run_progress(engine, number).chunks == {"pending": 1}
    assert run_progress(engine, number).errors == []
    assert run_progress(engine, number).workers == []
    assert "time to finish is over: the chunk goes back" in site.said(worker)
    engine.dispose()


def test_db_upgrade_makes_tables(postgres: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = postgres.url.removesuffix("dragoman") + "never_used"
    dragoman = Command(capsys, "--home", str(tmp_path), "--database", database)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE never_used")
    assert "are not of this version; run: dragoman db upgrade" in dragoman("status", status=1)
    dragoman("db", "upgrade")
    dragoman("status")


def test_one_command_indexes_by_workers_into_elasticsearch_and_calibrates(
    site: Site, postgres: PostgresServer, elastic_url: str, small: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each part that a second machine needs: broker, PostgreSQL, Elasticsearch, a process of the worker."""
    place = ["--home", str(site.settings.home), "--database", new_database(postgres), "--store", elastic_url]
    options = ["--encoder", str(small.path), "--broker", site.settings.broker]
    dragoman = Command(capsys, *place)
    dragoman("db", "upgrade")
    site.start("worker", "--device", "cpu", *place, *options)
    report, calibrated = dragoman.json("index", *sorted(DEMO.glob("docs.*.jsonl")), "-c", "demo", "-q", *options)
    assert (report["encoded"], report["refused"]) == (235, [])
    assert calibrated["calibration"]
    told = dragoman.one("status", "-c", "demo")
    assert (told["documents"], told["store"]) == (235, elastic_url)
    assert [one["calibration"] for one in told["calibrations"] if one["active"]] == [calibrated["calibration"]]
    assert len(dragoman.one("search", "Bienen im Garten", "-c", "demo", "--lang", "de")["hits"]) == 10


def test_a_cancelled_run_ends_once(site: Site, small: ModelFolder, capsys: pytest.CaptureFixture[str]) -> None:
    source, dragoman = site.write(sentences(130)), Command(capsys, "-c", "c", "--home", str(site.settings.home))
    begun = index_by_workers([source], "c", settings=site.settings, encoder=str(small.path))
    again = index_by_workers([source], "c", settings=site.settings, encoder=str(small.path))
    assert (begun.run.id, begun.resumed, again.run.id, again.resumed) == (1, False, 1, True)
    assert "run 1 is cancelled; stored documents stay" in dragoman("cancel")
    assert "run 1 cancelled" in dragoman("status")
    dragoman("cancel", status=1)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_the_run_going_and_says_how_to_go_on(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    looking = site.start("index", site.write(sentences(130)), "-c", "c", "--no-calibration")
    engine = connect(site.settings.database)
    until(lambda: "no worker of its model is alive" in site.said(looking), 120)
    looking.send_signal(signal.SIGINT)
    assert looking.wait(60) == 130
    said = site.said(looking)
    assert "run 1 goes on without this command. Watch it: dragoman status --watch -c c" in said
    assert "pause, resume or cancel -c c" in said
    dragoman = Command(capsys, "-c", "c", "--home", str(site.settings.home))
    dragoman("pause")
    assert "run 1 paused" in (said := dragoman("status"))
    assert "go on: dragoman resume -c c" in said
    site.start("worker", "--lease", "2", "--device", "cpu")
    until(lambda: bool(run_progress(engine, 1).workers), 120)
    assert run_progress(engine, 1).chunks == {"pending": 3}
    dragoman("resume", "--broker", site.settings.broker)
    until(lambda: index_runs.runs(engine, "c")[0].state == "done", 120)
    assert index_runs.runs(engine, "c")[0].encoded == 130
    engine.dispose()
