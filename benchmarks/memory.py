"""Peak memory of indexing: 17,000 documents against 1,000."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from benchmarks import harness


def peak(count: int, place: Path) -> float:
    """Megabytes at the most while ``dragoman index`` reads this many real, shortened documents."""
    source = place / f"{count}.jsonl"
    with source.open("w", encoding="utf-8") as out:
        written = 0
        while written < count:
            for record in islice(harness.read_all("lohelp"), count - written):
                out.write(json.dumps(record | {"id": f"{written}", "text": record["text"][:300]}) + "\n")
                written += 1
    code = "import sys; from query.cli import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "index", str(source), "-c", "c", "--home", str(place / f"h{count}"), "-q"]
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
        "python -m benchmarks.memory",
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
