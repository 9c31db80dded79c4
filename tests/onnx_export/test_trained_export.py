"""``dragoman export`` of a trained folder: another build of one model, and both builds meet in one collection."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.console import QUIET
from encoders.document import Document, FloatArray
from encoders.folder.model_cache import model_cache
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import UpperShape
from encoders.machine.placement import CPU, place
from encoders.methods import lawdr_method as lawdr
from encoders.methods.density import DensityWeights
from encoders.methods.method_registry import open_encoder
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.index_sources import index_by_workers
from indexer.ledger.database import connect
from indexer.workers.chunk_worker import ChunkWorker
from indexer.workers.hints import Hints
from indexer.workers.registry import Identity
from indexer.workers.run_watch import watch_run
from indexer.workers.shutdown import StopSignal
from indexer.workers.sweeps import sweep
from indexer.workers.worker_metrics import Metrics
from onnx_export.default_model.making import export_default
from onnx_export.graphs.device_check import DeviceCheck, check_device
from onnx_export.graphs.parity import read_texts
from onnx_export.hmde import lower_base as bases
from onnx_export.hmde.hmde_folder import publish
from onnx_export.hmde.hmde_settings import Settings as HmdeSettings
from onnx_export.hmde.trained_export import export_trained
from onnx_export.hmde.upper_model import Upper
from onnx_export.hmde.weights import read_tensors
from onnx_export.models import find_model, open_named
from query.cli import run
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.onnx_export.conftest import SaveModel
from trials.servers.redis import RedisServer

pytestmark = pytest.mark.torch
SAID = {"settings": {"frozen": False}, "documents": 60, "languages": {"de": 20}, "best": 4, "steps": 12}
SAID |= {"validated": False, "lower": "small"}
TEXT = "The river rose {0} metres. Farmers sold {0} goats."
PAGES = [Document(f"d{number}", "en", TEXT.format(number)) for number in range(40)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def trained(save_model: SaveModel, tmp_path_factory: pytest.TempPathFactory, request: Any) -> ModelFolder:
    """An HMDE folder in int8 whose lower encoder learnt something."""
    base = bases.open_trained(str(save_model(request.param, request.param)), HmdeSettings(), "cpu", QUIET)
    with torch.no_grad():
        for weight in base.lower.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    return _published(base, tmp_path_factory.mktemp("made") / "pages")


def _published(base: Any, target: Path) -> ModelFolder:
    upper = Upper(UpperShape(64, layers=1, heads=1, feed_forward=32))
    return publish(upper, base, target, "int8", SAID, {"curve.png": b"\x89PNG"}, QUIET, taught_by=[3, 1])[0]


def same_model(folder: ModelFolder, build: ModelFolder) -> None:
    """Both have one model id, and vectors that are as near as int8 allows."""
    first, second = (open_encoder(one, device="cpu") for one in (folder, build))
    assert first.spec.model == second.spec.model
    assert first.spec.build != second.spec.build
    encoded = [(one.encode_documents(PAGES[:8]).vectors, one.encode_queries(PAGES[:8])) for one in (first, second)]
    for one, other in zip(*encoded, strict=True):
        assert np.einsum("ij,ij->i", one, other).min() > 0.97


@pytest.mark.parametrize("trained", ["bert"], indirect=True)
def test_gpu_workers_write_in_fp16_and_a_service_on_a_cpu_asks_in_int8(
    trained: ModelFolder, redis: RedisServer, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    assert run(["export", str(trained.path), "--precision", "fp16", "--json"]) == 0
    build = ModelFolder.open(model_cache() / "pages-fp16")
    assert {"curve.png", "training_texts.npy", "weights.safetensors"} <= {file.name for file in build.path.iterdir()}
    same_model(trained, build)
    settings = Settings.read(tmp_path / "home", broker=redis.url)
    source = tmp_path / "docs.jsonl"
    source.write_text("".join(f'{{"id": "{page.doc_id}", "lang": "en", "text": "{page.text}"}}\n' for page in PAGES))
    ledger = index_by_workers([str(source)], "c", settings=settings, encoder=str(trained.path))
    with monkeypatch.context() as patch:
        install_cards(patch, Library(["H200"]))
        sessions = install_provider(patch)
        assert find_model(str(trained.path), QUIET, place("cuda")).path == build.path
        on_gpu = open_named(str(trained.path), None, QUIET, device="cuda")
        assert sum(len(providers) > 1 for _, providers in sessions.asked) == 2  # both graphs are on the card
        who = Identity("gpu-worker", "there", "cuda:0", on_gpu.spec.model, on_gpu.spec.build)
        engine, hints = connect(settings.database), Hints(settings.broker)
        with closing(ChunkWorker(on_gpu, engine, settings, hints, who, 60, StopSignal(30), Metrics())) as worker:
            while worker.work(ledger.run.id, 0):
                pass
            sweep(engine, settings, hints, on_gpu.spec.model, every=0.0)
    assert watch_run(ledger, settings, QUIET).encoded == len(PAGES)
    with Searcher.open("c", settings, device="cpu") as searcher:
        assert searcher.encoder.spec.build == open_encoder(trained, device="cpu").spec.build != on_gpu.spec.build
        assert len(searcher.search(PAGES[7].text, lang="en", to=["en"], k=3)) == 3
        expected = searcher.encoder.encode_documents(PAGES).vectors
    with closing(StoreLocation(settings.store, "c").open()) as store:
        stored = {row.document.doc_id: row.vector for page in store.scan(on_gpu.spec.model) for row in page}
    assert np.einsum("ij,ij->i", np.stack([stored[page.doc_id] for page in PAGES]), expected).min() > 0.97


@pytest.mark.parametrize("trained", ["xlm-r"], indirect=True)  # its tokenizer has a table of pieces
def test_the_density_of_a_trained_encoder_is_exported_and_damaged_weights_are_refused(
    trained: ModelFolder, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    vectors = open_encoder(trained, "sentences", device="cpu").encode_documents(PAGES).vectors
    folder = lawdr.publish(trained, DensityWeights.fit(np.tile(vectors, (3, 1))), tmp_path / "weighted")
    monkeypatch.chdir(folder.path)
    assert run(["export", ".", "--precision", "fp32", "-q"]) == 0
    same_model(folder, build := ModelFolder.open(model_cache() / "weighted-fp32"))
    assert build.config.precision == "fp32"
    other = lawdr.publish(trained, DensityWeights.fit(np.tile(vectors[1:], (3, 1))), tmp_path / "other" / "weighted")
    assert run(["export", str(other.path), "--precision", "fp32", "-q"]) == 1
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)
        assert run(["export", str(folder.path), "--precision", "fp16", "-q"]) == 1
    assert "this needs PyTorch and transformers; install them" in capsys.readouterr().err
    weights = folder.path / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[8 + int.from_bytes(data[:8], "little")] ^= 64  # in the first tensor
    weights.unlink()  # it may be a link
    weights.write_bytes(data)
    assert run(["export", str(folder.path), "--precision", "fp16", "-q"]) == 1
    assert "is damaged or of another training; train the encoder again" in capsys.readouterr().err


def test_a_frozen_encoder_is_the_build_in_the_cache(save_model: SaveModel, tmp_path: Path, capsys: Capture) -> None:
    source = str(save_model("bert", "frozen"))
    assert run(["export", source, "-q"]) == 0
    folder = _published(bases.open_frozen("frozen-int8", HmdeSettings(frozen=True), "cpu", QUIET), tmp_path / "pages")
    assert read_tensors(folder.path / "weights.safetensors")[1] == {}
    assert run(["export", str(folder.path), "--precision", "fp16", "-q"]) == 1
    assert "small, which was not trained; export that model first, and then this folder" in capsys.readouterr().err
    assert run(["export", source, "--precision", "fp16", "-q"]) == 0
    checks: list[DeviceCheck] = []

    def check(draft: ModelFolder, reference: FloatArray) -> None:
        checks.append(check_device(draft, CPU, read_texts(), reference))

    same_model(folder, export_trained(folder, tmp_path / "half", "fp16", QUIET, check)[0])
    assert [one.passed for one in checks] == [True]
    cut = export_default(tmp_path / "cut", "int8", QUIET, dim=64)[0]
    cut = lawdr.publish(cut, DensityWeights.fit(np.eye(64, dtype=np.float32)), tmp_path / "weighted")
    same_model(cut, export_trained(cut, tmp_path / "whole", "fp32", QUIET)[0])
