"""``dragoman export --device``: a graph that fails on the card is not published."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from onnx_export.graphs import device_check
from onnx_export.models import DEFAULT
from query.cli import run
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.onnx_export.conftest import save_reranker

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs the train extra")


@pytest.fixture
def _card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pretended card, which computes on the CPU, and the profile says so."""
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    monkeypatch.setattr(device_check, "_SECONDS", 0.1)
    monkeypatch.setattr(device_check, "_BATCHES", 1)


@pytest.mark.torch
@needs_torch
@pytest.mark.usefixtures("_card")
def test_a_graph_that_waits_for_the_cpu_is_published_only_if_forced(
    hugging_face: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "model"
    words = ["export", str(hugging_face["bert"]), "-o", str(target), "--precision", "fp16", "--device", "cuda"]
    assert run(words) == 1
    captured = capsys.readouterr()
    assert "tiny-bert in fp16 on H100: " in captured.out
    assert "the card waits for the CPU at Add, " in captured.err
    assert "tiny-bert in fp16 fails on the H100; take another --precision, or --force" in captured.err
    assert not target.exists()
    assert run([*words, "--force", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    check = result["device"]
    assert (check["device"], check["passed"], check["parity"]["passed"]) == ("H100", False, True)
    assert json.loads((target / "device.json").read_text(encoding="utf-8")) == check
    assert ModelFolder.open(target).config.build_id == result["build"]


@pytest.mark.torch
@needs_torch
@pytest.mark.usefixtures("_card")
def test_a_graph_that_passes_is_published_and_can_be_exported_over_again(
    hugging_face: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_check, "read_profile", lambda *_: ({}, set()))
    target = tmp_path / "model"
    words = ["export", str(hugging_face["bert"]), "-o", str(target), "--precision", "fp16", "--device", "cuda"]
    for _ in range(2):
        assert run(words) == 0
    assert json.loads((target / "device.json").read_text(encoding="utf-8"))["passed"]


@pytest.mark.torch
@needs_torch
@pytest.mark.usefixtures("_card")
def test_a_reranker_is_checked_on_the_cpu_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = save_reranker(tmp_path / "reranker")
    assert run(["export", str(source), "-o", str(tmp_path / "made"), "--precision", "fp16", "--device", "cuda"]) == 1
    assert "is a reranker, which is checked on the CPU alone; leave --device out" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.usefixtures("_card")
def test_the_default_encoder_is_checked_on_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "model"
    assert run(["export", DEFAULT, "-o", str(target), "--precision", "fp16", "--device", "cuda", "-q"]) == 1
    assert "multilingual-e5-small in fp16 fails on the H100" in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.usefixtures("_card")
def test_int8_is_refused_before_anything_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", DEFAULT, "-o", str(tmp_path / "model"), "--device", "cuda"]) == 1
    assert "a graph in int8 runs on CPUs alone; take --precision fp16, or --device cpu" in capsys.readouterr().err


def test_without_a_card_it_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", DEFAULT, "-o", str(tmp_path / "model"), "--precision", "fp16", "--device", "cuda"]
    assert run(words) == 1
    assert "CUDA was asked for" in capsys.readouterr().err
