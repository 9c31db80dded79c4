"""The processor's cores: how many this process may use, and work on all of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""CPU limit of a container or systemd unit: microseconds of CPU time (or ``max``), and the period's length."""


def available_cores() -> int:
    """Number of cores that this process may use, by its CPU affinity and its container's CPU limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if _QUOTA.is_file():
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    return cores


def on_all_cores(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """The results of work on each item, in order; as much is done at once as there are cores.

    Threads gain where the work is products of matrices, or waits for a server. BLAS begins no threads of its own.
    """
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - a single search need not pay for it

    with threadpool_limits(1), ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(work, items))
