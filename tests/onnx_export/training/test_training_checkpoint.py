"""A checkpoint is whole or the one before; a training runs where graphs run, if PyTorch can use that card."""

import os
import tracemalloc
from pathlib import Path

import pytest
import torch

from encoders import console
from encoders.console import Console
from encoders.errors import BadInput, MissingPart
from encoders.machine import placement
from onnx_export.training.device import training_device
from onnx_export.training.training_checkpoint import SavingTimes, load_checkpoint, save_checkpoint, write_whole
from tests.conftest import Capture, Patch
from tests.encoders.gpus import Library, install_cards
from tests.onnx_export.conftest import files_of_at_most

pytestmark = pytest.mark.torch


def test_what_is_saved_comes_back_with_the_random_numbers(tmp_path: Path) -> None:
    file = tmp_path / "new" / "last.pt"
    assert load_checkpoint(file) is None
    torch.manual_seed(1)
    torch.rand(3)
    save_checkpoint(file, {"step": 7, "weights": {"w": torch.ones(2)}, "curve": "[1.5]"})
    after = torch.rand(4)
    torch.manual_seed(99)
    state = load_checkpoint(file)
    assert state
    assert (state["step"], state["weights"]["w"].tolist()) == (7, [1.0, 1.0])
    assert torch.equal(torch.rand(4), after)
    assert [path.name for path in file.parent.iterdir()] == ["last.pt"]


def test_a_full_disk_leaves_the_checkpoint_before_and_one_that_is_damaged_is_named(tmp_path: Path) -> None:
    file = tmp_path / "last.pt"
    save_checkpoint(file, {"step": 1})
    whole = file.read_bytes()
    said = r"last\.pt can't be written \(its disk is full\); make room and give the same command: it goes on from what"
    with files_of_at_most(1000), pytest.raises(MissingPart, match=said):
        save_checkpoint(file, {"step": 2})
    assert (file.read_bytes(), [path.name for path in tmp_path.iterdir()]) == (whole, ["last.pt"])
    for damaged in (whole[:-9], b"", whole.replace(b"step", b"stop", 1), b"nothing of the kind"):
        file.write_bytes(damaged)
        with pytest.raises(BadInput, match=r"the checkpoint .*last\.pt is damaged; delete it to begin again"):
            load_checkpoint(file)


def test_the_next_checkpoint_replaces_what_a_kill_left(tmp_path: Path, monkeypatch: Patch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_whole(tmp_path / "last.pt", lambda out: out.write(b"half"))
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr("os.getpid", lambda: 1)  # the resumed command is another process
    write_whole(tmp_path / "last.pt", lambda out: out.write(b"whole"))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("last.pt", b"whole")]


def test_neither_saving_nor_loading_holds_a_copy_of_the_state_in_memory(tmp_path: Path) -> None:
    file, weights = tmp_path / "last.pt", torch.arange(4_000_000, dtype=torch.float32)
    state = None
    for saving in (True, False):
        tracemalloc.start()  # counts Python's bytes, not torch's tensors
        if saving:
            save_checkpoint(file, {"weights": weights})
        else:
            state = load_checkpoint(file)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < weights.nbytes / 2
    assert state is not None
    assert torch.equal(state["weights"], weights)


@pytest.mark.parametrize("seconds", [12.0, 0.0])
def test_saving_takes_a_twentieth_of_the_time_at_most_and_is_due_every_thirty_seconds_if_quick(seconds: float) -> None:
    now, due = 0.0, []

    def save() -> None:
        nonlocal now
        now += seconds

    times = SavingTimes(lambda: now)
    while now < 36_000:
        now += 1.0
        if times.due:
            due.append(now)
            times.save(save)
    if seconds:
        assert 0.04 < len(due) * seconds / now <= 0.05
    else:
        assert due[:3] == [30.0, 60.0, 90.0]


class Torch:
    def __init__(self, patch: Patch, *, cuda: bool) -> None:
        self.card, self.order, self._cuda = -1, "", cuda
        patch.setattr(torch.cuda, "is_available", self._is_available)
        patch.setattr(torch.cuda, "set_device", lambda card: setattr(self, "card", card))
        patch.setattr(console, "_warned", set())

    def _is_available(self) -> bool:
        self.order = os.environ.get("CUDA_DEVICE_ORDER", "")
        return self._cuda


@pytest.mark.parametrize(("device", "card"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")])
def test_a_training_takes_the_card_that_graphs_take(device: str, card: str, monkeypatch: Patch) -> None:
    install_cards(monkeypatch, Library(["H100", "H200"]))
    monkeypatch.delenv("CUDA_DEVICE_ORDER")
    torch = Torch(monkeypatch, cuda=True)
    assert (str(training_device(device, Console())), f"cuda:{torch.card}") == (card, card)
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
    library: Library, cuda: bool, reason: str, monkeypatch: Patch, capsys: Capture
) -> None:
    install_cards(monkeypatch, library)
    Torch(monkeypatch, cuda=cuda)
    assert [str(training_device("auto", Console(quiet=True))) for _ in range(2)] == ["cpu", "cpu"]
    assert capsys.readouterr().err.count(f"warning: works on the CPU: {reason}") == 1
    with pytest.raises(MissingPart, match=f"CUDA was asked for, but {reason}"):
        training_device("cuda", Console())


@pytest.mark.parametrize("cuda", [True, False])
def test_auto_says_that_onnx_runtime_leaves_a_card_unused(cuda: bool, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr(placement, "is_installed", lambda name: name == "onnxruntime")
    Torch(monkeypatch, cuda=cuda)
    assert str(training_device("auto", Console())) == "cpu"
    assert ("this ONNX Runtime has no CUDA; install it: make install EXTRAS=gpu" in capsys.readouterr().err) == cuda
    assert (str(training_device("cpu", Console())), capsys.readouterr().err) == ("cpu", "")
