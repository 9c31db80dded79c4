"""The life of collections on Elasticsearch and PostgreSQL, own and attached, command by command; any is killed."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from elasticsearch import Elasticsearch, helpers

from trials import home_life
from trials.documents import put_records, sentences
from trials.home_life import Step
from trials.power_loss import Life, losses
from trials.servers import elastic
from trials.servers.postgres import PostgresServer
from trials.servers.process import running

_OWNERS = "owners"
_ALL: dict[str, Any] = {"index": "*", "expand_wildcards": "all"}


class ServerLife(Life):
    """A ``Life`` on servers that nobody else uses; what a step finds there was made by the steps before it."""

    def __init__(self, *life: Any, client: Elasticsearch, store: str, database: str) -> None:
        self._client, self._store, self._database, self._next = client, store, database, -1
        super().__init__(*life)

    def make_steps(self) -> list[Step]:
        self._wipe()
        folder, sql = self.machine.folder, ["--database", self._database]
        own = home_life.steps(folder, self._scratch, self.machine, "--store", f"{self._store}?replicas=0")
        steps = [step._replace(command=[*step.command, *sql]) for step in own if step.command[1] not in {"cr5", "hmde"}]
        at = ["-c", "a", "--home", str(folder / "home"), "-q", *sql]
        attach = ["attach", _OWNERS, "--text", "text", "--lang-field", "lang", "--encoder", str(self._scratch / "cr5")]
        for where, companion in (("", []), (" beside", ["--companion"])):
            command = [*attach, *companion, "--store", self._store, "--device", "cpu", *at]
            steps += [Step(f"{name}{where}", command) for name in ("attach", "attach again")]
            steps.append(Step(f"detach{where}", ["detach", *at]))
        return steps

    def state(self) -> dict[str, Any]:
        self._client.indices.refresh(**_ALL)
        left = home_life.state(self.machine.folder, self._database)
        for name, index in self._client.indices.get(**_ALL).items():
            left[f"index {name}"] = sorted(index["aliases"])
        for hit in helpers.scan(self._client, index=_OWNERS, ignore_unavailable=True):
            left[f"the owner's {hit['_id']}"] = bool(hit["_source"].pop("dragoman", None)), hit["_source"]
        return left

    def keep(self, number: int) -> None:
        """Let the owner write what the step is to find."""
        name = self.steps[number].name
        if name == "attach":
            put_records(self._client, _OWNERS, sentences(200))
        elif name.startswith("attach again"):
            put_records(self._client, _OWNERS, sentences(30, number))
            self._client.delete(index=_OWNERS, id=f"d{100 + number:06}", refresh=True)

    def begin(self, number: int) -> None:
        if number != self._next:
            self._wipe()
            for done, step in enumerate(self.steps[:number]):
                self.keep(done)
                self.machine.run_until(step.command)
        self.keep(number)

    def _wipe(self) -> None:
        if names := list(self._client.indices.get(**_ALL).body):
            self._client.indices.delete(index=names)
        shutil.rmtree(self.machine.folder)
        self.machine.folder.mkdir()
        with psycopg.connect(self._database.removesuffix("dragoman") + "postgres", autocommit=True) as connection:
            connection.execute("DROP DATABASE dragoman WITH (FORCE)")
            connection.execute("CREATE DATABASE dragoman")
        self.machine.run_until(["db", "upgrade", "--database", self._database, "-q"])

    def attempt(self, number: int, *, power: bool = False) -> str:
        fall = super().attempt(number, power=power)
        self._next = -1 if fall else number + 1
        return fall


def kills_on_servers(folder: Path, tries: int, *, seed: int = 0) -> Iterator[str]:
    """Kill each command in turn at a connection or a request that was drawn; yields what fell in each try."""
    with running(PostgresServer) as database, elastic.running() as server, elastic.client_of(server.url) as client:
        live = partial(ServerLife, client=client, store=f"{server.url}/kills", database=database.url)
        yield from losses(folder, tries, seed=seed, power=False, live=live)
