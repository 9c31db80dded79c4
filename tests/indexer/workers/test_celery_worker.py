"""What a worker settles before it works, how it ends when a process can't begin, and a process for each card."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
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
from indexer.workers.gpu_processes import PERMANENT, run_for_each_card
from onnx_export.models import DEFAULT
from tests.conftest import Log, Patch
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.indexer.workers.conftest import QUIET
from trials import ROOT
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


def test_a_card_has_one_process_and_auto_takes_the_cpu_where_cuda_fails(monkeypatch: Patch, caplog: Log) -> None:
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
    cards: int, redis: RedisServer, default_folder: ModelFolder, tmp_path: Path, monkeypatch: Patch
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
def test_a_lasting_failure_is_final(error: DragomanError, status: int, tmp_path: Path, monkeypatch: Patch) -> None:
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
    default_folder: ModelFolder, caplog: Log, monkeypatch: Patch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))  # another test's cache may have a build for cards
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    monkeypatch.setattr("encoders.console._warned", set())
    with caplog.at_level(logging.INFO, "dragoman.worker"):
        celery_worker._load(WorkerPlan(str(default_folder.path), None, "auto"), 1)
    assert "works on the CPU: it is in int8, which cards can't run" in caplog.text


def _bad_once(file: Path, *, kill: bool) -> int:
    """Fail or be killed in the first process, end well in the second."""
    if file.exists():
        return 0
    file.touch()
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    return 3


def _until_sigterm(file: Path) -> int:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    file.touch()
    while not ended.wait(0.1):
        pass
    return 0


def _loading(file: Path) -> int:
    """Work that has no handler of signals yet."""
    file.touch()
    time.sleep(600)
    return 0


def test_a_process_that_fails_or_is_killed_is_started_again(tmp_path: Path) -> None:
    work = {f"cuda:{kill:d}": partial(_bad_once, tmp_path / f"{kill}", kill=kill) for kill in (False, True)}
    assert run_for_each_card(work, pause=0.1) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"False", "True"}


def test_a_signal_ends_all_and_what_waits_to_be_started_again(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second", tmp_path / "loading"]
    work = {f"cuda:{number}": partial(_until_sigterm, file) for number, file in enumerate(files)}
    work["cuda:2"] = partial(_loading, files[2])

    def end_when_begun() -> None:
        while not all(file.exists() for file in files):
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    before, thread = signal.getsignal(signal.SIGTERM), threading.Thread(target=end_when_begun)
    thread.start()
    start = time.monotonic()
    assert run_for_each_card({**work, "cuda:3": partial(int, PERMANENT)}, pause=600.0) == 1
    thread.join()
    assert time.monotonic() - start < 60
    assert signal.getsignal(signal.SIGTERM) is before
