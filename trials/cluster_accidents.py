"""Three processes write while they and their Elasticsearch are killed and stopped: no document is lost or doubled."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from encoders.document import Document, Passages, int8_rows, unit_rows
from indexer.cluster.cluster_address import Address, Credentials
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument
from trials import ROOT
from trials.command import fell
from trials.servers.elastic import running

_MODEL, _DIM, _BATCH = "trial", 64, 64
_WRITERS, _REVISIONS = 3, 4


def _batch(start: int, revision: int) -> list[StoredDocument]:
    vectors = unit_rows(np.random.default_rng([start, revision]).standard_normal((_BATCH, _DIM)).astype(np.float32))
    return [
        StoredDocument(
            Document(f"d{start + row:07d}", ("en", "de", "ja")[row % 3], f"{revision} of {row}", revision=revision),
            vectors[row],
            Passages(int8_rows(vectors[row][None]), np.array([[0, 8]], np.int32)),
        )
        for row in range(_BATCH)
    ]


def write(url: str, documents: int, seed: int) -> None:
    store = ElasticStore(Address.parse(url), "trial", Credentials())
    store.create(_MODEL, _DIM)
    writes = [(start, revision) for revision in range(_REVISIONS) for start in range(0, documents, _BATCH)]
    random.Random(seed).shuffle(writes)
    for start, revision in writes:
        store.put(_MODEL, _batch(start, revision))
    store.publish()


def writers(documents: int, accidents: int, *, seed: int = 0) -> Iterator[str]:
    """Let accidents happen to writers and their server; a killed writer begins again. A try is a document."""
    chance = random.Random(seed)
    with running() as server:
        url = f"{server.url}/trial?replicas=0"

        def start(number: int) -> subprocess.Popen[bytes]:
            code = f"from trials.cluster_accidents import write; write({url!r}, {documents}, {number})"
            return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)

        running_writers = [start(number) for number in range(_WRITERS)]
        for _ in range(accidents):
            time.sleep(chance.uniform(0.5, 3.0))
            accident = chance.choice(("kill the server", "kill a writer", "stop the server's answers"))
            if accident == "kill the server":
                server.kill()
                time.sleep(chance.uniform(0.0, 3.0))
                server.start()
            elif accident == "kill a writer":
                number = chance.randrange(_WRITERS)
                running_writers[number].kill()
                running_writers[number].wait()
                running_writers[number] = start(number)
            else:
                server.pause()
                time.sleep(chance.uniform(0.5, 4.0))
                server.go_on()
        for number, writer in enumerate(running_writers):
            last = writer
            while last.wait():  # the server was away when the writer began: the user gives the command again
                last = start(number)
        store = ElasticStore(Address.parse(url), "trial", Credentials())
        items = {item.document.doc_id: item for page in store.scan(_MODEL) for item in page}
        yield fell("other documents", store.count(), held=sum(store.count().values()) == len(items) == documents)
        for first in range(0, documents, _BATCH):
            for expected in _batch(first, _REVISIONS - 1):
                item = items.get(expected.document.doc_id)
                held = item and item.document == expected.document and bool((item.vector == expected.vector).all())
                yield fell(expected.document.doc_id, "is not as last written", held=bool(held))
