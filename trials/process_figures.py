"""What a process uses, read from ``/proc`` (Linux), and whether it stays the same."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

MEMORY, DESCRIPTORS, THREADS = "memory in MB", "descriptors", "threads"
BOUNDS: Mapping[str, float] = {MEMORY: 24.0, DESCRIPTORS: 2.0, THREADS: 1.0}
"""How much more than before a process may use: what leaks at each change of a collection passes these bounds soon."""

Sample = Mapping[str, float]


def files_of(pid: int) -> list[str]:
    """What a process has open, as its descriptors name it; nothing of a process of another user, or that ended."""
    names = []
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                names.append(str(descriptor.readlink()))
    return names


def sample(pid: int) -> Sample:
    """What a process uses now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    memory = int(status["VmRSS"].split()[0]) / 1024
    return {MEMORY: memory, DESCRIPTORS: float(len(files_of(pid))), THREADS: float(status["Threads"])}


def grown(samples: Sequence[Sample]) -> Iterator[str]:
    """One text a figure: empty if the last quarter's median is not above the second quarter's by its bound.

    The first quarter is left out: pools and caches fill meanwhile.
    """
    quarter = len(samples) // 4
    for name, bound in BOUNDS.items():
        before, after = (
            median(figures[name] for figures in part) for part in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        yield (
            "" if after <= before + bound else f"{name}: {before:,.1f} in the second quarter, {after:,.1f} in the last"
        )
