"""A worker's metrics for Prometheus."""

import socket
import subprocess
import sys

import pytest

from trials import ROOT
from trials.servers.process import free_port

_SERVES = """
import sys
from indexer.workers.worker_metrics import serve_metrics
serve_metrics("127.0.0.1", int(sys.argv[1]))
print("serves", flush=True)
sys.stdin.read()
"""


def _other_address() -> str:
    """An address of this machine that other machines reach it by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has the loopback address alone")
        return str(probe.getsockname()[0])


def test_metrics_on_loopback_do_not_answer_other_machines() -> None:
    port = free_port()
    command = [sys.executable, "-c", _SERVES, str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "serves\n"
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((_other_address(), port), timeout=10)
        server.communicate("")
