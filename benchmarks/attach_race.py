"""An owner's thousands of random writes race with attach; at the end every text must be theirs, with its vector."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks import harness
from trials.attach_race import race
from trials.servers.elastic import running


def main() -> None:
    """Race, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=2000, help="of each of the two writers")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    lines = [
        "| | writes | conditional ones made again | looks | encoded | documents | texts lost | vectors wrong | s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    with running() as server, tempfile.TemporaryDirectory() as folder:
        for name, companion in (("in place", False), ("companion", True)):
            prefix = name.replace(" ", "-")
            database = f"sqlite:///{Path(folder) / prefix}.db"
            with harness.Stopwatch() as watch:
                outcome = race(server.url, prefix, database, arguments.writes, companion=companion, seed=arguments.seed)
            lines.append(
                f"| {name} | {sum(outcome.writes.values()):,} | {outcome.conflicts:,} | {outcome.catch_ups:,} "
                f"| {outcome.encoded:,} | {outcome.documents:,} | {len(outcome.lost)} | {len(outcome.wrong)} "
                f"| {watch.seconds:,.0f} |"
            )
            print(lines[-1], outcome.lost[:5], outcome.wrong[:5], dict(outcome.writes))
    harness.write(
        "An owner's writes racing with attach",
        "attach_race",
        [
            *lines,
            "",
            "Two writers, a kind and a document drawn each time: whole documents, partial updates of the text and of "
            "other fields, a reading written back, an old reading written back as an update, conditional writes, "
            "deletions, external versions (never touched in place). Vectors of a fake encoder, not of a model.",
        ],
    )


if __name__ == "__main__":
    main()
