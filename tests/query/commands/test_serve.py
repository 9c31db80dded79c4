"""``dragoman serve`` as a process: it begins, answers, and stops in order."""

import json
import os
import signal
import socket
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import GpuFailure
from encoders.machine.cores import available_cores
from indexer.collection.settings import Settings
from query.cli import run
from query.commands.serve import _hosts
from query.service.access import Token
from query.service.service_options import LOOPBACK, ServiceOptions
from query.web_server.http_server import listening
from tests.conftest import fallen, until
from tests.query.conftest import Command
from trials.long_running import alone, searches
from trials.servers.service import process
from trials.service_attacks import SECRET, changed_tokens

pytestmark = pytest.mark.parts

BODY = b'{"query": "coffee", "lang": "en"}'


def begin(port: int) -> socket.socket:
    """A search whose body is still to come, when the service is inside it: it has said that it wants the body."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    opened.sendall(
        b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    )
    assert opened.recv(1000).startswith(b"HTTP/1.1 100 ")
    return opened


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_it_answers_what_it_has_begun_and_stops_and_says_why(calibrated: Settings, tmp_path: Path, name: str) -> None:
    """At SIGTERM, and when its terminal is closed."""
    log = tmp_path / "log"
    with process(calibrated.home, log=str(log)) as (started, url):
        port = urlsplit(url).port or 0
        begun = [begin(port) for _ in range(8)]
        started.send_signal(getattr(signal, name))
        until(lambda: not listens(port))
        for one in begun:
            one.sendall(BODY)
        for one in begun:
            answer = b"".join(iter(lambda: one.recv(65_536), b""))  # noqa: B023 - called at once
            one.close()
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["hits"]
        assert started.wait(60) == 0
    assert f"the service stops at {name}; requests that have begun are still answered\n" in log.read_text()


@pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="several processes need Linux")
def test_processes_count_together_are_replaced_and_end_with_the_first(calibrated: Settings, tmp_path: Path) -> None:
    caller, log = {"Authorization": f"Bearer {SECRET}"}, tmp_path / "log"
    with process(calibrated.home, "--processes", "2", log=str(log), DRAGOMAN_TOKEN=SECRET) as (started, url):
        place = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        search = partial(httpx.post, f"{url}/api/search", json={"query": "coffee"})
        metrics = partial(httpx.get, f"{url}/metrics", headers=caller)
        counted = 'requests_total{route="/api/search",status="200"}'
        assert search().status_code == 401
        before, killed = search(headers=caller).json()["hits"], place.read_text().split()
        until(lambda: f"{counted} 1.0" in metrics().text)  # a process counts what it has answered
        for number in killed:
            os.kill(int(number), signal.SIGKILL)
        until(lambda: len(set(place.read_text().split()) - set(killed)) == 2)
        assert search(headers=caller).json()["hits"] == before
        until(lambda: f"{counted} 2.0" in metrics().text)
        os.kill(int(place.read_text().split()[0]), signal.SIGTERM)
        until(lambda: "\na process of the service stops at SIGTERM; " in log.read_text())
        started.kill()
        until(lambda: not listens(urlsplit(url).port or 0))


@pytest.mark.long
def test_further_searches_take_no_memory_in_a_process_or_a_service(demo: Settings) -> None:
    assert alone(searches, demo.home, 300) == ["", ""]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    (file := tmp_path / "tokens").write_text(f"me {SECRET}\n")
    return file


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")
def test_a_token_taken_away_opens_nothing_any_more_and_sighup_ends_nothing(calibrated: Settings, tokens: Path) -> None:
    with process(calibrated.home, DRAGOMAN_TOKENS=str(tokens)) as (started, url):
        assert fallen(changed_tokens(url, started, tokens)) == []


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="Windows has no such terminals")
def test_a_closed_terminal_stops_a_service_with_tokens_too(calibrated: Settings, tokens: Path) -> None:
    master, terminal = os.openpty()
    try:
        with process(calibrated.home, "--tokens", str(tokens), stdin=terminal) as (started, _):
            started.send_signal(signal.SIGHUP)
            assert started.wait(60) == 0
    finally:
        os.close(terminal)
        os.close(master)


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens, and signals stay as they are."""
    monkeypatch.setattr("query.web_server.http_server.listening", lambda *place: nullcontext(place))
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def test_every_option_of_the_command_is_the_service_s(
    tmp_path: Path, reranker: ModelFolder, tokens: Path, no_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[ServiceOptions, str, int]] = []

    def server(_: object, options: ServiceOptions) -> SimpleNamespace:
        return SimpleNamespace(run=lambda place: told.append((options, *place)))

    monkeypatch.setattr("query.web_server.application.Service", lambda _: SimpleNamespace(failure=None))
    monkeypatch.setattr("query.web_server.http_server.server", server)
    arenas: list[int] = []
    monkeypatch.setattr("query.commands.serve.share_arenas", arenas.append)
    tokens.write_text(f"me {SECRET}\nyou {SECRET}2 write\n")
    given = (
        "-c demo -c news --host 10.0.0.7 --port 8301 --allow-host search.example --rate 60 --threads 3 --waiting 7 "
        "--seconds 5 --max-body 2000 --hybrid --elastic http://127.0.0.1:9200 --log --log-days 30 --device cpu"
    )
    files = ["--tokens", str(tokens), "--rerank", str(reranker.path), "--home", str(tmp_path)]
    assert run(["serve", *given.split(), *files]) == 0
    assert arenas == [available_cores()]
    ((options, host, port),) = told
    default = ServiceOptions(Settings.read(home=tmp_path / "other"))
    same = [field.name for field in fields(options) if getattr(options, field.name) == getattr(default, field.name)]
    assert same == [], "give these on the command line too"
    assert (host, port) == ("10.0.0.7", 8301)
    assert list(options.tokens) == [Token.of("me", SECRET), Token.of("you", f"{SECRET}2")]
    bounds: dict[str, Any] = {"rate": 60, "threads": 3, "max_waiting": 7, "seconds": 5.0, "max_body": 2000}
    what: dict[str, Any] = {"collections": ("demo", "news"), "hybrid": True, "rerank": str(reranker.path)}
    where: dict[str, Any] = {"hosts": (*LOOPBACK, "10.0.0.7", "search.example"), "elastic": "http://127.0.0.1:9200"}
    assert replace(options, tokens=()) == ServiceOptions(
        Settings.read(home=tmp_path), device="cpu", log=True, log_days=30, **bounds, **what, **where
    )


def test_a_card_that_fails(tmp_path: Path, no_server: None, monkeypatch: pytest.MonkeyPatch, dragoman: Command) -> None:
    failure = GpuFailure("the H100 computes nothing any more")
    monkeypatch.setattr("query.web_server.application.Service", lambda _: SimpleNamespace(failure=failure))
    server = SimpleNamespace(run=lambda _: None, handle_exit=None)
    monkeypatch.setattr("query.web_server.http_server.server", lambda *_: server)
    assert dragoman("serve", "--home", tmp_path, status=1).endswith(f"Error: {failure}\n")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--host", "0.0.0.0"], 1, "name a file of tokens with --tokens"),  # noqa: S104
        (["--log", "--log-days", "800000"], 2, "--log-days"),
        (["-c", "nope"], 1, "there is no collection 'nope'"),
    ],
)
def test_what_is_not_served_is_refused(
    arguments: list[str], status: int, sentence: str, calibrated: Settings, dragoman: Command
) -> None:
    assert sentence in dragoman("serve", *arguments, "--home", calibrated.home, status=status)


def test_a_host_name_in_capitals_is_the_service_s_own() -> None:
    assert "myserver" in _hosts("MyServer", ("search.example",), local=False)


def test_an_address_where_it_can_not_listen_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for host, port in (("nowhere.invalid", 8300), ("192.0.2.1", 8300), taken.getsockname()):
            sentence = f"can't listen at {host}:{port} .*another --port or --host"
            with pytest.raises(BadInput, match=sentence), listening(host, port):
                pass


def test_it_listens_at_each_address_that_a_name_has_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may have an address of IPv6 on a machine that has none."""
    here, elsewhere = ("127.0.0.1", 0), ("192.0.2.1", 0)
    found = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", one) for one in (elsewhere, here)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with listening("localhost", 0) as sockets:
        assert [one.getsockname()[0] for one in sockets] == ["127.0.0.1"]
