"""What a worker settles before it works, and how it ends when one of its processes can't begin."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from encoders.errors import BadInput
from encoders.folder import ModelFolder
from indexer.workers import celery_worker
from indexer.workers.celery_worker import WorkerPlan
from onnx_export.models import DEFAULT
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


@pytest.mark.usefixtures("default_folder")
def test_auto_takes_the_cpu_where_cuda_s_runtime_is_installed_and_does_not_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(celery_worker, "resolved_device", lambda _: "cuda")
    plan = WorkerPlan(DEFAULT, None, "auto", concurrency=2)
    with caplog.at_level(logging.WARNING):
        assert celery_worker._checked(plan) == replace(plan, device="cpu")
    assert "works on the CPU: CUDA was asked for" in caplog.text
    with pytest.raises(BadInput, match="a GPU has one worker"):
        celery_worker._checked(replace(plan, device="cuda"))


@pytest.mark.usefixtures("default_folder")
def test_an_int8_graph_on_a_gpu_is_remarked_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        celery_worker._warn_of_int8(DEFAULT)
    assert f"the graph of {DEFAULT} is int8, which is made for CPUs" in caplog.text
    assert "dragoman export MODEL --precision fp16" in caplog.text


def test_a_worker_ends_with_an_error_when_its_processes_can_t_begin(
    redis: RedisServer, default_folder: ModelFolder, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DRAGOMAN_HOME": str(tmp_path / "home"),
        "DRAGOMAN_BROKER": redis.url,
    }
    ended = subprocess.run(
        [sys.executable, "-c", _CHILDREN_FAIL, str(default_folder.path)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "this process can't begin: the worker ends" in ended.stderr
    assert "BadInput: the graph can't be loaded here" in ended.stderr
    assert ended.returncode == 1
