"""The cores that a process may use, and work on all of them."""

import os
import threading
from pathlib import Path

import pytest

from encoders import cores
from encoders.cores import on_all_cores


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
def test_a_container_s_share_of_time_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, count: int
) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(f"{quota}\n")
    monkeypatch.setattr(cores, "_QUOTA", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert cores.available_cores() == count
