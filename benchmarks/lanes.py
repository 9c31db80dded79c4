"""How busy the processes of ``dragoman worker --device cuda`` keep a GPU that is a pause; all else is real."""

import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.gpu import by_worker
from encoders.machine.cores import available_cores

_WORKER = [sys.executable, "-m", "benchmarks.paused_gpu", "worker", "--device", "cuda"]


@harness.benchmark("Processes on a GPU that is a pause", speed=1_810_000.0, documents=300, copies=10, processes="1,2,4")
def measure(arguments: Namespace) -> list[str]:
    """``speed`` is the pause's padded tokens a second: by default those of an H200."""
    texts, rows = harness.help_pages(arguments.documents), []
    for processes in map(int, arguments.processes.split(",")):
        with tempfile.TemporaryDirectory(prefix="dragoman-lanes-") as folder:
            pause = f"{arguments.speed} {folder}"
            pages, started, finished, _ = by_worker(_WORKER, processes, texts, arguments.copies, PAUSED_GPU=pause)
            files = [np.loadtxt(file, ndmin=2) for file in Path(folder).glob("*.times")]
        ends, pauses, _ = (lines := np.concatenate(files))[lines[:, 0] > started].T
        seconds = finished - (ends - pauses).min()
        cores = sum(lines[-1, 2] - lines[lines[:, 0] < started][-1:, 2].sum() for lines in files) / seconds
        speeds = (f"{pages / time:,.0f}" for time in (seconds, pauses.sum(), finished - started))
        rows.append([processes, *speeds, f"{pauses.sum() / seconds:.0%}", f"{cores:.2f}"])
    header = "processes | pages/s | by the pause alone | with reading | the GPU is busy | processor cores of the worker"
    return [
        f"Worker, Redis, PostgreSQL and Elasticsearch share {available_cores()} cores; the pause has "
        f"{arguments.speed:,.0f} padded tokens a second. Not shown: more cores, and the time that CUDA's driver takes.",
        "",
        *harness.table(header, rows),
    ]
