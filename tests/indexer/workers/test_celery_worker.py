"""What a worker settles before it works, its metrics, and how it ends when one of its processes can't begin."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from encoders.document import EncoderSpec
from encoders.errors import BadInput, DragomanError, StoreError
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import GpuFailure
from encoders.machine.placement import GpuUnavailable, NoCuda
from indexer.collection.settings import Settings
from indexer.workers import celery_worker
from indexer.workers.celery_worker import WorkerPlan
from indexer.workers.gpu_processes import PERMANENT
from onnx_export.models import DEFAULT
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.indexer.workers.conftest import QUIET
from trials import ROOT
from trials.servers.process import free_port
from trials.servers.redis import RedisServer

_CHILDREN_FAIL = """
import sys
from encoders.console import Console
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from indexer.workers import celery_worker

def fails(plan, threads):
    raise BadInput("the graph can't be loaded here")

celery_worker._load = fails  # in this process and those it forks; the one that looks ahead is spawned
sys.exit(celery_worker.serve(celery_worker.WorkerPlan(sys.argv[1], None, "cpu", 2), Settings.read(), Console()))
"""


def test_a_card_has_one_process_and_auto_takes_the_cpu_where_cuda_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: WorkerPlan) -> EncoderSpec:
        raise NoCuda("cuDNN is missing; install it")

    install_cards(monkeypatch, Library(["H100", "H200"]))
    plan = WorkerPlan(DEFAULT, None, "auto", concurrency=2)
    monkeypatch.setattr(celery_worker, "_spec_elsewhere", fails)
    reasons = {True: "cuDNN is missing; install it", False: f"{DEFAULT} has a part that cards can't run"}
    for for_gpus, why in reasons.items():
        monkeypatch.setattr(celery_worker, "are_for_gpus", lambda *_, it_is=for_gpus: it_is)
        with caplog.at_level(logging.WARNING):
            assert celery_worker._checked(plan, QUIET) == replace(plan, device="cpu")
        assert f"works on the CPU: {why}" in caplog.text
    with pytest.raises(BadInput, match="a GPU has one process"):
        celery_worker._checked(replace(plan, device="cuda:1"), QUIET)
    alone = replace(plan, device="cuda:1", concurrency=1)
    assert celery_worker._checked(alone, QUIET) == replace(alone, lanes=celery_worker.GPU_LANES)


@pytest.mark.parametrize("cards", [1, 2])
def test_each_card_has_a_process_with_its_own_port(
    cards: int, redis: RedisServer, default_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[WorkerPlan] = []

    def run(work: Mapping[str, partial[int]]) -> int:
        begun.extend(function.args[0] for function in work.values())
        return 0

    install_cards(monkeypatch, Library(["H100"] * cards))
    monkeypatch.setattr(celery_worker, "run_for_each_card", run)
    settings = Settings.read(home=tmp_path / "home", broker=redis.url)
    plan = WorkerPlan(str(default_folder.path), None, "cuda", metrics_address=("127.0.0.1", 9108))
    assert celery_worker.serve(plan, settings, QUIET) == 0
    assert [(one.device, one.metrics_address) for one in begun] == [
        (f"cuda:{number}", ("127.0.0.1", 9108 + number)) for number in range(cards)
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (GpuUnavailable("H100", "it is full"), 1),
        (GpuFailure("the H100 computes nothing any more"), 1),
        (StoreError("the database is away"), 1),
        (NoCuda("cuDNN is missing"), PERMANENT),
        (BadInput("no such encoder"), PERMANENT),
    ],
)
def test_a_card_s_process_that_would_fail_again_is_not_begun_again(
    error: DragomanError, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr(celery_worker, "serve", fails)
    plan = WorkerPlan(DEFAULT, None, "cuda:0")
    assert celery_worker._serve_card(plan, Settings.read(home=tmp_path), QUIET) == status


def test_a_worker_ends_without_its_processes(redis: RedisServer, default_folder: ModelFolder, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment |= {"DRAGOMAN_HOME": str(tmp_path / "home"), "DRAGOMAN_BROKER": redis.url}
    ended = subprocess.run(
        [sys.executable, "-c", _CHILDREN_FAIL, str(default_folder.path)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "this process can't begin: the worker ends" in ended.stderr
    assert "BadInput: the graph can't be loaded here" in ended.stderr
    assert ended.returncode == 1


def test_a_signal_is_handled_while_all_lanes_are_busy(tmp_path: Path) -> None:
    """The signal comes to another thread, as one that comes just before the wait: neither interrupts the wait."""
    pool = celery_worker._Pool(WorkerPlan("any", None, "cpu", 1), Settings.read(tmp_path), QUIET)
    lane: Any = object()
    handled = threading.Event()
    seen: list[bool] = []

    def work() -> None:
        time.sleep(0.3)  # until the main thread waits, which it can't say
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        seen.append(handled.wait(20))
        pool._free.put(lane)

    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    try:
        threading.Thread(target=work).start()
        assert pool._next_free_lane() is lane
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [True]


def test_what_an_encoder_says_while_it_is_opened_is_logged(
    default_folder: ModelFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))  # another test's cache may have a build for cards
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    monkeypatch.setattr("encoders.console._warned", set())
    with caplog.at_level(logging.INFO, "dragoman.worker"):
        celery_worker._load(WorkerPlan(str(default_folder.path), None, "auto"), 1)
    assert "works on the CPU: it is in int8, which cards can't run" in caplog.text


_SERVES = """
import sys
from indexer.workers.worker_metrics import serve_metrics
serve_metrics("127.0.0.1", int(sys.argv[1]))
print("serves", flush=True)
sys.stdin.read()
"""


def test_metrics_on_loopback_do_not_answer_other_machines() -> None:
    port, command = free_port(), [sys.executable, "-c", _SERVES]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has the loopback address alone")
        elsewhere = str(probe.getsockname()[0])
    with subprocess.Popen([*command, str(port)], cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "serves\n"
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((elsewhere, port), timeout=10)
        server.communicate("")
