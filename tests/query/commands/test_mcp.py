"""``dragoman mcp`` as an agent's program starts it: nothing but the protocol on standard output, and a clean end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from unittest.mock import patch

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from indexer.collection.settings import Settings
from query.ranking.searcher import Searcher
from query.service.agents import agent_transports
from query.service.open_collections import OpenCollections
from query.service.search_threads import SearchThreads
from query.service.service_options import ServiceOptions
from tests.query.conftest import Command
from trials import ROOT
from trials.command import DRAGOMAN

QUERY = "Wie backe ich Brot ohne gekaufte Hefe?"
WAITING = "waiting for an agent at standard input (stop with Ctrl-C)\n"
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
OPENING = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}


def command(settings: Settings) -> list[str]:
    return [*DRAGOMAN, "mcp", "-c", "demo", "--home", str(settings.home), "--device", "cpu"]


@contextmanager
def started(settings: Settings, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """The command when it has answered the first message, its input and its output; it writes its messages to a log."""
    environment, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    with (
        log.open("wb") as errors,
        subprocess.Popen(command(settings), env=environment, stdin=pipe, stdout=pipe, stderr=errors) as process,
    ):
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(OPENING).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "dragoman"
        yield process, process.stdin, process.stdout


@pytest.mark.parts
def test_an_agent_finds_what_the_command_finds(calibrated_by_words: Settings, tmp_path: Path) -> None:
    program, *arguments = command(calibrated_by_words)
    server = StdioServerParameters(command=program, args=arguments, env={**os.environ, "PYTHONPATH": str(ROOT)})
    log = tmp_path / "log"

    async def found() -> list[str]:
        with log.open("w") as errors:
            async with Client(stdio_client(server, errors)) as client:
                result = await client.call_tool("search", {"query": QUERY, "lang": "de", "k": 5})
        return [hit["id"] for hit in result.structured_content["hits"]]

    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        assert asyncio.run(found()) == [hit.doc_id for hit in searcher.search(QUERY, lang="de", k=5, subjects=True)]
    assert log.read_text() == WAITING


@pytest.mark.parts
@pytest.mark.parametrize("died", [False, True])
def test_it_ends_when_the_agent_closes_or_has_died(calibrated_by_words: Settings, tmp_path: Path, died: bool) -> None:
    with started(calibrated_by_words, tmp_path / "log") as (process, stdin, stdout):
        if died:
            stdout.close()
            stdin.write(b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n')
        stdin.close()
        assert died or stdout.read() == b""
        assert process.wait(60) == 0
    assert (tmp_path / "log").read_text() == WAITING


@pytest.mark.parts
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_it_though_it_waits_for_input(calibrated_by_words: Settings, tmp_path: Path) -> None:
    with started(calibrated_by_words, tmp_path / "log") as (process, _, __):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert (tmp_path / "log").read_text().endswith("interrupted\n")


def test_it_opens_collections_at_once_and_closes_all(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = threading.Event()
    owners: tuple[type[SearchThreads] | type[OpenCollections], ...] = (SearchThreads, OpenCollections)

    async def failing(_: object) -> None:
        assert opened.wait(5)
        raise RuntimeError

    monkeypatch.setattr(OpenCollections, "names", lambda _: ["news"])
    monkeypatch.setattr(OpenCollections, "warm", lambda *_: opened.set())
    monkeypatch.setattr(agent_transports, "_serve", failing)
    with ExitStack() as stack:
        closes = [
            stack.enter_context(patch.object(owner, "close", autospec=True, side_effect=owner.close))
            for owner in owners
        ]
        with pytest.raises(RuntimeError):
            agent_transports.serve_agent(ServiceOptions(settings, device="cpu"))
    assert [close.call_count for close in closes] == [1, 1]


def test_without_its_parts_it_says_so(settings: Settings, dragoman: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no collection 'news'" in dragoman("mcp", "-c", "news", "--home", settings.home, status=1)
    assert dragoman.out == ""
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert dragoman("mcp", status=1).endswith("install them: make install EXTRAS=serve\n")
