"""Where a training runs: where graphs run, if PyTorch can use that card."""

import os

import pytest

from encoders import console
from encoders.console import Console
from encoders.errors import MissingPart
from encoders.machine import placement
from onnx_export.training.device import training_device
from tests.encoders.gpus import Library, install_cards

pytestmark = pytest.mark.torch


class Torch:
    """What a pretended PyTorch was asked for."""

    def __init__(self, patch: pytest.MonkeyPatch, *, cuda: bool) -> None:
        import torch

        self.card, self.order, self._cuda = "", "", cuda
        patch.setattr(torch.cuda, "is_available", self._is_available)
        patch.setattr(torch.cuda, "set_device", lambda card: setattr(self, "card", card))
        patch.setattr(console, "_warned", set())

    def _is_available(self) -> bool:
        self.order = os.environ.get("CUDA_DEVICE_ORDER", "")
        return self._cuda


@pytest.mark.parametrize(("device", "card"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")])
def test_a_training_takes_the_card_that_graphs_take(device: str, card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install_cards(monkeypatch, Library(["H100", "H200"]))
    monkeypatch.delenv("CUDA_DEVICE_ORDER")
    torch = Torch(monkeypatch, cuda=True)
    assert str(training_device(device, Console())) == card
    assert torch.card == card
    assert torch.order == "PCI_BUS_ID"  # before PyTorch counted the cards


@pytest.mark.parametrize(
    ("library", "cuda", "reason"),
    [
        (Library(["P100"], capability=(6, 0)), True, "the P100 has compute capability 6.0 and CUDA 13 needs 7.5"),
        (Library(["H100"], driver=12_040), True, "the NVIDIA driver knows CUDA 12.4"),
        (Library([]), True, "there is no NVIDIA card 0: it sees none"),
        (Library(["H100"]), False, "this PyTorch can't use the H100; install PyTorch for CUDA"),
    ],
)
def test_a_card_that_can_t_be_used_is_a_sentence_and_auto_trains_on_the_cpu(
    library: Library, cuda: bool, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_cards(monkeypatch, library)
    Torch(monkeypatch, cuda=cuda)
    assert [str(training_device("auto", Console(quiet=True))) for _ in range(2)] == ["cpu", "cpu"]
    assert capsys.readouterr().err.count(f"warning: works on the CPU: {reason}") == 1
    with pytest.raises(MissingPart, match=f"CUDA was asked for, but {reason}"):
        training_device("cuda", Console())


@pytest.mark.parametrize("cuda", [True, False])
def test_auto_says_that_onnx_runtime_leaves_pytorchs_card_unused(
    cuda: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(placement, "is_installed", lambda name: name == "onnxruntime")
    Torch(monkeypatch, cuda=cuda)
    assert str(training_device("auto", Console())) == "cpu"
    assert ("this ONNX Runtime has no CUDA; install it: make install EXTRAS=gpu" in capsys.readouterr().err) == cuda
    assert str(training_device("cpu", Console())) == "cpu"
    assert capsys.readouterr().err == ""
