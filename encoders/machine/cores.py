"""The processor's cores: how many this process may use, and work on all of them."""

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from encoders.machine.cgroups import groups

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def available_cores(root: Path = Path("/")) -> int:
    """Number of cores that this process may use, by its CPU affinity and the limits of its container or service."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for group in groups(root, "cpu"):
        if (limit := group / "cpu.max").is_file():
            quota, period = limit.read_text(encoding="ascii").split()
        elif (limit := group / "cpu.cfs_quota_us").is_file():
            quota, period = (file.read_text(encoding="ascii") for file in (limit, group / "cpu.cfs_period_us"))
        else:
            continue
        if quota.strip() not in ("max", "-1"):
            cores = min(cores, math.ceil(int(quota) / int(period)))
    return cores


def on_all_cores(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Results of work on each item, in order, on a thread per core; BLAS begins no threads in its matrix products."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - a single search need not pay for it

    with threadpool_limits(1), ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(work, items))
