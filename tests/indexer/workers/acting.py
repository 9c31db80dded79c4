"""A worker with an encoder that behaves as a test likes: BEHAVIOUR MODEL CONCURRENCY GRACE LEASE LANES [json].

A concurrency of 0 is none: the default of ``dragoman worker``.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoded, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.inference.batch_checkpoint import current_checkpoint
from indexer.collection.settings import Settings
from indexer.workers import celery_worker, chunk_worker
from trials.fake_encoder import FakeEncoder


class Actor(FakeEncoder):
    """Encodes at once (``well``), in a minute (``slow``), never (``sick``), or after a file ``go`` is made (``held``).

    It ``fails`` to be loaded. The behaviour ``kills`` ends it at a text with that word, and ``tires`` after every
    second of six batches of a very long text; the numbers of the batches stand in the file ``batches`` of the home.
    """

    def __init__(self, behaviour: str, model: str) -> None:
        super().__init__()
        self.behaviour, self.spec = behaviour, replace(self.spec, model=model, build="build-c")

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        if self.behaviour == "kills" and any("kills" in document.text for document in documents):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.behaviour == "tires":
            checkpoint = current_checkpoint.get()
            assert checkpoint
            list(checkpoint.batches("key", [1] * 6, 8, self._tiring_batches))
        if self.behaviour == "sick":
            raise RuntimeError("CUDA failure 719: unspecified launch failure")
        go, until = Settings.read().home / "go", time.monotonic() + 60
        while (self.behaviour == "slow" and time.monotonic() < until) or (self.behaviour == "held" and not go.exists()):
            time.sleep(0.05)
        return super().encode_documents(documents)

    def _tiring_batches(self, first: int) -> Iterator[FloatArray]:
        for number in range(first, 6):
            with (Settings.read().home / "batches").open("a") as computed:
                computed.write(f"{number} ")
            yield np.full((1, 8), number, np.float32)
            if number == first + 1 and number < 5:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Serve; a terminal that closes counts, though the tests may run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    behaviour, model, concurrency, grace, lease, lanes, *log = sys.argv[1:]

    def load(*_: object) -> Encoder:
        if behaviour == "fails":
            raise BadInput("the graph can't be loaded here")
        return Actor(behaviour, model)

    spec = Actor(behaviour, model).spec
    vars(celery_worker).update(_load=load, _spec_elsewhere=lambda _: spec, make_models=lambda *_: None)
    chunk_worker._PAUSE, chunk_worker._SWEEP = 0.1, 0.2
    plan = celery_worker.WorkerPlan(
        "acting", None, "cpu", int(concurrency) or None, float(lease), float(grace), lanes=int(lanes)
    )
    return celery_worker.serve(plan, Settings.read(), Console(json=bool(log)))


if __name__ == "__main__":
    sys.exit(main())
