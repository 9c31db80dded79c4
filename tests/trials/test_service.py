"""Waiting for a service says when there is nothing to wait for."""

import subprocess
import sys

import pytest

from trials.servers import service
from trials.servers.process import free_port


def test_a_service_that_ends_before_it_answers_is_not_waited_for() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as process,
        pytest.raises(RuntimeError, match="ended with status 3 before it answered"),
    ):
        service.wait_until_opened(f"http://127.0.0.1:{free_port()}", process)


def test_a_service_that_never_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_STARTED_WITHIN", 0.2)
    with pytest.raises(TimeoutError, match="did not open its collections"):
        service.wait_until_opened(f"http://127.0.0.1:{free_port()}")
