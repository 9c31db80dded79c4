"""A longer trial of accidents to writers and their server, killed and paused at random: no document lost or doubled."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks import harness
from encoders.document import Document, Passages, int8_rows, unit_rows
from indexer.cluster.cluster_address import Address, Credentials
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument
from trials.servers.elastic import ElasticServer, running

MODEL, DIM, BATCH = "trial", 64, 64
WRITERS = 3
ACCIDENTS = ("kill the server", "kill a writer", "stop the server's answers")


def batch(start: int, revision: int) -> list[StoredDocument]:
    """Documents of one batch, the same in every process."""
    vectors = unit_rows(np.random.default_rng([start, revision]).standard_normal((BATCH, DIM)).astype(np.float32))
    return [
        StoredDocument(
            Document(
                f"d{start + row:07d}",
                ("en", "de", "ja")[row % 3],
                f"revision {revision} of page {row}",
                revision=revision,
            ),
            vectors[row],
            Passages(int8_rows(vectors[row][None]), np.array([[0, 8]], np.int32)),
        )
        for row in range(BATCH)
    ]


def write(url: str, documents: int, revisions: int, seed: int) -> None:
    """Write every batch in every revision, in a random order."""
    store = ElasticStore(Address.parse(url), "trial", Credentials())
    store.create(MODEL, DIM)
    writes = [(start, revision) for revision in range(revisions) for start in range(0, documents, BATCH)]
    random.Random(seed).shuffle(writes)
    for start, revision in writes:
        store.put(MODEL, batch(start, revision))
    store.publish()


def trial(server: ElasticServer, documents: int, revisions: int, accidents: int, seed: int) -> dict[str, int]:
    """Let accidents happen to writers and their server; a killed writer begins again. Returns accidents by kind."""
    chance = random.Random(seed)
    url = f"{server.url}/trial?replicas=0"
    writers = [_start(url, documents, revisions, number) for number in range(WRITERS)]
    happened = dict.fromkeys(ACCIDENTS, 0)
    for _ in range(accidents):
        time.sleep(chance.uniform(0.5, 3.0))
        accident = chance.choice(ACCIDENTS)
        happened[accident] += 1
        if accident == "kill the server":
            server.kill()
            time.sleep(chance.uniform(0.0, 3.0))
            server.start()
        elif accident == "kill a writer":
            number = chance.randrange(WRITERS)
            writers[number].kill()
            writers[number].wait()
            writers[number] = _start(url, documents, revisions, number)
        else:
            server.pause()
            time.sleep(chance.uniform(0.5, 4.0))
            server.go_on()
    for number, writer in enumerate(writers):
        last = writer
        while last.wait():  # the server was away when the writer began: the user gives the command again
            last = _start(url, documents, revisions, number)
    return happened


def _start(url: str, documents: int, revisions: int, seed: int) -> subprocess.Popen[bytes]:
    code = f"from benchmarks.elastic_accidents import write; write({url!r}, {documents}, {revisions}, {seed})"
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent.parent)


def differences(server: ElasticServer, documents: int, revisions: int) -> int:
    """Number of documents that are missing, too many, or different from those of an undisturbed run."""
    store = ElasticStore(Address.parse(f"{server.url}/trial"), "trial", Credentials())
    items = {item.document.doc_id: item for page in store.scan(MODEL) for item in page}
    wrong = abs(sum(store.count().values()) - documents)
    for start in range(0, documents, BATCH):
        for expected in batch(start, revisions - 1):
            item = items.pop(expected.document.doc_id, None)
            wrong += item is None or item.document != expected.document or bool((item.vector != expected.vector).any())
    return wrong + len(items)


def main() -> None:
    """Run the trial, count, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=6400)
    parser.add_argument("--revisions", type=int, default=4)
    parser.add_argument("--accidents", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with running() as server:
        happened = trial(server, arguments.documents, arguments.revisions, arguments.accidents, arguments.seed)
        wrong = differences(server, arguments.documents, arguments.revisions)
    accidents = ", ".join(f"{times} × {accident}" for accident, times in happened.items())
    harness.write(
        "Accidents on Elasticsearch",
        harness.command("elastic_accidents", arguments, "documents", "accidents", "seed"),
        [
            f"{WRITERS} processes wrote {arguments.documents:,} documents in {arguments.revisions} revisions, "
            f"each in an order of its own, while this happened: {accidents}.",
            "",
            f"Documents lost, doubled or not as the last revision has them: **{wrong}**.",
        ],
    )
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
