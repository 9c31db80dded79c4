"""Attacks on a service, workers and a home, on loopback; a row counts what was tried, what held and what fell."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from traceback import print_exc
from unittest.mock import patch

import httpx
from elasticsearch import Elasticsearch

from benchmarks import harness
from encoders.console import Console
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from onnx_export.models import DEFAULT, find_model
from query.service.access import TokenFile
from trials import (
    DEMO,
    attach_race,
    busy_server,
    command_attacks,
    full_disk,
    input_attacks,
    long_running,
    page_attacks,
    rights_attacks,
    service_attacks,
    user_attacks,
)
from trials.cluster_accidents import writers
from trials.command import TOPICS, require_done
from trials.database_accidents import interrupted
from trials.documents import put_records, sentences, write_records
from trials.power_loss import losses
from trials.servers.elastic import PASSWORD, client_of
from trials.servers.elastic import running as elastic_running
from trials.servers.postgres import PostgresServer
from trials.servers.process import running
from trials.servers.secured import secured_server
from trials.servers.service import process
from trials.service_accidents import killed
from trials.service_attacks import SECRET
from trials.soak import soak
from trials.worker_accidents import BROKERS, Servers, Trial

_ATTACHED = "front-help"
_SERVICE_FILES, _ATTACK_FILES = 1024, 4096
"""Files that the service may open, as most systems have it, and files that the attacks may open."""
_HARMLESS = ("DRAGOMAN_DATA", "DRAGOMAN_CACHE")
"""Names of variables that lead to no database, store or broker."""


@dataclass(frozen=True)
class Target:
    """What is attacked.

    Attributes:
        folder: an empty folder.
        home: a home with the collections demo, own and help.
        service: a client of a service of this home.
        elastic: the server of own and help.
        scale: how many tries or seconds what takes long has, 1 as usual.
    """

    folder: Path
    home: Path
    service: httpx.Client
    elastic: str
    scale: float

    @property
    def small(self) -> bool:
        """Whether each attack has a part of its tries."""
        return self.scale < 1

    def count(self, usual: int) -> int:
        """A number of tries or seconds by the scale; 1 at least."""
        return max(1, round(self.scale * usual))

    def new(self, name: str) -> Path:
        """A new folder in the folder."""
        (self.folder / name).mkdir()
        return self.folder / name

    def copy(self) -> Path:
        """A copy of the home."""
        return Path(shutil.copytree(self.home, self.folder / "home"))


Attack = Callable[[Target], Iterable[str]]
"""Yields one text for each try: empty if it held, else what fell."""


def _headers(target: Target) -> Iterator[str]:
    lengths = service_attacks.LENGTHS[-2:] if target.small else service_attacks.LENGTHS
    for name, length in product(service_attacks.LONG_NAMES, lengths):
        yield from service_attacks.long_header(target.service, f"/{_ATTACHED}/_count", name, length)
        with httpx.Client(base_url=target.service.base_url, timeout=10) as caller:
            yield from service_attacks.served(caller, f"/{_ATTACHED}/_count", _ATTACHED, "help")


def _connections(target: Target) -> Iterator[str]:
    yield from service_attacks.idle(target.service, 1_005)
    yield from (service_attacks.endless(target.service, begun) for begun in service_attacks.ENDLESS.values())
    yield from service_attacks.unfinished(target.service)
    yield from service_attacks.pipelined(target.service)


def _values(target: Target) -> Iterator[str]:
    yield from service_attacks.unreadable_authorizations(target.service)
    for value in service_attacks.VALUES:
        yield service_attacks.odd_value(target.service, *value)


def _names(target: Target) -> Iterator[str]:
    for number, name in enumerate(input_attacks.NAMES):
        yield from input_attacks.odd_name(name, target.new(str(number)))


def _damage(target: Target) -> Iterator[str]:
    home = target.copy()
    for file in ("dragoman.db", "store/demo.db"):
        pages = range(0, command_attacks.pages_of(home / file), 40 if target.small else 10)
        yield from command_attacks.zeroed_pages(home, file, pages)


def _tokens(target: Target) -> Iterator[str]:
    file = target.folder / "tokens"
    file.write_text(f"me {SECRET}\n")
    file.chmod(0o600)
    with process(target.home, "--tokens", str(file)) as (service, url):
        with httpx.Client(base_url=url, timeout=60) as client:
            yield from service_attacks.unreadable_authorizations(client)
            yield from service_attacks.wrong_tokens(client, SECRET)
        yield from service_attacks.changed_tokens(url, service, file)
    for text in ("", "me short\n", f"me {SECRET}\nyou {SECRET} write\n"):
        file.write_text(text)
        try:
            TokenFile(file)
        except BadInput:
            yield ""
        else:
            yield f"a file of tokens with {text!r} is taken"


def _logs(target: Target) -> Iterator[str]:
    log = target.folder / "log"
    with (
        process(target.home, "--elastic", target.elastic, log=str(log)) as (_, url),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield from service_attacks.injected(client, log, _ATTACHED)


def _modes(target: Target) -> Iterator[str]:
    home = target.copy()
    place = ["--home", str(home), "-q"]
    with process(home, "--log") as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        client.post("/api/search", json={"query": "bread", "lang": "en", "collection": "demo"}).raise_for_status()
    require_done(["index", str(DEMO / "docs.en.jsonl"), "-c", "demo", "--rebuild", "--device", "cpu", *place])
    require_done(["report", "-c", "demo", "-o", str(home / "report.html"), *place])
    (home / "report.html").unlink()  # the user's own
    yield from command_attacks.modes(home)


def _workers(target: Target, *, broker: str, times: int, clocks: bool = False) -> Iterator[str]:
    """Accidents of each kind to two workers, so many times each; or their clocks and the servers' clocks are set."""
    folder = target.new(broker)
    with running(BROKERS[broker]) as queue, running(PostgresServer) as postgres, elastic_running() as elastic:
        trial = Trial(Servers(queue, postgres, elastic), folder, 640, seed=0, name=f"trial-{broker}")
        kinds = list(trial.clock_accidents() if clocks else trial.accidents()) * target.count(times)
        Random(0).shuffle(kinds)
        yield from trial.run(kinds[:2] if target.small else kinds)


def _page(target: Target) -> Iterator[str]:
    home, report = target.folder / "home", target.new("report")
    source = write_records(page_attacks.documents(), target.folder / "hostile.jsonl")
    place = ["--home", str(home), "--device", "cpu", "-q", "--no-calibration"]
    require_done(["index", source, "-c", "hostile", *place])
    executable = page_attacks.chromium()
    if executable is None:
        raise SystemExit("no browser for the attacks on the page: apt-get install chromium")
    with page_attacks.browser(executable) as opened:
        with process(home) as (_, url), httpx.Client(base_url=url, timeout=60) as client:
            yield from page_attacks.hostile_documents(opened, client, "hostile")
            values = page_attacks.ADDRESSES[:: 4 if target.small else 1]
            yield from page_attacks.hostile_addresses(opened, client, values)
        evaluated = Path(shutil.copytree(target.home, target.folder / "evaluated"))
        yield from page_attacks.hostile_report(opened, evaluated, report)


def _on_server(target: Target, *, settings: Mapping[str, str], trial: Callable[..., Iterator[str]]) -> Iterator[str]:
    """A trial on an Elasticsearch of its own, with settings."""
    with elastic_running(settings) as elastic:
        yield from trial(elastic.url, target.folder, small=target.small)


def _races(target: Target) -> Iterator[str]:
    """An owner writes as fast as the server takes it, then 4 and 30 times a second while ``attach --follow`` runs."""
    calibrations = 0
    for companion in (False, True):
        prefix, database = f"race-{companion}".lower(), f"sqlite:///{target.folder}/race-{companion}.db"
        yield from attach_race.race(target.elastic, prefix, database, target.count(1000), companion=companion).tries()
        for rate in (4, 30):
            prefix = f"followed-{rate}-{companion}".lower()
            outcome = attach_race.race_with_follow(
                target.elastic, Settings.read(home=target.folder / prefix), prefix, seconds=target.count(75),
                per_second=rate, companion=companion,
            )  # fmt: skip
            yield from outcome.tries()
            calibrations += outcome.calibrations
    yield "" if calibrations else "no calibration was made, so nothing raced with it"


def _rights(target: Target) -> Iterator[str]:
    """Rules of documents and fields, with a trial licence."""
    with running(secured_server) as elastic:
        rights_attacks.made(elastic, target.folder)
        admin = {"USER": "admin", "PASSWORD": PASSWORD, "CA": str(elastic.ca)}
        environment = {f"DRAGOMAN_ELASTIC_{name}": value for name, value in admin.items()}
        with (
            patch.dict(os.environ, environment),
            process(target.folder) as (_, url),
            httpx.Client(base_url=url, timeout=60) as service,
            rights_attacks.client_with_ca(elastic) as server,
        ):
            yield from rights_attacks.rules(service, server)


def _reads(target: Target) -> Iterator[str]:
    with client_of(target.elastic) as cluster:
        yield from service_attacks.forbidden_reads(target.service, cluster, _ATTACHED, "front-secret", "the secret")


def _ordinary_user(target: Target) -> Iterator[str]:
    home, folder = target.folder / "home", target.new("tried")
    place = ["--home", str(home), "--device", "cpu", "-q", "--no-calibration"]
    model = find_model(DEFAULT, Console(quiet=True)).path
    require_done(["index", str(DEMO / "docs.en.jsonl"), str(DEMO / "docs.de.jsonl"), "-c", "demo", *place])
    require_done(["evaluate", "-c", "demo", *TOPICS, "--langs", "de", "--home", str(home), "-q"])
    yield from user_attacks.without_rights(home, model, folder, only="a home" if target.small else "")


def _inputs(target: Target) -> Iterator[str]:
    home, folder = target.copy(), target.new("tried")
    model = find_model(DEFAULT, Console(quiet=True)).path
    yield from input_attacks.wrong_inputs(home, model, folder, step=60 if target.small else 5)


ATTACKS: dict[str, Attack] = {
    "headers and paths that are too long, and others' calls after them": _headers,
    "kills and full disks while a database is made, and upgraded": lambda target: (
        fall
        for again in (False, True)
        for fall in interrupted(target.new(f"again-{again}"), again=again, kills=target.count(100))
    ),
    "1,005 idle connections; requests without an end, byte by byte, pipelined": _connections,
    "archives of a few kB that unpack to 512 MB": lambda target: command_attacks.packed_bombs(target.folder),
    "`Authorization` that can't be read; values that are no number, field or text": _values,
    "names of collections that lead out of the home or that no file can have": _names,
    "zeroed pages in databases": _damage,
    "calls of another site's page": lambda target: (
        fall for headers in service_attacks.FOREIGN for fall in service_attacks.foreign_page(target.service, headers)
    ),
    "tokens: guessed, taken away, given twice, too short": _tokens,
    "text with line ends in a service's log": _logs,
    "rights of a home's folders and files": _modes,
    "`dragoman index` killed and interrupted, compared with an undisturbed run": lambda target: (
        fall
        for seed in range(target.count(4))
        for fall in command_attacks.kills_while_indexing(target.new(str(seed)), "a stub", seed=seed)
    ),
    "accidents to workers, by Redis": partial(_workers, broker="redis", times=10),
    "accidents to workers, by RabbitMQ": partial(_workers, broker="rabbitmq", times=5),
    "hostile documents on the page and in a report, in a browser": _page,
    "the server's disk watermark": partial(_on_server, settings=full_disk.WATERMARKS, trial=full_disk.watermark),
    "real 429 of a busy server": partial(_on_server, settings=busy_server.BUSY, trial=busy_server.busy),
    "rights of documents and fields of a licensed cluster": _rights,
    "an owner's writes and deletes while attach, `attach --follow` and calibrations run": _races,
    "clocks set back and forth on workers, brokers and database": lambda target: (
        fall for broker in BROKERS for fall in _workers(target, broker=broker, times=3, clocks=True)
    ),
    "power loss: what was not synced is gone": lambda target: losses(target.folder, target.count(240)),
    "service and cluster killed while callers search": lambda target: killed(target.folder, target.count(2_000)),
    "Elasticsearch and three writers killed and stopped": lambda target: writers(
        target.count(6_400) // 64 * 64, target.count(30)
    ),
    "reads of indices that are not served": _reads,
    "a service whose collections are made, changed and deleted while they are searched": lambda target: soak(
        target.folder, f"{target.elastic}/week", target.count(240)
    ),
    "searches in a process and by a service, many collections in a process: memory stays": lambda target: (
        long_running.alone(long_running.searches, target.home, target.count(3_000))
        + long_running.alone(long_running.many_collections, target.folder, target.count(200))
    ),
    "an ordinary user without rights on folders": _ordinary_user,
    "wrong inputs of every command": _inputs,
}
"""Attacks by what is tried."""


def _made(home: Path, elastic: str) -> None:
    """Make a home with a calibrated, evaluated demo, a collection in Elasticsearch, and an attached index."""
    at = ["--home", str(home), "-q"]
    topics = [*TOPICS, "--langs", "de"]
    source = write_records([{"id": "a", "lang": "en", "text": "of our own"}], home.parent / "own.jsonl")
    with Elasticsearch(elastic) as client:
        put_records(client, _ATTACHED, sentences(50))
        client.index(index="front-secret", id="s", document={"text": "the secret"}, refresh=True)
    device = ["--device", "cpu"]
    for command in (
        ["index", *map(str, sorted(DEMO.glob("docs.*.jsonl"))), "-c", "demo", *device],
        ["evaluate", "-c", "demo", *topics],
        ["index", source, "-c", "own", "--store", f"{elastic}/front", "--no-calibration", *device],
        ["attach", _ATTACHED, "-c", "help", "--store", elastic, "--text", "text", "--lang-field", "lang", *device],
    ):
        require_done([*command, *at])


def _outcomes(attack: Attack, target: Target) -> list[str]:
    """The outcomes of an attack's tries; an attack that breaks off, or that tries nothing, fell."""
    outcomes = []
    try:
        for outcome in attack(target):
            outcomes.append(outcome)  # noqa: PERF402 - what was tried before the attack broke off counts
    except Exception as error:  # noqa: BLE001 - it is what fell
        print_exc()
        outcomes.append(f"the attack broke off: {error!r}")
    return outcomes or ["nothing was tried"]


def main() -> None:
    """Attack, and write the section; of attacks with the text ``only`` in their names nothing is written."""
    arguments = harness.options(__doc__, scale=1.0, only="")
    attacks = {name: attack for name, attack in ATTACKS.items() if arguments.only in name}
    if not attacks:
        raise SystemExit(f"no attack has {arguments.only!r} in its name")
    for name in [name for name in os.environ if name.startswith("DRAGOMAN_") and name not in _HARMLESS]:
        del os.environ[name]  # no command may reach another database, store or broker
    # a shell in whose background this runs lets it ignore Ctrl-C, and what it starts would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    table, falls = harness.Table(), []
    table.add("| tried | tries | held | fell | s |")
    table.add("|---|---:|---:|---:|---:|")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-attack-")))
        elastic, home = stack.enter_context(elastic_running()), folder / "home"
        _made(home, elastic.url)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_SERVICE_FILES, most))
        served = Path(shutil.copytree(home, folder / "served"))
        _, url = stack.enter_context(process(served, "--elastic", elastic.url))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_ATTACK_FILES, most), most))
        service = stack.enter_context(httpx.Client(base_url=url, timeout=60))
        for number, (name, attack) in enumerate(attacks.items()):
            own = folder / str(number)
            own.mkdir()
            with harness.Stopwatch() as watch:
                outcomes = _outcomes(attack, Target(own, home, service, elastic.url, arguments.scale))
            fallen = [fall for fall in outcomes if fall]
            falls += fallen
            held = len(outcomes) - len(fallen)
            table.add(f"| {name} | {len(outcomes):,} | {held:,} | {len(fallen):,} | {watch.seconds:,.0f} |")
            print(*fallen[:10], sep="\n", end="\n" if fallen else "")
    if not arguments.only:
        harness.write("Attacks", table)
    if falls:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
