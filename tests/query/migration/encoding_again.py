"""What tests of encoding the demo again ask, whoever encodes."""

from contextlib import closing
from typing import Any

from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from query.calibration import calibration_table
from query.query_log.query_log_tables import SearchRow
from query.ranking.search_hits import Hits
from query.ranking.searcher import Searcher

DOCUMENTS = 235


def command(encoder: str) -> list[str]:
    return ["migrate", "-c", "demo", "--encoder", encoder, "--method", "first", "--re-encode", "--device", "cpu", "-q"]


def first(settings: Settings) -> list[str]:
    with Searcher.open("demo", settings, device="cpu") as searcher:
        return [hit.doc_id for hit in searcher.search("Bienen im Garten", lang="de", k=10)]


def row(settings: Settings) -> Collection:
    with open_database(settings.database) as engine:
        return collections.require(engine, "demo")


def vectors(settings: Settings) -> dict[str, bytes]:
    """What the model of the collection's row made of each document."""
    found = row(settings)
    with closing(found.open_store(settings)) as store:
        return {one.document.doc_id: one.vector.tobytes() for page in store.scan(found.model) for one in page}


def log_queries(settings: Settings, *queries: str) -> None:
    about: dict[str, Any] = {"created": row(settings).created, "collection": "demo", "lang": "de", "space": ""}
    with open_database(settings.database) as engine, transaction(engine) as session:
        for number, query in enumerate(queries):
            session.add(SearchRow(id=str(number), query=query, settings={}, hits=[], took=1, **about))


def encoded_again(settings: Settings, model: str) -> int:
    """How many documents have a vector of a model."""
    with closing(row(settings).open_store(settings)) as store:
        return sum(store.count(model).values()) if model in store.models() else 0


def migrated_to(settings: Settings) -> str:
    """The model of the encoder that the collection has migrated to; empty after ``rollback``."""
    with open_database(settings.database) as engine:
        stored = calibration_table.active(engine, collections.require(engine, "demo"))
    assert stored is not None
    return stored.summary.migrated_to


def found_through_the_map(settings: Settings) -> Hits:
    """All documents, found as long as the new field is not whole: by the old one, the query going through the map."""
    with Searcher.open("demo", settings, device="cpu") as searcher:
        assert searcher.calibration is not None
        query_encoder = searcher.calibration.space.query_encoder
        assert query_encoder is not None
        assert searcher.spec.model == query_encoder.model != searcher.stored_model == row(settings).model
        hits = searcher.search("Bienen im Garten", lang="de", k=400, explain=True)
        assert sorted(hit.doc_id for hit in hits) == sorted(searcher.store.ids())
    assert len(hits) == DOCUMENTS
    assert all(-1.0001 <= hit.cosine <= 1.0001 and hit.passage for hit in hits)
    return hits
