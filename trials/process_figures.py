"""What a process uses, read from ``/proc`` (Linux), and whether it stays the same."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

MEMORY, DESCRIPTORS, THREADS = "memory in MB", "descriptors", "threads"
CONNECTIONS, LOG = "connections to Elasticsearch", "write-ahead log in MB"
BOUNDS: Mapping[str, float] = {MEMORY: 24.0, DESCRIPTORS: 12.0, THREADS: 3.0, CONNECTIONS: 8.0, LOG: 16.0}
"""How much more than before a process may use. What is kept on purpose is full long before (pools of connections,
4,096 vectors of queries, threads), and measures noise of a few MB, files and connections; what leaks at each change
of a collection passes these bounds within minutes."""
_EVERY = 0.25  # seconds between two samples
_FEWEST = 12

Sample = Mapping[str, float]


@dataclass
class Watched:
    """Samples of a process, oldest first."""

    samples: list[Sample] = field(default_factory=list)

    def medians(self, begin: float, end: float) -> dict[str, float]:
        count = len(self.samples)
        part = self.samples[int(begin * count) : max(int(end * count), int(begin * count) + 1)]
        return {name: median(sample[name] for sample in part) for name in part[0]}

    def grown(self, bounds: Mapping[str, float] = BOUNDS) -> Iterator[str]:
        """One text a figure: empty if the last quarter's median is not above the second quarter's by its bound.

        The first quarter is left out: pools and caches fill meanwhile.
        """
        if len(self.samples) < _FEWEST:
            yield f"the process was watched for {len(self.samples)} samples only"
            return
        before, after = self.medians(0.25, 0.5), self.medians(0.75, 1.0)
        for name, value in after.items():
            held = value <= before[name] + bounds[name]
            yield "" if held else f"{name}: {before[name]:,.1f} in the second quarter, {value:,.1f} in the last"


def files_of(pid: int) -> list[str]:
    """What a process has open, as its descriptors name it; nothing of a process of another user, or that ended."""
    names = []
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                names.append(str(descriptor.readlink()))
    return names


def sample(pid: int, elastic: str = "", databases: Sequence[Path] = ()) -> Sample:
    """What a process uses now; connections to the Elasticsearch at a URL, and the size of databases' logs, if given."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    files = files_of(pid)
    memory = int(status["VmRSS"].split()[0]) / 1024
    figures = {MEMORY: memory, DESCRIPTORS: float(len(files)), THREADS: float(status["Threads"])}
    if elastic:
        port, own = urlsplit(elastic).port or 0, set(files)
        rows = [row.split() for row in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
        to_port = [row for row in rows if int(row[2].rpartition(":")[2], 16) == port]
        figures[CONNECTIONS] = float(sum(f"socket:[{row[9]}]" in own for row in to_port))
    if databases:
        logs = [Path(f"{database}-wal") for database in databases]
        figures[LOG] = sum(log.stat().st_size for log in logs if log.exists()) / (1 << 20)
    return figures


@contextmanager
def watching(pid: int, elastic: str = "", databases: Sequence[Path] = ()) -> Iterator[Watched]:
    watched, ended = Watched([sample(pid, elastic, databases)]), threading.Event()

    def take() -> None:
        while not ended.wait(_EVERY):
            try:
                watched.samples.append(sample(pid, elastic, databases))
            except (FileNotFoundError, ProcessLookupError):  # the process ended
                return

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        ended.set()
        thread.join()
