"""Peak memory of indexing, and of calibrating: 17,000 documents against 1,000."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import harness
from trials.documents import write_records

_COMMAND = """
import sys
from benchmarks.harness import peak_memory
from query.cli import run
status = run(sys.argv[1:])
print(peak_memory())
sys.exit(status)
"""


def endless_records() -> Iterator[harness.Record]:
    """Help pages cut to 300 characters, again and again with other ids."""
    langs = sorted(file.name.split(".")[1] for file in (harness.DATA / "lohelp").glob("docs.*.jsonl.gz"))
    numbers = itertools.count()
    while True:
        for record in itertools.chain.from_iterable(harness.read("lohelp", lang) for lang in langs):
            yield record | {"id": f"{next(numbers)}", "text": record["text"][:300]}


def main() -> None:
    counts = harness.options(__doc__, counts="1000,17000").counts.split(",")
    table = harness.Table(["| documents | index, peak MB | calibrate, peak MB |", "|---:|---:|---:|"])
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, counts):
            records = itertools.islice(endless_records(), count)
            source = write_records(records, Path(folder) / f"{count}.jsonl")
            home = ["-c", "c", "--home", str(Path(folder) / f"h{count}"), "-q"]
            commands = (["index", source, "--no-calibration", *home], ["calibrate", *home])
            indexing, calibrating = (harness.measure_apart(_COMMAND, *command) for command in commands)
            table.add(f"| {count:,} | {indexing:,.0f} | {calibrating:,.0f} |")
    lines = ["Real help pages cut to 300 characters, each command in a process of its own.", "", *table]
    harness.write("Memory of indexing", lines)


if __name__ == "__main__":
    main()
