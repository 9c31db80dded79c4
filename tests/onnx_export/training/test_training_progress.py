"""The line that says how a training goes."""

from types import SimpleNamespace

import pytest

from encoders.console import Console
from onnx_export.training.training_progress import TrainingProgress


@pytest.mark.parametrize(("units", "rate"), [(8, "0.4"), (128, "6.4"), (200_000, "10,000")])
def test_a_slow_training_has_a_rate_too(
    units: int, rate: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    # the clock of this module alone: with the process's clock the event loop of a running service would sleep for hours
    monkeypatch.setattr("onnx_export.training.training_progress.time", SimpleNamespace(monotonic=lambda: now))
    progress = TrainingProgress(Console(), 4, 10)
    now += 20
    progress(0.25, triples=units, tokens=0)
    assert capsys.readouterr().err == f"step 5/10, loss 0.250, {rate} triples/s, 0:01:40 left\n"
    now += 20
    progress(0.25, triples=units, tokens=8_000)
    assert capsys.readouterr().err == f"step 6/10, loss 0.250, {rate} triples/s, 200 tokens/s, 0:01:20 left\n"
