"""Cores and cgroups of the machine: how much this process may use, and work on all cores."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

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


def groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's cgroups for a controller and of their parents, innermost first (version 2 or 1).

    A folder may not exist: a container may see the names of the machine's cgroups, and only its own below its mount.
    """
    membership = root / "proc/self/cgroup"
    if not membership.is_file():
        return
    for line in membership.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if not controllers or controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controllers
            innermost = mount / path.strip("/")
            yield from (group for group in (innermost, *innermost.parents) if group.is_relative_to(mount))
