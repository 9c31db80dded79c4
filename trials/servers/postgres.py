"""A PostgreSQL server for tests, on loopback, without passwords."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg

from trials.servers.process import ServerProcess, free_port, program


class PostgresServer(ServerProcess):
    name = "PostgreSQL"
    user = "postgres" if os.geteuid() == 0 else None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        self._program = program("postgres", "postgresql", *debian)
        self.port = free_port()
        folder.chmod(0o755)
        data = folder / "data"
        data.mkdir(mode=0o700)
        if self.user:
            subprocess.run(["chown", "-R", self.user, folder], check=True)
        options = ["-D", str(data), "-U", "dragoman", "-A", "trust", "-E", "UTF8"]
        initdb = [str(self._program.with_name("initdb")), *options]
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **self.as_user)

    @property
    def url(self) -> str:
        return f"postgresql://dragoman@127.0.0.1:{self.port}/dragoman"

    def command(self) -> Sequence[str | Path]:
        """The command that runs the server in the foreground, with the socket in the server's folder."""
        place: list[str | Path] = ["-D", self.folder / "data", "-p", str(self.port), "-k", self.folder]
        return [self._program, *place, "-c", "listen_addresses=127.0.0.1"]

    def answers(self) -> bool:
        """Whether it takes connections; makes the database if it is missing."""
        try:
            url = self.url.removesuffix("dragoman") + "postgres"
            with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'dragoman'").fetchone():
                    connection.execute("CREATE DATABASE dragoman")
        except psycopg.OperationalError:
            return False
        return True
