"""The query service in a thread of this process, run as by ``dragoman serve``, or as a process of its own."""

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from query.service.service_options import ServiceOptions
from query.web_server.application import Service
from query.web_server.http_server import listening, server
from trials import ROOT, patient
from trials.command import DRAGOMAN
from trials.servers.process import free_port

_STARTED_WITHIN = 120.0
_STOPPED_WITHIN = 120.0


@contextmanager
def serving(options: ServiceOptions, **client: Any) -> Iterator[httpx.Client]:
    """Start a service and yield a client of it, when the service has opened all collections that it can open."""
    service = Service(options)
    with listening("127.0.0.1", 0) as sockets:
        running = server(service, options)
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets)), daemon=True)
        url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        thread.start()
        try:
            wait_until_opened(url)
            with httpx.Client(base_url=url, timeout=60, **client) as opened:
                yield opened
        finally:
            running.should_exit = True
            thread.join(_STOPPED_WITHIN)
            if thread.is_alive():
                raise TimeoutError(f"the service at {url} does not stop")


@contextmanager
def process(
    home: Path, *options: str, log: str = os.devnull, stdin: int = subprocess.DEVNULL, port: int = 0, **environment: str
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """``dragoman serve`` as a process that has opened its collections, and its URL; ``log`` is the file of its log."""
    port = port or free_port()
    with Path(log).open("ab") as logged:
        command = [*DRAGOMAN, "serve", "--home", str(home), "--port", str(port), "--device", "cpu", *options]
        own = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        started = subprocess.Popen(command, env=own, stdin=stdin, stderr=logged)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_opened(url, started)
        yield started, url
    finally:
        started.kill()
        started.wait()


def wait_until_opened(url: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a service, that of a process if one is given, is opening no collection any more."""
    until = time.monotonic() + patient(_STARTED_WITHIN)
    while time.monotonic() < until:
        if process and process.poll() is not None:
            raise RuntimeError(f"the service at {url} ended with status {process.returncode} before it answered")
        try:
            if "opening" not in httpx.get(f"{url}/api/ready").json()["collections"].values():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise TimeoutError(f"the service at {url} did not open its collections within {_STARTED_WITHIN:.0f} s")


@contextmanager
def client_of_process(home: Path, *options: str, log: str = os.devnull, seconds: float = 60) -> Iterator[httpx.Client]:
    """A client of a service in a process of its own."""
    with process(home, *options, log=log) as (_, url), httpx.Client(base_url=url, timeout=seconds) as client:
        yield client
