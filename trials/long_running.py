"""A service is used as in a week, and what is used often in one process uses no more of the machine than before.

Owners give commands by other processes; callers search all the time. What a search may find is known at any time, to
the document and its text, so every answer is checked.
"""

import gc
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx

from indexer.collection.settings import Settings
from indexer.index_sources import index
from query.ranking.searcher import Searcher
from trials.command import fell, require_done, said
from trials.documents import sentences, write_records
from trials.servers.service import process

MEMORY, OWN_MEMORY, DESCRIPTORS, THREADS = "memory in MB", "MB without mapped files", "descriptors", "threads"
BOUNDS: Mapping[str, float] = {MEMORY: 24.0, DESCRIPTORS: 2.0, THREADS: 1.0}
"""How much more than before a process may use: what leaks at each change of a collection passes these bounds soon."""
LANGUAGES = ("de", "en", "fr")
_WORDS = {lang: [f"{lang}{number:03d}" for number in range(80)] for lang in LANGUAGES}
_DOCUMENTS = 75  # documents of a new collection: a migration takes a sample of at least 50
_CALLERS = 3
_PAUSE = 0.02  # seconds between a caller's requests, so that the owners' commands get their share of two cores
_PLACES_SECONDS = 15.0
"""Seconds until the Elasticsearch-shaped endpoint knows of a new collection: it reads the list every two seconds, and
shares two cores with commands."""

_READS = {
    **{path: {200} for path in ("/", "/openapi.json", "/metrics", "/api/health", "/api/collections")},
    "/api/ready": {200, 503},
    "/api/documents/{}?collection=file-0": {200, 404, 409, 503},
    "/nothing/_count": {403, 404},
}
"""Paths that callers read, and what the answers may be."""

Documents = dict[str, str]  # titles of documents by id; a title names its document's life and revision


class Known(NamedTuple):
    """What a search of a collection may find from a time on, and whether the collection may exist or be missing."""

    must: frozenset[tuple[str, str]] = frozenset()
    may: frozenset[tuple[str, str]] = frozenset()
    exists: bool = False
    missing: bool = True
    since: float = 0.0


@dataclass
class Collection:
    """A collection and what is known of it, in the order of time."""

    name: str
    known: list[Known] = field(default_factory=lambda: [Known()])
    documents: Documents = field(default_factory=dict)

    def change(self, documents: Documents, *, missing: bool = False) -> None:
        """A change of the documents begins; ``finish`` ends it."""
        before, after = self.known[-1], frozenset(documents.items())
        missing = missing or before.missing
        self.known.append(Known(before.must & after, before.may | after, True, missing, time.monotonic()))

    def finish(self, documents: Documents, *, exists: bool = True) -> None:
        self.documents, items = documents, frozenset(documents.items())
        self.known.append(Known(items, items, exists, not exists, time.monotonic()))

    def between(self, begun: float) -> Known:
        known = list(self.known)
        states = known[max(number for number, state in enumerate(known) if state.since <= begun) :]
        must, may, exists, missing, _ = zip(*states, strict=True)
        return Known(frozenset.intersection(*must), frozenset.union(*may), any(exists), any(missing))


class _TimeIsOver(Exception):
    """No command is given any more."""


@dataclass
class Soak:
    url: str
    home: Path
    encoders: tuple[Path, Path]
    deadline: float
    commands: Executor
    collections: list[Collection] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return time.monotonic() > self.deadline or any(self.outcomes)

    def check(self, kind: str, what: object, *, held: bool) -> None:
        self.outcomes.append(fell(kind, what, held=held))

    def new_collection(self, name: str) -> Collection:
        """A collection that callers search from now on; of those with other names the oldest is forgotten."""
        for collection in self.collections:
            if collection.name == name:
                return collection
        collection = Collection(name)
        self.collections = [*self.collections, collection][-9:]
        return collection

    def command(self, *arguments: str) -> None:
        if self.over:
            raise _TimeIsOver
        status, sentence = self.commands.submit(said, [*arguments, "--home", str(self.home), "-q"]).result()
        self.check(f"dragoman {arguments[0]}", f"{arguments}: {status}, {sentence[-300:]}", held=status == 0)

    def search(self, client: httpx.Client, collection: Collection, draw: random.Random, *, elastic: bool) -> None:
        """Search a collection for everything it has, by /api or by Elasticsearch's path, and check the answer."""
        lang = draw.choice(LANGUAGES)
        query = {"query": " ".join(draw.choices(_WORDS[lang][:20], k=2)), "lang": lang}
        begun, kind = time.monotonic(), f"searches by {'Elasticsearch' if elastic else '/api'}"
        if elastic:
            body = {"query": {"cross_lingual": query}, "size": 500}
            answer = client.post(f"/{collection.name}/_search", json=body)
        else:
            answer = client.post("/api/search", json={**query, "collection": collection.name, "k": 500})
        known = collection.between(begun)
        if answer.status_code != 200:
            late = elastic and collection.between(begun - _PLACES_SECONDS).missing
            by_places = late and "no collection is served" in answer.text
            gone = answer.status_code == 404 and (known.missing or by_places) and "no collection" in answer.text
            changing = known.missing and known.exists and answer.status_code in {400, 404, 409, 503}
            self.check(kind, (collection.name, known.exists, answer.status_code, answer.text), held=gone or changing)
            return
        found: Any = answer.json()["hits"]
        if elastic:
            found = [{"id": hit["_id"], **hit["_source"]} for hit in found["hits"]]
        hits = {(hit["id"], hit["title"]) for hit in found}
        lost, wrong = known.must - hits, hits - known.may
        what = (collection.name, "lost", sorted(lost)[:3], len(lost), "wrong", sorted(wrong)[:3], len(wrong))
        self.check(kind, what, held=known.exists and not lost and not wrong)


def documents_of(titles: Documents) -> list[dict[str, str]]:
    records = []
    for doc_id, title in titles.items():
        draw, lang = random.Random(f"{doc_id} {title}"), LANGUAGES[int(doc_id) % len(LANGUAGES)]
        records.append({"id": doc_id, "lang": lang, "title": title, "text": " ".join(draw.choices(_WORDS[lang], k=12))})
    return records


def changed(titles: Documents, stamp: str) -> Documents:
    draw = random.Random(stamp)
    ids = sorted(titles)
    deleted = set(draw.sample(ids, 5))
    replaced = dict.fromkeys(draw.sample(ids, 10), stamp)
    added = {str(1000 + draw.randrange(1000)): stamp for _ in range(8)}
    return {doc_id: title for doc_id, title in {**titles, **replaced, **added}.items() if doc_id not in deleted}


class Owner:
    """Makes, changes and deletes collections, one after the other; each name is used twice."""

    def __init__(self, soak: Soak, kind: str, options: tuple[str, ...] = ()) -> None:
        self.soak, self.kind, self.options = soak, kind, options
        self.folder = soak.home.parent / kind
        self.folder.mkdir()
        self.collection = Collection(kind)

    def run(self) -> None:
        with suppress(_TimeIsOver):
            for number in count():
                self.collection = self.soak.new_collection(f"{self.kind}-{number // 2}")
                self.live(number)

    def live(self, number: int) -> None:
        wide = ("--encoder", str(self.soak.encoders[1]))
        documents = {str(doc): f"{number}.0" for doc in range(_DOCUMENTS)}
        self.index(documents, "--encoder", str(self.soak.encoders[0]), *self.options, new=True)
        for revision in range(1, 3):
            self.index(changed(self.collection.documents, f"{number}.{revision}"), "--prune")
        first, left = sorted(self.collection.documents)[:4], dict(self.collection.documents)
        for doc_id in first:
            del left[doc_id]
        self.to(left, "delete", *first)
        before = self.collection.documents
        self.to(before, "calibrate", "--balance", "0.5")
        self.index(changed(before, f"{number}.3"), "--rebuild", *wide)
        self.to(before, "rollback")
        self.to(before, "migrate", *wide, "--anyway", "--re-encode")
        self.index(changed(before, f"{number}.4"), "--prune")
        self.delete()

    def index(self, after: Documents, *options: str, new: bool = False) -> None:
        source = write_records(documents_of(after), self.folder / "docs.jsonl")
        self.to(after, "index", source, *options, new=new)

    def to(self, after: Documents, *arguments: str, new: bool = False) -> None:
        self.collection.change(after, missing=new)
        self.soak.command(*arguments, "-c", self.collection.name)
        self.collection.finish(after)
        self.found()

    def delete(self) -> None:
        self.collection.change({}, missing=True)
        self.soak.command("delete", "--all", "--yes", "-c", self.collection.name)
        self.collection.finish({}, exists=False)
        if not self.collection.name.endswith("1"):  # else perhaps nobody asks before it is made anew
            self.found()

    def found(self) -> None:
        with httpx.Client(base_url=self.soak.url, timeout=180) as client:
            self.soak.search(client, self.collection, random.Random(), elastic=False)


def _call(soak: Soak, seed: int) -> None:
    """A caller: mostly searches, and reads of all kinds."""
    draw = random.Random(seed)
    with httpx.Client(base_url=soak.url, timeout=180) as client:
        while not soak.over:
            time.sleep(_PAUSE)
            kind = draw.random()
            if kind < 0.8 and soak.collections:
                soak.search(client, draw.choice(soak.collections), draw, elastic=kind < 0.3)
                continue
            path, statuses = draw.choice([*_READS.items()])
            answer = client.get(path.format(draw.randrange(90)))
            what = (path, answer.status_code, answer.text[:300])
            soak.check("reads", what, held=answer.status_code in statuses)


def train_encoders(folder: Path) -> tuple[Path, Path]:
    titles = {str(number): f"t{number}" for number in range(300)}
    records = [{**record, "concept": f"c{int(record['id']) // 3}"} for record in documents_of(titles)]
    source = write_records(records, folder / "concepts.jsonl")
    encoders = folder / "narrow", folder / "wide"
    for encoder, dimensions in zip(encoders, ("16", "24"), strict=True):
        require_done(["train", "cr5", source, "-o", str(encoder), "--dimensions", dimensions, "--ridge", "1", "-q"])
    return encoders


def soak(folder: Path, place: str, seconds: float) -> Iterator[str]:
    """Use a service for so many seconds, after which no command is given; a try is an answer, or a change.

    The folder is empty; ``place`` is the URL of a place for stores in an Elasticsearch without security: a server and a
    prefix.
    """
    encoders, home = train_encoders(folder), folder / "home"
    said(["status", "--home", str(home)])
    options = ("--log", "--elastic", place.rpartition("/")[0], "--seconds", "120")
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as commands, process(home, *options) as (service, url):
        shared = Soak(url, home, encoders, time.monotonic() + seconds, commands)
        owners = [Owner(shared, "file"), Owner(shared, "server", ("--store", f"{place}?replicas=0"))]
        with ThreadPoolExecutor(16) as threads:
            futures = [threads.submit(owner.run) for owner in owners]
            futures += [threads.submit(_call, shared, number) for number in range(_CALLERS)]
            for future in futures:
                future.result()
        yield from [*shared.outcomes, fell("the service ended", service.poll(), held=service.poll() is None)]


def sample(pid: int) -> Mapping[str, float]:
    """What a process uses now, read from ``/proc`` (Linux)."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    memory, own_memory = (int(status[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))
    descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    uses = {MEMORY: memory, OWN_MEMORY: own_memory, DESCRIPTORS: descriptors, THREADS: int(status["Threads"])}
    return {name: float(figure) for name, figure in uses.items()}


def grown(samples: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """One text a figure: empty if the last quarter's median is not above the second quarter's by its bound.

    The first quarter is left out: pools and caches fill meanwhile.
    """
    quarter = len(samples) // 4
    for name, bound in BOUNDS.items():
        before, after = (
            median(figures[name] for figures in part) for part in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        yield (
            "" if after <= before + bound else f"{name}: {before:,.1f} in the second quarter, {after:,.1f} in the last"
        )


_MEMORY_OF_SEARCHES = 30.0
"""MB that 3,000 further searches may take: vectors of queries are 6. Pages of the mapped model are left out."""


def alone(attack: Callable[..., Iterator[str]], *arguments: object) -> list[str]:
    """The outcomes of an attack in a process of its own, in which nothing else takes memory, files or threads."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process_of_its_own:
        return process_of_its_own.submit(_outcomes, attack, *arguments).result()


def _outcomes(attack: Callable[..., Iterator[str]], *arguments: object) -> list[str]:
    return list(attack(*arguments))


def searches(home: Path, further: int) -> Iterator[str]:
    """Search the collection ``demo`` in this process and by a service: ``further`` searches take little memory."""
    queries = [(str(page["lang"]), str(page["text"])) for page in sentences(further + further // 3)]

    def memory_kept(who: str, pid: int, search: Callable[[str, str], object]) -> str:
        before = 0.0
        for number, (lang, text) in enumerate(queries):
            if number == further // 3:
                gc.collect()
                before = sample(pid)[OWN_MEMORY]
            search(lang, text)
        gc.collect()
        after = sample(pid)[OWN_MEMORY]
        return fell(who, f"{before:,.0f} MB, then {after:,.0f} MB", held=after <= before + _MEMORY_OF_SEARCHES)

    with Searcher.open("demo", Settings.read(home=home), device="cpu") as searcher:
        yield memory_kept("a process", os.getpid(), lambda lang, text: searcher.search(text, lang=lang))
    with process(home) as (service, url), httpx.Client(base_url=url, timeout=60) as client:

        def search(lang: str, text: str) -> None:
            question = {"query": text, "lang": lang, "collection": "demo"}
            client.post("/api/search", json=question).raise_for_status()

        yield memory_kept("a service", service.pid, search)


def many_collections(folder: Path, collections: int) -> Iterator[str]:
    encoder, _ = train_encoders(folder)
    settings, samples = Settings.read(home=folder / "home"), list[Mapping[str, float]]()
    for number in range(collections):
        source = write_records(documents_of({str(doc): f"{number}" for doc in range(20)}), folder / "docs.jsonl")
        index([source], f"c{number}", settings=settings, encoder=str(encoder), device="cpu")
        with Searcher.open(f"c{number}", settings, device="cpu") as searcher:
            held = len(searcher.search("en001", lang="en", k=50)) == 20
            yield "" if held else f"collection {number} has not all its documents"
        gc.collect()
        samples.append(sample(os.getpid()))
    yield from grown(samples)
