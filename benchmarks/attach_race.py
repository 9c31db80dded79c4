"""An owner's thousands of random writes race with attach; at the end every text must be theirs, with its vector."""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import harness
from indexer.collection.settings import Settings
from trials.attach_race import RaceOutcome, race, race_with_follow
from trials.servers.elastic import running

_RATES = (4, 30)
"""Writes a second of the owner who is followed."""


def main() -> None:
    """Race, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=2000, help="of each of the two writers, as fast as they can")
    parser.add_argument("--seconds", type=float, default=60, help="that each followed race lasts; 3600 for an hour")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # a shell in whose background this runs lets it ignore Ctrl-C, and the follower would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lines = [
        "| | writes | conditional ones made again | encoded | calibrations | documents | texts lost | vectors wrong "
        "| external versions touched | warnings | s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]

    def race_once(name: str, run: Callable[[str], RaceOutcome]) -> None:
        with harness.Stopwatch() as watch:
            outcome = run("".join(character if character.isalnum() else "-" for character in name))
        encoded = f"{outcome.encoded:,}" if outcome.encoded else "–"
        lines.append(
            f"| {name} | {sum(outcome.writes.values()):,} | {outcome.conflicts:,} | {encoded} "
            f"| {outcome.calibrations:,} | {outcome.documents:,} | {len(outcome.lost)} | {len(outcome.wrong)} "
            f"| {len(outcome.touched)} | {len(outcome.warnings)} | {watch.seconds:,.0f} |"
        )
        print(lines[-1], outcome.lost[:5], outcome.wrong[:5], outcome.warnings[:5], dict(outcome.writes), flush=True)

    with running() as server, tempfile.TemporaryDirectory() as folder:

        def unbounded(prefix: str, *, companion: bool) -> RaceOutcome:
            database = f"sqlite:///{Path(folder) / prefix}.db"
            return race(server.url, prefix, database, arguments.writes, companion=companion, seed=arguments.seed)

        def followed(prefix: str, *, rate: float, companion: bool) -> RaceOutcome:
            settings, seconds = Settings.read(home=Path(folder) / prefix), arguments.seconds
            return race_with_follow(server.url, settings, prefix, seconds=seconds, per_second=rate, companion=companion)

        for place, companion in (("in place", False), ("companion", True)):
            race_once(place, partial(unbounded, companion=companion))
            for rate in _RATES:
                name = f"{place}, followed, {rate} a second"
                race_once(name, partial(followed, rate=rate, companion=companion))
    harness.write(
        "An owner's writes racing with attach",
        harness.command("attach_race", arguments, "writes", "seconds"),
        [
            *lines,
            "",
            "Two writers, a kind and a document drawn each time: whole documents, partial updates of the text and of "
            "other fields, a reading written back, an old reading written back as an update, conditional writes, "
            "deletions, documents made again, external versions (never touched in place). As fast as they can against "
            "passes in a row with vectors of a fake encoder; at a rate against dragoman attach --follow with "
            "calibration and the default encoder.",
        ],
    )


if __name__ == "__main__":
    main()
