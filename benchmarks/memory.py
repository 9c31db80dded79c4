"""Peak memory of indexing: 17,000 documents against 1,000."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import harness


def endless_records() -> Iterator[harness.Record]:
    """Help pages cut to 300 characters, again and again with other ids."""
    numbers = itertools.count()
    while True:
        for record in harness.read_all("lohelp"):
            yield record | {"id": f"{next(numbers)}", "text": record["text"][:300]}


def peak(count: int, folder: Path) -> float:
    """Most memory of ``dragoman index`` while it reads this many documents, in MB."""
    source = harness.write_records(itertools.islice(endless_records(), count), folder / f"{count}.jsonl")
    code = "import sys; from query.cli import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "index", source, "-c", "c", "--home", str(folder / f"h{count}"), "-q"]
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return usage.ru_maxrss / 1024


def main() -> None:
    """Measure, and write the section."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = (peak(count, Path(folder)) for count in (1_000, 17_000))
    harness.write(
        "Memory of indexing",
        "memory",
        [
            "| documents | peak, MB |",
            "|---:|---:|",
            f"| 1,000 | {small:,.0f} |",
            f"| 17,000 | {large:,.0f} |",
            "",
            f"{large - small:+,.0f} MB for seventeen times the documents (real help pages cut to 300 characters).",
        ],
    )


if __name__ == "__main__":
    main()
