"""The default encoder, opened once for all tests of a process that do not test how it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from encoders import methods
from encoders.folder import ModelFolder
from encoders.sentence import SentenceEncoder
from encoders.session import Device
from onnx_export.models import default_path


@cache
def _opened(folder: Path, device: Device, threads: int | None) -> SentenceEncoder:
    return SentenceEncoder(ModelFolder.open(folder), device=device, threads=threads)


def _open(folder: ModelFolder, *, device: Device = "auto", threads: int | None = None) -> SentenceEncoder:
    if folder.path == default_path():
        return _opened(folder.path, device, threads)
    return SentenceEncoder(folder, device=device, threads=threads)


@pytest.fixture(scope="module", autouse=True)
def opened_once() -> Iterator[None]:
    """Where this is imported, whoever opens the default encoder gets the same: that takes a second each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "SentenceEncoder", _open)
        yield
