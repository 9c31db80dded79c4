"""The models and pages that the tests of training have, and the commands that all tests of tables call."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from papers.__main__ import run as compute
from query.cli import run
from tests.onnx_export.conftest import hugging_face, save_model
from tests.onnx_export.hmde.conftest import pages, small_model

__all__ = ["hugging_face", "pages", "save_model", "small_model"]


class Told(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The result's lines, each with single blanks."""
        return [" ".join(line.split()) for line in self.out.splitlines()]

    @property
    def values(self) -> list[Any]:
        """The result's lines of JSON."""
        return list(map(json.loads, self.out.splitlines()))

    @property
    def json(self) -> Any:
        """The last line of JSON."""
        return self.values[-1]


Ask = Callable[..., Told]
"""Calls a table's command, or one of Dragoman's, which ends with ``status``, 0 unless given."""


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*arguments: str, status: int = 0) -> Told:
        command = run if arguments[0] in {"export", "runs", "train"} else compute
        capsys.readouterr()
        assert command(list(arguments)) == status
        return Told(*capsys.readouterr())

    return asked
