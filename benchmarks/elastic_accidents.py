"""A longer trial of accidents: writers and their server killed and paused at random; nothing lost, nothing doubled."""

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
from indexer.elastic.address import Address, Credentials
from indexer.stores.contract import StoredDocument
from indexer.stores.elastic.store import ElasticStore
from trials.servers.elastic import ElasticServer, running

MODEL, DIM, BATCH = "trial", 64, 64
WRITERS = 3
ACCIDENTS = ("kill the server", "kill a writer", "stop the server's answers")


def batch(start: int, revision: int) -> list[StoredDocument]:
    """Documents of one batch, the same whoever makes them."""
    vectors = unit_rows(np.random.default_rng([start, revision]).standard_normal((BATCH, DIM)).astype(np.float32))
    return [
        StoredDocument(
            Document(
                f"d{start + at:07d}", ("en", "de", "ja")[at % 3], f"revision {revision} of page {at}", revision=revision
            ),
            vectors[at],
            Passages(int8_rows(vectors[at][None]), np.array([[0, 8]], np.int32)),
        )
        for at in range(BATCH)
    ]


def write(url: str, documents: int, revisions: int, seed: int) -> None:
    """One writer: every batch at every revision, in an order of its own."""
    store = ElasticStore(Address.parse(url), "trial", Credentials())
    store.create(MODEL, DIM)
    orders = [(start, revision) for revision in range(revisions) for start in range(0, documents, BATCH)]
    random.Random(seed).shuffle(orders)
    for start, revision in orders:
        store.put(MODEL, batch(start, revision))
    store.publish()


def trial(server: ElasticServer, documents: int, revisions: int, accidents: int, seed: int) -> dict[str, int]:
    """Writers at work while accidents happen to them and to the server; a killed writer begins again."""
    chance = random.Random(seed)
    url = f"{server.url}/trial?replicas=0"
    writers = {number: _started(url, documents, revisions, number) for number in range(WRITERS)}
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
            writers[number] = _started(url, documents, revisions, number)
        else:
            server.pause()
            time.sleep(chance.uniform(0.5, 4.0))
            server.go_on()
    for number, writer in writers.items():
        left = writer
        while left.wait():  # the server was away when it began: its user gives the command again
            left = _started(url, documents, revisions, number)
    return happened


def _started(url: str, documents: int, revisions: int, seed: int) -> subprocess.Popen[bytes]:
    code = f"from benchmarks.elastic_accidents import write; write({url!r}, {documents}, {revisions}, {seed})"
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent.parent)


def differences(server: ElasticServer, documents: int, revisions: int) -> int:
    """How many documents are missing, too many, or not as an undisturbed run would have left them."""
    store = ElasticStore(Address.parse(f"{server.url}/trial"), "trial", Credentials())
    held = {item.document.doc_id: item for page in store.scan(MODEL) for item in page}
    wrong = abs(sum(store.count().values()) - documents)
    for start in range(0, documents, BATCH):
        for expected in batch(start, revisions - 1):
            item = held.pop(expected.document.doc_id, None)
            wrong += item is None or item.document != expected.document or bool((item.vector != expected.vector).any())
    return wrong + len(held)


def main() -> None:
    """Let it happen, count, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=6400)
    parser.add_argument("--revisions", type=int, default=4)
    parser.add_argument("--accidents", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with running() as server:
        happened = trial(server, arguments.documents, arguments.revisions, arguments.accidents, arguments.seed)
        wrong = differences(server, arguments.documents, arguments.revisions)
    told = ", ".join(f"{times} × {accident}" for accident, times in happened.items())
    harness.write(
        "Accidents on Elasticsearch",
        f"python -m benchmarks.elastic_accidents --documents {arguments.documents} --accidents {arguments.accidents} "
        f"--seed {arguments.seed}",
        [
            f"{WRITERS} processes wrote {arguments.documents:,} documents in {arguments.revisions} revisions, "
            f"each in an order of its own, while this happened: {told}.",
            "",
            f"Documents lost, doubled or not as the last revision has them: **{wrong}**.",
        ],
    )
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
