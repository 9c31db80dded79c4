"""What tests of encoding the demo again ask, whoever encodes."""

from __future__ import annotations

from typing import Any

from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import connect
from query.collections.status import describe
from query.ranking.searcher import Searcher


def command(encoder: str) -> list[str]:
    return ["migrate", "-c", "demo", "--encoder", encoder, "--method", "first", "--re-encode", "--device", "cpu", "-q"]


SAMPLE = 40
"""Documents of the sample: few, so that most of the demo's 235 come after it."""


def first(settings: Settings) -> list[str]:
    with Searcher.open("demo", settings, device="cpu") as searcher:
        return [hit.doc_id for hit in searcher.search("Bienen im Garten", lang="de", k=10)]


def row(settings: Settings) -> Collection:
    engine = connect(settings.database)
    found = collections.require(engine, "demo")
    engine.dispose()
    return found


def vectors(settings: Settings) -> dict[str, bytes]:
    """What the model of the collection's row made of each document."""
    found = row(settings)
    store = found.open_store(settings)
    held = {one.document.doc_id: one.vector.tobytes() for page in store.scan(found.model) for one in page}
    store.close()
    return held


def status(settings: Settings) -> dict[str, Any]:
    engine = connect(settings.database)
    described = describe(engine, collections.require(engine, "demo"), settings)
    engine.dispose()
    return described
