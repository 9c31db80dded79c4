"""Attacks on a service, workers and a home, on loopback; a row counts what was tried, what held and what fell."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from traceback import print_exc
from unittest.mock import patch

import httpx
from elasticsearch import Elasticsearch, helpers

from benchmarks import harness
from encoders.console import Console
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from indexer.ledger import database
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
from trials.command import TOPICS, fell, require_done
from trials.database_accidents import (
    DONE,
    KILLED,
    REFUSED,
    copied,
    fill,
    migrations_with_second,
    open_in_process,
    random_kills,
    require_complete,
)
from trials.documents import sentences
from trials.power_loss import losses
from trials.servers.elastic import PASSWORD, client_of
from trials.servers.elastic import running as elastic_running
from trials.servers.postgres import PostgresServer
from trials.servers.process import running
from trials.servers.secured import secured_server
from trials.servers.service import process
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
        small: whether each attack has a part of its tries.
    """

    folder: Path
    home: Path
    service: httpx.Client
    elastic: str
    small: bool


Attack = Callable[[Target], Iterator[str]]
"""Yields one text for each try: empty if it held, else what fell."""


def _headers(target: Target) -> Iterator[str]:
    lengths = service_attacks.LENGTHS[-2:] if target.small else service_attacks.LENGTHS
    for name, length in product(service_attacks.LONG_NAMES, lengths):
        yield from service_attacks.long_header(target.service, f"/{_ATTACHED}/_count", name, length)
        with httpx.Client(base_url=target.service.base_url, timeout=10) as caller:
            yield from service_attacks.served(caller, f"/{_ATTACHED}/_count", _ATTACHED, "help")


def _databases(target: Target, *, again: bool) -> Iterator[str]:
    """Kills and full disks while a database is made, or upgraded ``again``."""
    migrations = migrations_with_second(target.folder / "migrations") if again else database.MIGRATIONS
    filled = fill(target.folder / "filled" / "dragoman.db")
    numbers = iter(range(10_000))

    def prepare() -> Path:
        folder = target.folder / f"home-{next(numbers)}"
        return copied(filled, folder) if again else folder / "dragoman.db"

    def complete(file: Path, outcome: str) -> str:
        try:
            require_complete(file, upgraded=again)
        except Exception as error:  # noqa: BLE001 - it is what fell
            return f"{file.parent.name}, {outcome}: {error!r}"
        return ""

    with patch.object(database, "MIGRATIONS", migrations):
        for file, outcome in random_kills(prepare, migrations, 10 if target.small else 100):
            yield complete(file, outcome) if outcome in {KILLED, DONE} else f"{file.parent.name}: {outcome}"
        outcomes = set()
        for size in range(1, 21, 4 if target.small else 1):
            file = prepare()
            outcome = open_in_process(file, migrations, max_bytes=size * 16_384)
            outcomes.add(outcome)
            yield complete(file, outcome) if outcome in {REFUSED, DONE} else f"{file.parent.name}: {outcome}"
        yield fell("no size was too small, or all were", outcomes, held=outcomes == {REFUSED, DONE})


def _connections(target: Target) -> Iterator[str]:
    yield from service_attacks.idle(target.service, 1_005)
    for begun in service_attacks.ENDLESS.values():
        yield service_attacks.endless(target.service, begun)
    yield from service_attacks.unfinished(target.service)
    yield from service_attacks.trickles(target.service)
    yield from service_attacks.pipelined(target.service)


def _values(target: Target) -> Iterator[str]:
    yield from service_attacks.unreadable_authorizations(target.service)
    for value in service_attacks.VALUES:
        yield service_attacks.odd_value(target.service, *value)


def _names(target: Target) -> Iterator[str]:
    for number, name in enumerate(command_attacks.NAMES):
        folder = target.folder / str(number)
        folder.mkdir()
        yield from command_attacks.odd_name(name, folder)


def _damage(target: Target) -> Iterator[str]:
    home = Path(shutil.copytree(target.home, target.folder / "home"))
    for file in ("dragoman.db", "store/demo.db"):
        pages = range(0, command_attacks.pages_of(home / file), 40 if target.small else 10)
        yield from command_attacks.zeroed_pages(home, file, pages)


def _pages(target: Target) -> Iterator[str]:
    for headers in service_attacks.FOREIGN:
        yield from service_attacks.foreign_page(target.service, headers)


def _numbers(_: Target) -> Iterator[str]:
    for name, value in product(command_attacks.NUMBERS, command_attacks.NOT_FINITE):
        yield command_attacks.not_finite(name, value)


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
    home = Path(shutil.copytree(target.home, target.folder / "home"))
    place = ["--home", str(home), "-q"]
    with process(home, "--log") as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        client.post("/api/search", json={"query": "bread", "lang": "en", "collection": "demo"}).raise_for_status()
    require_done(["index", str(DEMO / "docs.en.jsonl"), "-c", "demo", "--rebuild", "--device", "cpu", *place])
    require_done(["report", "-c", "demo", "-o", str(home / "report.html"), *place])
    (home / "report.html").unlink()  # the user's own
    yield from command_attacks.modes(home)


def _kills(target: Target) -> Iterator[str]:
    for seed in range(1 if target.small else 4):
        folder = target.folder / str(seed)
        folder.mkdir()
        yield from command_attacks.kills_while_indexing(folder, "a stub", seed=seed)


def _workers(target: Target, *, broker: str, times: int, clocks: bool = False) -> Iterator[str]:
    """Accidents of each kind to two workers, so many times each; or their clocks and the servers' clocks are set."""
    folder = target.folder / broker
    folder.mkdir()
    with running(BROKERS[broker]) as queue, running(PostgresServer) as postgres, elastic_running() as elastic:
        trial = Trial(Servers(queue, postgres, elastic), folder, 640, seed=0, name=f"trial-{broker}")
        accidents = list(trial.clock_accidents() if clocks else trial.accidents())
        kinds = accidents[:2] if target.small else accidents * times
        Random(0).shuffle(kinds)
        outcome = trial.run(kinds, (0.2, 1.0))
    wrong = (outcome.lost, outcome.doubled, outcome.different, outcome.findings)
    yield from [""] * (outcome.happened.total() - outcome.spoilt)
    yield from [f"{broker}: lost, doubled, different, findings: {wrong}"] * outcome.spoilt


def _clocks(target: Target) -> Iterator[str]:
    for broker in BROKERS:
        yield from _workers(target, broker=broker, times=3, clocks=True)


def _page(target: Target) -> Iterator[str]:
    home, report = target.folder / "home", target.folder / "report"
    source = page_attacks.write_documents(target.folder / "hostile.jsonl")
    place = ["--home", str(home), "--device", "cpu", "-q", "--no-calibration"]
    require_done(["index", str(source), "-c", "hostile", *place])
    executable = page_attacks.chromium()
    if executable is None:
        raise SystemExit("no browser for the attacks on the page: apt-get install chromium")
    with page_attacks.browser(executable) as opened:
        with process(home) as (_, url), httpx.Client(base_url=url, timeout=60) as client:
            yield from page_attacks.hostile_documents(opened, client, "hostile")
            values = page_attacks.ADDRESSES[:: 4 if target.small else 1]
            yield from page_attacks.hostile_addresses(opened, client, values)
        report.mkdir()
        evaluated = Path(shutil.copytree(target.home, target.folder / "evaluated"))
        yield from page_attacks.hostile_report(opened, evaluated, report)


def _disk(target: Target) -> Iterator[str]:
    with elastic_running(full_disk.WATERMARKS) as elastic:
        yield from full_disk.watermark(elastic.url, target.folder, small=target.small)


def _busy(target: Target) -> Iterator[str]:
    with elastic_running(busy_server.BUSY) as elastic:
        yield from busy_server.busy(elastic.url, target.folder, small=target.small)


def _races(target: Target) -> Iterator[str]:
    """An owner writes as fast as the server takes it, then 4 and 30 times a second while ``attach --follow`` runs."""
    for companion in (False, True):
        prefix, database = f"race-{companion}".lower(), f"sqlite:///{target.folder}/race-{companion}.db"
        count = 100 if target.small else 1000
        yield from attach_race.falls(attach_race.race(target.elastic, prefix, database, count, companion=companion))
    calibrations = 0
    for rate in (4, 30):
        settings = Settings.read(home=target.folder / f"followed-{rate}")
        seconds = 12 if target.small else 75
        outcome = attach_race.race_with_follow(
            target.elastic, settings, f"followed-{rate}", seconds=seconds, per_second=rate, companion=False
        )
        yield from attach_race.falls(outcome)
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


def _week(target: Target) -> Iterator[str]:
    outcome = soak(target.folder, f"{target.elastic}/week", 30 if target.small else 240)
    yield from [""] * (sum(outcome.tries.values()) - len(outcome.falls))
    yield from outcome.falls
    if not target.small:  # so short a time is all beginning
        yield from outcome.watched.grown()


def _searches(target: Target) -> Iterator[str]:
    yield from long_running.alone(long_running.searches, target.home, 300 if target.small else 3_000)


def _long_running(target: Target) -> Iterator[str]:
    """What runs for long; each part in a folder and at a place of its own."""
    yield from long_running.alone(long_running.many_collections, target.folder, 20 if target.small else 200)
    for name, use in (("worker", long_running.worker_and_watch), ("follow", long_running.following)):
        (target.folder / name).mkdir()
        yield from use(target.folder / name, f"{target.elastic}/{name}", 10 if target.small else 60)


def _ordinary_user(target: Target) -> Iterator[str]:
    home, folder = target.folder / "home", target.folder / "tried"
    folder.mkdir()
    place = ["--home", str(home), "--device", "cpu", "-q", "--no-calibration"]
    model = find_model(DEFAULT, Console(quiet=True)).path
    require_done(["index", str(DEMO / "docs.en.jsonl"), str(DEMO / "docs.de.jsonl"), "-c", "demo", *place])
    require_done(["evaluate", "-c", "demo", *TOPICS, "--langs", "de", "--home", str(home), "-q"])
    yield from user_attacks.without_rights(home, model, folder, only="a home" if target.small else "")


def _inputs(target: Target) -> Iterator[str]:
    home, folder = Path(shutil.copytree(target.home, target.folder / "home")), target.folder / "tried"
    folder.mkdir()
    model = find_model(DEFAULT, Console(quiet=True)).path
    yield from input_attacks.wrong_inputs(home, model, folder, step=60 if target.small else 5)


ATTACKS: dict[str, Attack] = {
    "headers and paths that are too long, and others' calls after them": _headers,
    "kills and full disks while a database is made": partial(_databases, again=False),
    "kills and full disks while a database is upgraded": partial(_databases, again=True),
    "1,005 idle connections; requests without an end, byte by byte, pipelined": _connections,
    "archives of a few kB that unpack to 512 MB": lambda target: command_attacks.packed_bombs(target.folder),
    "`Authorization` that can't be read; values that are no number, field or text": _values,
    "names of collections that lead out of the home or that no file can have": _names,
    "zeroed pages in databases": _damage,
    "calls of another site's page": _pages,
    "`nan` and `inf` as options": _numbers,
    "tokens: guessed, taken away, given twice, too short": _tokens,
    "text with line ends in a service's log": _logs,
    "rights of a home's folders and files": _modes,
    "`dragoman index` killed and interrupted, compared with an undisturbed run": _kills,
    "accidents to workers, by Redis": partial(_workers, broker="redis", times=10),
    "accidents to workers, by RabbitMQ": partial(_workers, broker="rabbitmq", times=5),
    "hostile documents on the page and in a report, in a browser": _page,
    "the server's disk watermark": _disk,
    "real 429 of a busy server": _busy,
    "rights of documents and fields of a licensed cluster": _rights,
    "an owner's writes and deletes while attach, `attach --follow` and calibrations run": _races,
    "clocks set back and forth on workers, brokers and database": _clocks,
    "power loss: what was not synced is gone": lambda target: losses(target.folder, 24 if target.small else 240),
    "reads of indices that are not served": _reads,
    "a service whose collections are made, changed and deleted while they are searched": _week,
    "searches, in a process and by a service: memory stays": _searches,
    "worker, `attach --follow`, `status --watch`, many collections in a process: nothing grows": _long_running,
    "an ordinary user without rights on folders": _ordinary_user,
    "wrong inputs of every command": _inputs,
}
"""Attacks by what is tried."""


def _made(home: Path, elastic: str) -> None:
    """Make a home with a calibrated, evaluated demo, a collection in Elasticsearch, and an attached index."""
    at = ["--home", str(home), "-q"]
    topics = [*TOPICS, "--langs", "de"]
    source = home.parent / "own.jsonl"
    source.write_text(json.dumps({"id": "a", "lang": "en", "text": "of our own"}) + "\n")
    with Elasticsearch(elastic) as client:
        pages = ({"_index": _ATTACHED, "_id": page["id"], "_source": page} for page in sentences(50))
        helpers.bulk(client, pages, refresh=True)
        client.index(index="front-secret", id="s", document={"text": "the secret"}, refresh=True)
    device = ["--device", "cpu"]
    for command in (
        ["index", *map(str, sorted(DEMO.glob("docs.*.jsonl"))), "-c", "demo", *device],
        ["evaluate", "-c", "demo", *topics],
        ["index", str(source), "-c", "own", "--store", f"{elastic}/front", "--no-calibration", *device],
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
    """Attack, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="fewer tries of what takes long")
    parser.add_argument("--only", metavar="TEXT", default="", help="attacks of this name; nothing is written")
    arguments = parser.parse_args()
    attacks = {name: attack for name, attack in ATTACKS.items() if arguments.only in name}
    if not attacks:
        parser.error(f"no attack has {arguments.only!r} in its name")
    for name in [name for name in os.environ if name.startswith("DRAGOMAN_") and name not in _HARMLESS]:
        del os.environ[name]  # no command may reach another database, store or broker
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    table, falls = harness.Table(), []
    table.add("| tried | tries | held | fell | s |")
    table.add("|---|---:|---:|---:|---:|")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-attack-")))
        elastic, home = stack.enter_context(elastic_running()), folder / "home"
        _made(home, elastic.url)
        options = ["--elastic", elastic.url]
        resource.setrlimit(resource.RLIMIT_NOFILE, (_SERVICE_FILES, most))
        _, url = stack.enter_context(process(Path(shutil.copytree(home, folder / "served")), *options))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_ATTACK_FILES, most), most))
        service = stack.enter_context(httpx.Client(base_url=url, timeout=60))
        for number, (name, attack) in enumerate(attacks.items()):
            own = folder / str(number)
            own.mkdir()
            with harness.Stopwatch() as watch:
                outcomes = _outcomes(attack, Target(own, home, service, elastic.url, arguments.small))
            fallen = [fall for fall in outcomes if fall]
            falls += fallen
            held = len(outcomes) - len(fallen)
            table.add(f"| {name} | {len(outcomes):,} | {held:,} | {len(fallen):,} | {watch.seconds:,.0f} |")
            print(*fallen[:10], sep="\n", end="\n" if fallen else "")
    if not arguments.only:
        harness.write("Attacks", "attack --small" if arguments.small else "attack", table)
    if falls:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
