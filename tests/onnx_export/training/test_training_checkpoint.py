"""A checkpoint is whole or the one before, and brings back random numbers."""

import errno
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.errors import BadInput, MissingPart
from onnx_export.training.training_checkpoint import SavingTimes, load_checkpoint, save_checkpoint, write_whole

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
    assert state is not None
    assert state["step"] == 7
    assert state["weights"]["w"].tolist() == [1.0, 1.0]
    assert torch.equal(torch.rand(4), after)
    assert [path.name for path in file.parent.iterdir()] == ["last.pt"]


def test_a_disk_that_fills_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "last.pt"
    save_checkpoint(file, {"step": 1})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(MissingPart, match=r"last\.pt can't be written \(its disk is full\); make room"):
            save_checkpoint(file, {"step": 2})
    state: dict[str, Any] | None = load_checkpoint(file)
    assert state == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


def test_the_next_checkpoint_takes_the_place_of_what_a_kill_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(BadInput, match=r"the checkpoint .*last\.pt is damaged; delete it"):
        load_checkpoint(tmp_path / "last.pt")


def test_saving_holds_no_copy_of_the_state_in_memory(tmp_path: Path) -> None:
    weights = torch.arange(4_000_000, dtype=torch.float32)
    tracemalloc.start()
    save_checkpoint(tmp_path / "last.pt", {"weights": weights})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < weights.nbytes / 2
    state = load_checkpoint(tmp_path / "last.pt")
    assert state is not None
    assert torch.equal(state["weights"], weights)


def test_loading_holds_the_state_alone_in_memory(tmp_path: Path) -> None:
    weights = torch.arange(4_000_000, dtype=torch.float32)
    save_checkpoint(tmp_path / "last.pt", {"weights": weights})
    tracemalloc.start()  # counts Python's bytes, not torch's tensors
    state = load_checkpoint(tmp_path / "last.pt")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < weights.nbytes / 2
    assert state is not None
    assert torch.equal(state["weights"], weights)


def test_saving_takes_a_twentieth_of_the_time_at_most() -> None:
    now, saving = 0.0, 0.0

    def clock() -> float:
        return now

    times = SavingTimes(clock)
    while now < 36_000:
        now += 1.0
        if times.due:
            start = now

            def save() -> None:
                nonlocal now
                now += 12.0

            times.save(save)
            saving += now - start
    assert 0.04 < saving / now <= 0.05


def test_a_quick_save_is_due_every_thirty_seconds() -> None:
    now = 0.0
    times = SavingTimes(lambda: now)
    due = []
    while now < 100:
        now += 10.0
        if times.due:
            due.append(now)
            times.save(lambda: None)
    assert due == [30.0, 60.0, 90.0]
