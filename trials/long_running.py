"""What is used often in one process uses no more of the machine after a while than before."""

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import httpx

from indexer.collection.settings import Settings
from indexer.index_sources import index
from query.ranking.searcher import Searcher
from trials.command import fell
from trials.documents import sentences, write_records
from trials.process_figures import BOUNDS, DESCRIPTORS, MEMORY, THREADS, Watched, sample
from trials.servers.service import process
from trials.soak import documents_of, train_encoders

_MEMORY_OF_SEARCHES = 30.0
"""MB that 3,000 further searches may take. The service keeps 4,096 vectors of queries, 6 MB of the default encoder."""


def alone(attack: Callable[..., Iterator[str]], *arguments: object) -> list[str]:
    """The outcomes of an attack in a process of its own, in which nothing else takes memory, files or threads."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process_of_its_own:
        return process_of_its_own.submit(_outcomes, attack, *arguments).result()


def _outcomes(attack: Callable[..., Iterator[str]], *arguments: object) -> list[str]:
    return list(attack(*arguments))


def searches(home: Path, further: int) -> Iterator[str]:
    """Search the collection ``demo`` in this process and by a service: ``further`` searches take little memory."""
    queries = [(str(record["lang"]), str(record["text"])) for record in sentences(further + further // 3)]
    begin, before = further // 3, 0.0
    with Searcher.open("demo", Settings.read(home=home), device="cpu") as searcher:
        for number, (lang, text) in enumerate(queries):
            if number == begin:
                before = _of_this_process()
            searcher.search(text, lang=lang)
    yield _not_above(f"{further} searches in a process", before, _of_this_process())
    with process(home) as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        for number, (lang, text) in enumerate(queries):
            if number == begin:
                before = sample(service.pid)[MEMORY]
            question = {"query": text, "lang": lang, "collection": "demo"}
            client.post("/api/search", json=question).raise_for_status()
        yield _not_above(f"{further} searches by a service", before, sample(service.pid)[MEMORY])


def _of_this_process() -> float:
    gc.collect()
    return sample(os.getpid())[MEMORY]


def _not_above(what: str, before: float, after: float) -> str:
    return fell(what, f"{before:,.0f} MB, then {after:,.0f} MB", held=after <= before + _MEMORY_OF_SEARCHES)


def many_collections(folder: Path, collections: int) -> Iterator[str]:
    encoder, _ = train_encoders(folder)
    settings, watched = Settings.read(home=folder / "home"), Watched()
    for number in range(collections):
        records = documents_of({str(doc): f"{number}" for doc in range(20)})
        index(
            [write_records(records, folder / "docs.jsonl")],
            f"c{number}",
            settings=settings,
            encoder=str(encoder),
            device="cpu",
        )
        with Searcher.open(f"c{number}", settings, device="cpu") as searcher:
            held = len(searcher.search("en001", lang="en", k=50)) == 20
            yield "" if held else f"collection {number} has not all its documents"
        gc.collect()
        watched.samples.append(sample(os.getpid()))
    yield from watched.grown({**BOUNDS, DESCRIPTORS: 2, THREADS: 1})
