"""A Redis server for tests. It writes nothing to disk: when it is killed, all messages are lost."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from trials.servers.process import ServerProcess, free_port, program


class RedisServer(ServerProcess):
    name = "Redis"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = program("redis-server", "redis-server")
        self.port = free_port()

    @property
    def url(self) -> str:
        """URL of a database; each process of a test run has its own, so no worker takes another's messages."""
        process = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        return f"redis://127.0.0.1:{self.port}/{int(process[2:])}"

    def command(self) -> Sequence[str | Path]:
        address: list[str | Path] = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.folder]
        return [self._program, *address, "--save", "", "--databases", "256"]

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
