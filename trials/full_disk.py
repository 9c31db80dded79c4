"""An Elasticsearch server whose disk is past its flood-stage watermark: what waits, what says so, what goes on.

The trial yields one text for each try: empty if the command or the service held, else what fell.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import httpx
from elasticsearch import Elasticsearch

from encoders.document import Document
from indexer.collection.settings import Settings
from indexer.stores.clustered import own_index, writing
from trials.command import environment_of, fell, require_done, said, started
from trials.command_attacks import chunk_states
from trials.documents import contents, different, put_records, sentences, write_records
from trials.servers.elastic import BLOCK, client_of
from trials.servers.service import process

WATERMARKS = {"cluster.routing.allocation.disk.threshold_enabled": "true", "cluster.info.update.interval": "10s"}
"""Settings of a server that looks at its disk as often as it can."""
_PATIENCE = 3.0  # seconds that a command waits for disk space in the trial
_WITHIN = 300.0
_OWNERS = "pages"
_MANY, _CHANGED = 400, 8

_PATIENT_FOR = """
import sys
from indexer.stores.clustered import writing
from query.cli import run
writing.PATIENCE = float(sys.argv[1])
sys.exit(run(sys.argv[2:]))
"""


@contextmanager
def full_disk(client: Elasticsearch, index: str) -> Iterator[None]:
    """Set the watermarks higher than any disk, until the server has blocked an index; afterwards the block is gone."""
    names = ("low", "high", "flood_stage")
    watermarks = dict.fromkeys((f"cluster.routing.allocation.disk.watermark.{name}" for name in names), "1000tb")
    client.cluster.put_settings(persistent=watermarks)
    try:
        wait_for(lambda: blocked(client, index), "the block")
        yield
    finally:
        client.cluster.put_settings(persistent=dict.fromkeys(watermarks, None))
        wait_for(lambda: not blocked(client, index), "the end of the block")


def blocked(client: Elasticsearch, index: str) -> bool:
    answer = client.indices.get_settings(index=index, name=BLOCK, flat_settings=True)
    return any(entry["settings"].get(BLOCK) == "true" for entry in answer.body.values())


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {_WITHIN:.0f} s")
        time.sleep(0.1)


def watermark(server: str, folder: Path) -> Iterator[str]:
    """Fill the disk while one process indexes, one follows and one answers; then let other commands write.

    The server was started with ``WATERMARKS``; the folder is empty.
    """
    home, few, many = folder / "home", folder / "few.jsonl", folder / "many.jsonl"
    settings = Settings.read(home=home, store=f"{server}/disk")
    documents = sentences(_MANY)

    def log(command: str) -> str:
        return (folder / f"{command}.log").read_text(encoding="utf-8")

    def start(patience: float, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        command = [sys.executable, "-c", _PATIENT_FOR, str(patience), *arguments]
        return started(command, environment_of(settings), folder / f"{arguments[0]}.log")

    write_records(documents[:60], few)
    write_records(documents, many)
    at = ["-c", "few", "--store", settings.store, "--home", str(home), "-q"]
    on = [*at, "--device", "cpu", "--no-calibration"]
    with ExitStack() as stack:
        client = stack.enter_context(client_of(server))
        put_records(client, _OWNERS, documents[:40])
        for rebuild in ([], ["--rebuild"]):
            require_done(["index", str(few), *on, *rebuild])
        require_done(["index", str(few), *on, "-c", "spare"])
        _, url = stack.enter_context(process(home, "--log", "--elastic", server))
        service = stack.enter_context(httpx.Client(base_url=url, timeout=120))
        follow = ["attach", _OWNERS, *on, "-c", "help", "--text", "text", "--lang-field", "lang", "--every", "1"]
        follower = stack.enter_context(start(_PATIENCE, *follow, "--store", server, "--follow"))
        wait_for(lambda: not _lacking(client), "the follower's first look")
        indexing = stack.enter_context(start(_WITHIN, "index", str(many), *on, "-c", "many"))
        wait_for(lambda: chunk_states(home).get("pending") and _count(client, "disk-many-000001"), "the first chunk")
        for running in (indexing, follower):
            running.send_signal(signal.SIGSTOP)
        for number in range(_CHANGED):
            client.update(index=_OWNERS, id=str(documents[number]["id"]), doc={"text": f"The bridge fell. ({number})"})
        client.indices.refresh(index=_OWNERS)
        before = _found(service)
        with full_disk(client, _OWNERS):
            for running in (indexing, follower):
                running.send_signal(signal.SIGCONT)
            yield fell("hits are others", before, _found(service), held=_found(service) == before)
            yield _click(service)
            yield from _refused(few, on)
            left = list(client.indices.get(index=["disk-new-*", "disk-few-000003"], ignore_unavailable=True).body)
            yield fell("indices are left behind", left, held=not left)
            for name, *more in (["calibrate"], ["rollback"], ["status"], ["delete", "--all", "--yes", "-c", "spare"]):
                yield _done([name, *at, *more])
            wait_for(lambda: "trying again" in log("attach"), "the follower's warning")
            held = indexing.poll() is None and follower.poll() is None
            yield fell("a process ended", indexing.poll(), follower.poll(), held=held)
        yield fell("index", indexing.wait(_WITHIN), log("index"), held=indexing.returncode == 0)
        wait_for(lambda: not _lacking(client), "the changed documents")
        yield fell("follow", follower.poll(), log("attach"), held=follower.poll() is None)
        yield from map(_done, (["index", str(few), *on], ["index", str(few), *on, "-c", "new"]))
        follower.send_signal(signal.SIGINT)
        follower.wait(_WITHIN)
    alone = Settings.read(home=folder / "alone")
    require_done(["index", str(many), *on[-3:], "-c", "many", "--home", str(alone.home), "-q"])
    wrong = different(contents(alone, "many"), contents(settings, "many"))
    yield fell("documents differ from an undisturbed run's", wrong[:3], held=not wrong)


def _done(command: list[str]) -> str:
    status, text = said(command)
    return fell(command, status, text, held=status == 0)


def _refused(source: Path, on: list[str]) -> Iterator[str]:
    """Commands that need disk space: each ends with a sentence about the disk, and leaves no index behind."""
    changed = write_records(sentences(60, revision=1), source.with_name("changed.jsonl"))
    nothing, high = "writes nothing, because a disk", "high watermark"
    commands = (
        (nothing, ["index", changed, *on]),
        (nothing, ["index", changed, *on, "--prune"]),
        (nothing, ["delete", "d000001", *on[:-3]]),
        (high, ["index", str(source), *on, "-c", "new"]),
        (high, ["index", str(source), *on, "--rebuild"]),
    )
    with (
        patch.object(writing, "PATIENCE", _PATIENCE),
        patch.object(own_index, "_SHARDS_WITHIN", "1s"),
        patch.object(own_index, "_YELLOW_WITHIN", "1s"),
    ):
        for sentence, command in commands:
            status, text = said(command)
            held = status == 1 and sentence in text and text.count("\n") == 1
            yield fell(command, status, text, held=held)


def _click(service: httpx.Client) -> str:
    """The call of the service that writes, into its log, is answered."""
    searched = service.post("/api/search", json={"query": "The river rose", "lang": "en", "collection": "few"}).json()
    clicked = service.post("/api/clicks", json={"search": searched["search"], "id": searched["hits"][0]["id"]})
    return fell("a click", clicked.status_code, clicked.text, held=clicked.status_code < 300)


def _found(service: httpx.Client) -> list[list[str]]:
    """The ids that searches find: of two collections, across languages and by words."""
    asked, found = {"query": "The old river", "lang": "en"}, list[list[str]]()
    for name in ("few", "help"):
        hits = service.post("/api/search", json={**asked, "collection": name}).json()["hits"]
        found.append([hit["id"] for hit in hits])
    for query in ({"cross_lingual": asked}, {"match": {"text": "the"}}):
        hits = service.post(f"/{_OWNERS}/_search", json={"query": query}).json()["hits"]["hits"]
        found.append([hit["_id"] for hit in hits])
    if not all(found):
        raise RuntimeError(f"a search finds nothing: {found}")
    return found


def _lacking(client: Elasticsearch) -> int:
    client.indices.refresh(index=_OWNERS)
    answer = client.search(index=_OWNERS, size=1000, source={"includes": ["text", "lang", "dragoman.text_hash"]})
    sources = [hit["_source"] for hit in answer["hits"]["hits"]]
    return sum(
        source.get("dragoman", {}).get("text_hash") != Document("", source["lang"], source["text"]).text_hash
        for source in sources
    )


def _count(client: Elasticsearch, index: str) -> int:
    if not client.indices.exists(index=index):
        return 0
    client.indices.refresh(index=index)
    return int(client.count(index=index)["count"])
