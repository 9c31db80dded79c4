"""Peak memory of indexing, and of calibrating: 17,000 documents against 1,000."""

from __future__ import annotations

import argparse
import itertools
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


def peaks(count: int, folder: Path) -> tuple[float, float]:
    """Most memory of ``dragoman index`` while it reads this many documents, and of ``dragoman calibrate``, in MB."""
    source = harness.write_records(itertools.islice(endless_records(), count), folder / f"{count}.jsonl")
    home = ["-c", "c", "--home", str(folder / f"h{count}"), "-q"]
    return peak("index", source, "--no-calibration", *home), peak("calibrate", *home)


def peak(*arguments: str) -> float:
    """Most memory of a command, in MB."""
    code = (
        "import sys; from query.cli import run; status = run(sys.argv[1:]); "
        "from benchmarks.harness import peak_memory; print(peak_memory()); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, and write the section."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    counts = (1_000, 17_000)
    with tempfile.TemporaryDirectory() as folder:
        measured = [peaks(count, Path(folder)) for count in counts]
    harness.write(
        "Memory of indexing",
        "memory",
        [
            "Real help pages cut to 300 characters, each command in a process of its own.",
            "",
            "| documents | index, peak MB | calibrate, peak MB |",
            "|---:|---:|---:|",
            *(
                f"| {count:,} | {indexing:,.0f} | {calibrating:,.0f} |"
                for count, (indexing, calibrating) in zip(counts, measured, strict=True)
            ),
        ],
    )


if __name__ == "__main__":
    main()
