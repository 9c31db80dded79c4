"""A Redis server of the tests' own. It keeps nothing on disk: killed, it has lost every message."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import ServerProcess, free_port, program


class RedisServer(ServerProcess):
    """One server on loopback."""

    name = "Redis"

    def __init__(self, folder: Path) -> None:
        """Find the program.

        Raises:
            ServerMissing: it is not installed.
        """
        super().__init__(folder)
        self._program = program("redis-server", "redis-server")
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where it answers: in a database of this process's own, so that no worker takes another process's messages."""
        process = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        return f"redis://127.0.0.1:{self.port}/{int(process[2:]) % 16}"

    def command(self) -> Sequence[str | Path]:
        """Without a snapshot at any time."""
        return [self._program, "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", self.folder]

    def answers(self) -> bool:
        """Whether it says PONG."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
