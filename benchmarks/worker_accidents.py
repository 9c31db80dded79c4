"""Accidents to an index run of many workers: the store must be the same, whatever is killed, lost or doubled."""

from __future__ import annotations

import argparse
import random
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks import harness
from trials.documents import poison
from trials.servers.elastic import running as elastic_running
from trials.servers.postgres import PostgresServer
from trials.servers.process import running
from trials.worker_accidents import BROKERS, WORKERS, Servers, Trial


def main() -> None:
    """Run the trial, count, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", choices=sorted(BROKERS), default="rabbitmq")
    parser.add_argument("--accidents", type=int, default=100)
    parser.add_argument("--documents", type=int, default=3_200)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-accidents-")))
        servers = Servers(
            stack.enter_context(running(BROKERS[arguments.broker])),
            stack.enter_context(running(PostgresServer)),
            stack.enter_context(elastic_running()),
        )
        trial = Trial(servers, folder, arguments.documents, arguments.seed, arguments.concurrency)
        kinds = random.Random(arguments.seed).choices(sorted(trial.accidents()), k=arguments.accidents)
        outcome = trial.run(kinds, (0.3, 2.0))
    accidents = ", ".join(f"{times} × {kind}" for kind, times in outcome.happened.most_common())
    harness.write(
        f"Accidents to workers ({arguments.broker})",
        harness.command("worker_accidents", arguments, "broker", "accidents", "documents", "concurrency", "seed"),
        [
            f"{WORKERS} workers put {arguments.documents:,} documents into Elasticsearch, all of them in "
            f"{trial.revision + 1} revisions one after the other, in {outcome.seconds:,.0f} s, one worker with a clock "
            f"an hour fast, while {outcome.happened.total()} accidents hit what they were meant for (a worker while it "
            f"had a chunk, the publisher while it read): {accidents}.",
            "",
            f"Lost **{len(outcome.lost)}**, doubled **{outcome.doubled}**, not byte by byte as an undisturbed "
            f"run of one process left them: **{len(outcome.different)}**. Of {len(poison(0))} poison and odd lines in "
            f"the source, refused or remarked otherwise than there: **{len(outcome.findings)}**.",
        ],
    )
    if not outcome.is_right or outcome.happened.total() < arguments.accidents:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
