"""``dragoman serve`` as a process: it begins, answers, and stops in order."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from indexer.settings import Settings
from query.cli import run

SECRET = "a-token-of-thirty-two-characters"  # noqa: S105


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(home: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process that answers, and its URL."""
    port = free_port()
    command = [sys.executable, "-c", "from query.cli import main; main()", "serve", "--home", str(home)]
    started = subprocess.Popen(
        [*command, "--port", str(port), "--device", "cpu", *options],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and started.poll() is None:
            try:
                if httpx.get(f"{url}/api/ready").json()["ready"]:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield started, url
    finally:
        started.kill()
        started.communicate()


def test_it_answers_what_it_has_begun_and_stops(calibrated: Settings) -> None:
    with process(calibrated.home) as (started, url), httpx.Client(base_url=url, timeout=60) as client:
        with ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(client.post, "/api/search", json={"query": f"coffee {at}", "lang": "en", "k": 500})
                for at in range(8)
            ]
            asked[0].result()
            started.send_signal(signal.SIGTERM)
            statuses = [one.result().status_code for one in asked if one.exception() is None]
        assert statuses.count(200) >= 1
        assert set(statuses) <= {200, 503}
        assert started.wait(60) == 0


def test_it_is_killed_and_another_goes_on(calibrated: Settings) -> None:
    with process(calibrated.home) as (started, url):
        before = httpx.post(f"{url}/api/search", json={"query": "coffee"}).json()["hits"]
        started.kill()
        started.wait()
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/api/health")
    with process(calibrated.home, DRAGOMAN_TOKEN=SECRET) as (_, url):
        assert httpx.post(f"{url}/api/search", json={"query": "coffee"}).status_code == 401
        again = httpx.post(f"{url}/api/search", json={"query": "coffee"}, headers={"Authorization": f"Bearer {SECRET}"})
        assert again.json()["hits"] == before


def test_it_listens_to_other_machines_with_tokens_only(
    calibrated: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--host", "0.0.0.0", "--home", str(calibrated.home)]) == 1  # noqa: S104
    assert "name a file of tokens with --tokens" in capsys.readouterr().err


def test_a_port_that_is_taken_is_a_sentence(calibrated: Settings, tmp_path: Path) -> None:
    shutil.copytree(calibrated.home, tmp_path / "home")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [
            sys.executable,
            "-c",
            "from query.cli import main; main()",
            "serve",
            "--home",
            str(tmp_path / "home"),
        ]
        done = subprocess.run(
            [*command, "--port", str(taken.getsockname()[1])], capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert "the service can't listen at 127.0.0.1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_collection_that_is_not_there_is_refused(calibrated: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "-c", "nope", "--home", str(calibrated.home)]) == 1
    assert "there is no collection 'nope'" in capsys.readouterr().err
