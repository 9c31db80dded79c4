"""A home and a broker, and processes of the command on them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from indexer.collection.settings import Settings
from trials import ROOT


class Site:
    """A home with SQLite and the embedded store, a broker, and processes of the command."""

    def __init__(self, folder: Path, broker: str) -> None:
        self.folder, self.settings = folder, Settings.read(folder / "home", broker=broker)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, program: Sequence[str] = ("-m", "query.cli")) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "DRAGOMAN_HOME": str(self.settings.home)}
        environment["DRAGOMAN_BROKER"] = self.settings.broker
        with (self.folder / f"{len(self.processes)}.log").open("w") as log:
            command = [sys.executable, *program, *arguments]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(process)
        return process

    def said(self, process: subprocess.Popen[str]) -> str:
        return (self.folder / f"{self.processes.index(process)}.log").read_text()

    def write(self, lines: Sequence[Mapping[str, object]]) -> str:
        source = self.folder / "docs.jsonl"
        source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return str(source)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
