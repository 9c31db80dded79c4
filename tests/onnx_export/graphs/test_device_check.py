"""What a graph does on a device, and what is found where a card leaves computing to the CPU."""

import json

import numpy as np
import pytest

from encoders.devices import CPU, place
from encoders.folder import ModelFolder
from onnx_export.graphs import device_check
from onnx_export.graphs.device_check import check_device
from onnx_export.graphs.parity import encode, read_texts
from onnx_export.models import DEFAULT
from query.cli import run
from tests.encoders.cards import Library, install_cards, install_provider

TEXTS = read_texts()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check, "_SECONDS", 0.1)


def test_on_the_cpu_everything_computes_there(small: ModelFolder) -> None:
    check = check_device(small, CPU, TEXTS)
    assert check.nodes.keys() == {"CPUExecutionProvider"}
    assert (check.device, check.parity, check.strays, check.passed, check.memory) == ("cpu", None, [], True, 0)
    assert check.tokens > 0


def test_vectors_that_differ_from_the_reference_fail(small: ModelFolder) -> None:
    vectors = encode(small, TEXTS)
    assert check_device(small, CPU, TEXTS, vectors).passed
    assert not check_device(small, CPU, TEXTS, np.roll(vectors, 1, axis=0)).passed


def test_a_card_that_leaves_products_to_the_cpu_fails(small: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pretended card computes on the CPU, and the profile says so."""
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    half = ModelFolder(small.path, type(small.config)(**{**vars(small.config), "precision": "fp16"}))
    check = check_device(half, place("cuda"), TEXTS)
    assert check.device == "H100"
    assert check.parity is not None
    assert check.parity.passed
    assert "LayerNormalization" in check.strays
    assert "Shape" not in check.strays
    assert not check.passed


@pytest.mark.parts
def test_the_command_compares_the_default_encoder_with_its_float32_build(
    default_folder: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["encoders", "check", DEFAULT, "--device", "cpu", "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["encoder"], told["device"], told["precision"], told["passed"]) == (DEFAULT, "cpu", "int8", True)
    assert 0.99 < told["parity"]["cosine_min"] < 0.9999
    assert run(["encoders", "check", str(default_folder.path), "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "36 DynamicQuantizeMatMul" in said
    assert "in int8 on cpu: " in said


def test_an_encoder_that_fails_its_check_gives_status_1(small: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check.DeviceCheck, "passed", False)
    assert run(["encoders", "check", str(small.path), "--device", "cpu"]) == 1


def test_without_the_device_it_is_refused(small: ModelFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["encoders", "check", str(small.path), "--device", "cuda"]) == 1
    assert "CUDA was asked for" in capsys.readouterr().err
