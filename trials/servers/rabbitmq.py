"""A RabbitMQ node for tests, whose data, name and port mapper are separate from any other node on the machine."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from trials.servers.process import ServerProcess, free_port, program

_PACKAGE = "rabbitmq-server"


class RabbitServer(ServerProcess):
    name = "RabbitMQ"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        debian = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"), reverse=True)
        self._program = program("rabbitmq-server", _PACKAGE, *debian)
        self._epmd = program("epmd", _PACKAGE)
        self.port, self._distribution, self._mapper_port = free_port(), free_port(), free_port()
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\nlog.console.level = warning\n"
        )
        (folder / "plugins").write_text("[].\n")

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def command(self) -> Sequence[str | Path]:
        return ["sh", "-c", '"$0" & exec "$1"', self._epmd, self._program]

    def environment(self) -> Mapping[str, str]:
        """The environment of the command: all files in the server's folder, one scheduler, no busy waiting."""
        return {
            **super().environment(),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"dragoman-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_PID_FILE": str(self.folder / "rabbitmq.pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def control(self, *arguments: str) -> str:
        return subprocess.run(
            [self._program.with_name("rabbitmqctl"), "-q", *arguments],
            env=dict(self.environment()), check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    def answers(self) -> bool:
        from kombu import Connection

        try:
            with Connection(self.url, connect_timeout=2) as connection:
                connection.channel().close()
        except OSError:
            return False
        return True
