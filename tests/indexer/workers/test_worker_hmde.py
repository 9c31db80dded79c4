"""A worker with a folder of two graphs writes what one process writes."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import UpperShape
from encoders.methods.method_registry import open_encoder
from indexer.collection import collection as collections
from indexer.collection.store_location import StoreLocation
from indexer.indexing.pipeline import index
from indexer.ledger import index_runs
from indexer.readers.records.source import ReadOptions
from indexer.workers.handout import hand_out_sources
from tests.indexer.workers.conftest import QUIET, Field

pytestmark = pytest.mark.torch


@pytest.fixture
def folder(small: ModelFolder, tmp_path: Path) -> ModelFolder:
    """A small encoder with an upper one, both of random weights."""
    torch = pytest.importorskip("torch", reason="HMDE's upper encoder is made by torch: make install EXTRAS=train")
    from onnx_export.hmde import lower_base as bases
    from onnx_export.hmde.hmde_folder import publish
    from onnx_export.hmde.hmde_settings import PRESETS
    from onnx_export.hmde.upper_model import Upper

    base = bases.open_frozen(str(small.path), PRESETS["small"], "cpu", QUIET)
    torch.manual_seed(0)
    upper = Upper(UpperShape(dim=small.config.dim, feed_forward=64, sentences=8))
    said = {"settings": {"frozen": True}, "documents": 0, "languages": {}, "best": 0, "steps": 0, "validated": False}
    return publish(upper, base, tmp_path / "hmde", "int8", said, {}, QUIET)[0]


def test_a_worker_writes_the_bytes_that_one_process_writes(folder: ModelFolder, on_redis: Field) -> None:
    encoder, field = open_encoder(folder, device="cpu"), on_redis
    assert encoder.spec.method == "hmde"
    texts = [" ".join(f"Goat {goat} gave milk on day {day}." for goat in range(1 + 7 * day)) for day in range(4)]
    field.write([{"id": f"d{at}", "lang": "en", "title": "Goats", "text": text} for at, text in enumerate(texts)])
    found, source = [], ([str(field.source)], ReadOptions())
    for name in ("many", "one"):
        collections.register(field.engine, name, field.settings, folder.config.name, encoder.spec)
        with closing(StoreLocation(field.settings.store, name).open()) as store:
            if name == "one":
                index(*source, encoder, store, field.engine, name)
            else:
                run = hand_out_sources(*source, encoder.spec, store, field.engine, name, console=QUIET).run.id
                field.work_off(field.worker(encoder), run)
                field.sweep(encoder.spec.model)
                assert index_runs.runs(field.engine, name)[0].state == "done"
        with closing(StoreLocation(field.settings.store, name).open()) as store:
            ids = sorted(store.ids())
            found.append((store.vectors(encoder.spec.model, ids), store.passages(encoder.spec.model, ids)))
    (vectors, passages), (expected, expected_passages) = found
    assert len(vectors) == 4
    np.testing.assert_array_equal(vectors, expected)
    for ours, theirs in zip(passages, expected_passages, strict=True):
        np.testing.assert_array_equal(ours.vectors, theirs.vectors)
