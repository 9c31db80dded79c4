"""Attacks and accidents that are too long for tests; a row counts what was tried, what held and what fell.

What tests try in full is not tried again here.
"""

import os
import resource
import signal
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import print_exc

from benchmarks import harness
from indexer.collection.settings import Settings
from trials import DEMO, attach_race, command_attacks, service_attacks
from trials.cluster_accidents import killed
from trials.command import TOPICS, require_done
from trials.documents import attach_pages
from trials.home_life import pairs
from trials.power_loss import losses
from trials.server_life import kills_on_servers
from trials.servers.elastic import running
from trials.servers.service import client_of_process
from trials.worker_accidents import Trial, running_servers

_SERVICE_FILES, _ATTACK_FILES = 1024, 4096
"""Files that the service may open, as most systems have it, and files that the attacks may open."""
_HARMLESS = ("DRAGOMAN_DATA", "DRAGOMAN_CACHE")  # names of variables that lead to no database, store or broker


@dataclass(frozen=True)
class Target:
    """An empty folder, and by how much tries or seconds of what takes long are multiplied."""

    folder: Path
    scale: float

    def count(self, usual: int) -> int:
        """A number of tries or seconds by the scale; 1 at least."""
        return max(1, round(self.scale * usual))

    def evaluated(self) -> Path:
        home = self.folder / "home"
        at = ["-c", "demo", "--home", str(home), "-q"]
        documents = [str(file) for file in sorted(DEMO.glob("docs.*.jsonl"))]
        require_done(["index", *documents, "--device", "cpu", *at])
        require_done(["evaluate", *TOPICS, "--langs", "de", *at])
        return home


Attack = Callable[[Target], Iterable[str]]  # yields one text for each try: empty if it held, else what fell


def _connections(target: Target) -> Iterator[str]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_SERVICE_FILES, most))
    with client_of_process(target.evaluated()) as service:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_ATTACK_FILES, most), most))
        yield from service_attacks.idle(service, 1_005)
        yield from service_attacks.unfinished(service)


def _logs(target: Target) -> Iterator[str]:
    home, log = target.folder / "home", target.folder / "log"
    with running() as elastic:
        attach_pages(elastic.url, home, "pages", 50)
        with client_of_process(home, "--elastic", elastic.url, log=str(log)) as service:
            yield from service_attacks.injected(service, log, "pages")


def _modes(target: Target) -> Iterator[str]:
    home = target.evaluated()
    place = ["-c", "demo", "--home", str(home), "-q"]
    with client_of_process(home, "--log") as client:
        client.post("/api/search", json={"query": "bread", "lang": "en", "collection": "demo"}).raise_for_status()
    require_done(["index", str(DEMO / "docs.en.jsonl"), "--rebuild", "--device", "cpu", *place])
    yield from command_attacks.modes(home)


def _races(target: Target) -> Iterator[str]:
    """An owner writes as fast as the server takes it, then 4 and 30 times a second while ``attach --follow`` runs."""
    with running() as elastic:
        for companion in (False, True):
            prefix, database = f"race-{companion}".lower(), f"sqlite:///{target.folder}/race-{companion}.db"
            yield from attach_race.race(elastic.url, prefix, database, target.count(1000), companion=companion).tries()
            for rate in (4, 30):
                prefix = f"followed-{rate}-{companion}".lower()
                yield from attach_race.race_with_follow(
                    elastic.url, Settings.read(home=target.folder / prefix), prefix, seconds=target.count(75),
                    per_second=rate, companion=companion,
                ).tries()  # fmt: skip


def _workers(target: Target) -> Iterator[str]:
    kinds = ("Elasticsearch killed", "a worker killed", "Elasticsearch stopped") * target.count(10)
    with running_servers() as servers:
        yield from Trial(servers, target.folder, 640, seed=0).run(kinds)


ATTACKS: dict[str, Attack] = {
    "1,005 idle connections; requests without an end, and byte by byte": _connections,
    "archives of a few kB that unpack to 512 MB": lambda target: command_attacks.packed_bombs(target.folder),
    "text with line ends in a service's log": _logs,
    "rights of a home's folders and files": _modes,
    "an owner's writes and deletes while attach, `attach --follow` and calibrations run": _races,
    "power loss: what was not synced is gone": lambda target: losses(target.folder, target.count(240)),
    "kills of commands at any change": lambda target: losses(target.folder, target.count(1400), power=False),
    "kills of commands on servers": lambda target: kills_on_servers(target.folder, target.count(1700)),
    "pairs of commands at random delays": lambda target: pairs(target.folder, target.count(490)),
    "service and cluster killed while callers search": lambda target: killed(target.folder, target.count(2_000)),
    "Elasticsearch and workers killed and stopped": _workers,
}


def _outcomes(attack: Attack, target: Target) -> Iterator[str]:
    """The outcomes of an attack's tries; an attack that breaks off, or that tries nothing, fell."""
    tried = False
    try:
        for outcome in attack(target):
            tried = True
            yield outcome
    except Exception as error:  # noqa: BLE001 - it is what fell
        print_exc()
        yield f"the attack broke off: {error!r}"
    else:
        yield from () if tried else ("nothing was tried",)


@harness.benchmark("Attacks", scale=1.0, only="")
def attack(arguments: Namespace) -> list[str]:
    """Attack; of attacks with the text ``only`` in their names no section is written."""
    attacks = {name: attack for name, attack in ATTACKS.items() if arguments.only in name}
    if not attacks:
        raise SystemExit(f"no attack has {arguments.only!r} in its name")
    for name in [name for name in os.environ if name.startswith("DRAGOMAN_") and name not in _HARMLESS]:
        del os.environ[name]  # no command may reach another database, store or broker
    # a shell in whose background this runs lets it ignore Ctrl-C, and what it starts would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rows = []
    for name, attack in attacks.items():
        with tempfile.TemporaryDirectory(prefix="dragoman-attack-") as folder, harness.Stopwatch() as watch:
            outcomes = list(_outcomes(attack, Target(Path(folder), arguments.scale)))
        fallen = [fall for fall in outcomes if fall]
        counts = len(outcomes), len(outcomes) - len(fallen), len(fallen), watch.seconds
        rows.append([name, *(f"{count:,.0f}" for count in counts)])
        print(" | ".join(rows[-1]), *fallen[:10], sep="\n", flush=True)
    if not arguments.only:
        harness.write("Attacks", harness.table("tried | tries | held | fell | s", rows))
    raise SystemExit(any(row[3] != "0" for row in rows))
