"""The cores that a process may use, and work on all of them."""

import os
import threading
from pathlib import Path

import pytest

from encoders.machine import cores
from encoders.machine.cores import on_all_cores


def test_work_on_all_cores_meets_and_its_results_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "available_cores", lambda: 3)
    together = threading.Barrier(3)

    def halved(number: int) -> float:
        together.wait(timeout=20)  # were fewer at work at once, they would wait for the others in vain
        return 6 / number

    assert on_all_cores(halved, (1, 2, 3)) == [6.0, 3.0, 2.0]
    with pytest.raises(ZeroDivisionError):
        on_all_cores(halved, (1, 0, 3))


@pytest.mark.parametrize(("quota", "count"), [("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1)])
@pytest.mark.parametrize(
    ("membership", "group"),
    [
        ("0::/", ""),
        ("0::/system.slice/docker-1.scope", ""),
        ("0::/system.slice/dragoman.service", "system.slice/dragoman.service"),
        ("0::/system.slice/dragoman.service", "system.slice"),
        ("9:name=systemd:/\n4:cpu,cpuacct:/box/inner\n0::/", "cpu,cpuacct/box"),
    ],
)
def test_the_share_of_time_of_a_container_or_a_unit_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, membership: str, group: str, quota: str, count: int
) -> None:
    folder = tmp_path / "sys/fs/cgroup" / group
    files = {folder / "cpu.max": quota}
    if group.startswith("cpu"):  # version 1
        numbers = quota.replace("max", "-1").split()
        files = dict(zip((folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"), numbers, strict=True))
    for file, text in {**files, tmp_path / "proc/self/cgroup": membership}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert cores.available_cores(tmp_path) == count
