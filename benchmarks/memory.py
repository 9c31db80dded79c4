"""Peak memory of indexing, and of calibrating: 17,000 documents against 1,000."""

import itertools
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from benchmarks import harness
from trials.command import measured
from trials.documents import write_records


def endless_records() -> Iterator[harness.Record]:
    langs = sorted(file.name.split(".")[1] for file in (harness.DATA / "lohelp").glob("docs.*.jsonl.gz"))
    numbers = itertools.count()
    while True:
        for record in itertools.chain.from_iterable(harness.read("lohelp", lang) for lang in langs):
            yield record | {"id": f"{next(numbers)}", "text": record["text"][:300]}


@harness.benchmark("Memory of indexing", counts="1000,17000")
def measure(arguments: Namespace) -> list[str]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, arguments.counts.split(",")):
            source = write_records(itertools.islice(endless_records(), count), Path(folder) / f"{count}.jsonl")
            home = ["-c", "c", "--home", str(Path(folder) / f"h{count}"), "-q"]
            kinds = (["index", source, "--no-calibration"], ["calibrate"])
            peaks = [measured([*kind, *home])[1] for kind in kinds]
            rows.append(f"{figure:,.0f}" for figure in (count, *peaks))
        table = harness.table("documents | index, peak MB | calibrate, peak MB", rows)
    return ["Real help pages cut to 300 characters, each command in a process of its own.", "", *table]
