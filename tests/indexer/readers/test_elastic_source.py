"""An Elasticsearch index is a source like any other: on a real server."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

from encoders.document import Document
from encoders.errors import BadInput, StoreError
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing import pipeline
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger.findings import findings_of
from indexer.ledger.index_runs import runs
from indexer.readers import elastic_source
from indexer.readers.formats import count_distinct, fingerprint, read
from indexer.readers.records.source import ReadOptions, Refusal
from tests.indexer.attaching.owner import Owner, source
from trials.fake_encoder import FakeEncoder


class Place(Owner):
    """An index with documents in it, and what reads them."""

    options = ReadOptions(fields={"text": "content.body", "title": "headline"})

    @property
    def source(self) -> str:
        return f"elastic:{self.server}/{self.index}"

    def fill(self, count: int, shards: int = 2) -> None:
        self.make({}, number_of_shards=shards)
        self.write_texts({f"d{at:04d}": f"text {at}" for at in range(count)})

    def write_texts(self, texts: dict[str, str]) -> None:
        bodies = {doc_id: {"body": text, "by": "somebody"} for doc_id, text in texts.items()}
        self.write_all({doc_id: source("it", year=1994, content=body) for doc_id, body in bodies.items()})

    def documents(self) -> list[Document]:
        return [one for one in read(self.source, self.options) if isinstance(one, Document)]


@pytest.fixture
def place(elastic_url: str, engine: sa.Engine) -> Iterator[Place]:
    with closing(Place(elastic_url, engine, companion=False)) as made:
        yield made


def test_every_document_is_read_with_its_fields_and_what_cannot_be_is_refused_with_its_id(place: Place) -> None:
    place.fill(500)
    documents = {document.doc_id: document for document in place.documents()}
    assert len(documents) == count_distinct(place.source, place.options) == 500
    first = documents["d0007"]
    assert (first.title, first.text, first.lang) == ("title of it", "text 7", "en")
    assert dict(first.fields) == {"content": {"by": "somebody"}, "year": 1994}
    place.client.index(index=place.index, id="bad", document={"headline": 7}, refresh=True)
    refusals = [one for one in read(place.source, place.options) if isinstance(one, Refusal)]
    assert [(one.place, one.doc_id) for one in refusals] == [(f"elastic:{place.index}/bad", "bad")]


def test_an_alias_that_shows_a_part_of_an_index_is_refused_at_once(place: Place) -> None:
    place.fill(3)
    alias = f"{place.index}-alias"
    place.client.indices.put_alias(index=place.index, name=alias, filter={"term": {"year": 1994}})
    assert len(place.documents()) == 3
    for name in (alias, f"{place.index}*"):
        with pytest.raises(BadInput, match=rf"{alias} is an alias with a filter.*name the index itself"):
            list(read(f"elastic:{place.server}/{name}", place.options))


@pytest.mark.parametrize(
    "without_texts",
    [{"settings": {"index.mapping.source.mode": "disabled"}}, {"mappings": {"_source": {"enabled": False}}}],
)
def test_an_index_that_keeps_no_texts_is_refused_at_once(place: Place, without_texts: dict[str, Any]) -> None:
    place.client.indices.create(index=place.index, **without_texts)
    place.write_texts({"a": "text"})
    with pytest.raises(BadInput, match="keeps no _source, so its texts can't be read"):
        read(place.source, place.options)


def test_it_is_the_same_source_until_something_is_written(place: Place) -> None:
    place.fill(10)
    before = fingerprint(place.source, place.options)
    assert fingerprint(place.source, place.options) == before
    place.write_texts({"d0001": "another"})
    changed = fingerprint(place.source, place.options)
    assert changed != before
    place.client.delete(index=place.index, id="d0001")
    assert fingerprint(place.source, place.options) not in {before, changed}


def test_a_lost_point_in_time_is_replaced_and_nothing_is_missed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    points: set[str] = set()
    searched = elastic_source._View._searched

    def remembering(view: elastic_source._View, body: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = searched(view, body)
        points.add(view._id)
        return answer

    monkeypatch.setattr(elastic_source._View, "_searched", remembering)

    place.fill(900, shards=1)
    readings = read(place.source, place.options)
    met = [next(readings) for _ in range(300)]
    for point in points:
        assert place.client.close_point_in_time(id=point)["num_freed"] == 1
    points.clear()
    met += list(readings)
    assert sorted(one.doc_id for one in met if isinstance(one, Document)) == [f"d{at:04d}" for at in range(900)]
    assert points, "no point in time took the place of the one that was lost"


def index(place: Place, settings: Settings, engine: sa.Engine, encoder: FakeEncoder) -> pipeline.IndexReport:
    with closing(StoreLocation(settings.store, "c").open()) as store:
        return pipeline.index([place.source], place.options, encoder, store, engine, "c")


def interrupted(place: Place, settings: Settings, engine: sa.Engine, documents: int) -> FakeEncoder:
    """An encoder whose first run broke at a document."""
    encoder = FakeEncoder()
    encoder.broken_at = documents
    with pytest.raises(RuntimeError, match="the power went out"):
        index(place, settings, engine, encoder)
    encoder.broken_at = -1
    return encoder


def test_an_interrupted_run_goes_on_over_the_same_index(place: Place, settings: Settings, engine: sa.Engine) -> None:
    place.fill(500)
    encoder = interrupted(place, settings, engine, 200)
    before, report = set(encoder.encoded), index(place, settings, engine, encoder)
    assert (report.resumed, report.encoded) == (True, 500)
    assert set(encoder.encoded) >= before
    assert len(encoder.encoded) < 500 + 4 * CHUNK_DOCUMENTS
    assert not findings_of(engine, [run.id for run in runs(engine, "c")])
    place.write_texts({"d0003": "another text", "new": "a new one"})
    encoder.encoded.clear()
    report = index(place, settings, engine, encoder)
    assert (report.resumed, report.unchanged, sorted(encoder.encoded)) == (False, 499, ["d0003", "new"])


def test_a_source_that_changes_between_two_looks_is_not_taken_for_the_planned_one(
    place: Place, settings: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk's place says nothing of a source in which documents have moved: its digest does."""
    place.fill(200, shards=1)
    encoder = interrupted(place, settings, engine, 128)
    unchanged = elastic_source.index_fingerprint(place.source)
    place.write_texts({"d0003": "moved to the end"})
    monkeypatch.setattr(elastic_source, "index_fingerprint", lambda _: unchanged)
    with pytest.raises(StoreError, match="its sources give other chunks than when it began"):
        index(place, settings, engine, encoder)
    monkeypatch.undo()
    assert index(place, settings, engine, encoder).encoded == 200 - 64 * 2 + 1


def test_a_source_says_its_server_or_the_environment_does(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for place_of, reason in (
        ("elastic:news", "set DRAGOMAN_ELASTIC_URL"),
        ("elastic:https://host:9200/", "names no index"),
        ("elastic:https://user:secret@host:9200/news", "leave the credentials out of the source"),
    ):
        with pytest.raises(BadInput, match=reason) as refused:
            elastic_source.with_server(place_of)
        assert "secret" not in str(refused.value)
    monkeypatch.setenv("DRAGOMAN_ELASTIC_URL", place.server.replace("://", "://user:secret@"))
    assert elastic_source.with_server("elastic:news") == f"elastic:{place.server}/news"
    assert elastic_source.with_server(place.source) == place.source
    with pytest.raises(BadInput, match="has no index"):
        read(f"{place.source}-nowhere", place.options)
