"""The results page: each benchmark writes its own section of ``benchmarks/RESULTS.md``."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

PAGE = Path(__file__).parent / "RESULTS.md"
DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
_HEAD = """\
# Results

Written by the benchmarks themselves (`make bench`, or one at a time: `python -m benchmarks.NAME`). Absolute times are
of the machine named under each heading, while others used it; the ratios are of one run and are what counts.
"""


def write(name: str, command: str, lines: Sequence[str]) -> None:
    """Put a section on the page, instead of the one it had."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else _HEAD
    section = f"## {name}\n\n`{command}`, on {machine()}.\n\n" + "\n".join(lines) + "\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    found = pattern.search(page)
    page = page[: found.start()] + section + "\n" + page[found.end() :] if found else f"{page}\n{section}"
    PAGE.write_text(page.rstrip() + "\n", encoding="utf-8")
    print(section)


def machine() -> str:
    """Processor, cores, Python and the versions that decide speed."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = re.findall(r"model name\s*: (.+)", cpuinfo.read_text(encoding="utf-8"))
        processor = names[0] if names else processor
    parts = [f"{processor}, {len(os.sched_getaffinity(0))} cores", f"Python {platform.python_version()}"]
    for package in ("onnxruntime", "torch", "numpy"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)


def in_turn(jobs: Mapping[str, Callable[[], object]], rounds: int = 3) -> dict[str, list[float]]:
    """Seconds of each job in each round, the jobs taking turns, after one uncounted run of each."""
    for job in jobs.values():
        job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            started = perf_counter()
            job()
            seconds[name].append(perf_counter() - started)
    return seconds


def ratio(slow: Sequence[float], fast: Sequence[float]) -> str:
    """How many times faster, round by round: median, and the span of the rounds."""
    ratios = sorted(a / b for a, b in zip(slow, fast, strict=True))
    return f"{statistics.median(ratios):.2f} (rounds {ratios[0]:.2f} … {ratios[-1]:.2f})"
