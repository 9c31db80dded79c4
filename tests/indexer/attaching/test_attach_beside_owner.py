"""With security on, attaching needs the rights that the guide names and no others: on a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from encoders.document import Document
from encoders.errors import StoreError
from indexer.attaching.catch_up import catch_up
from indexer.collection.store_location import StoreLocation
from indexer.readers.formats import count_distinct, read
from indexer.readers.records.source import ReadOptions
from indexer.stores.attached.attached_address import Attachment
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import PASSWORD, ElasticServer
from trials.servers.secured import admin, credentials


@pytest.fixture(scope="module")
def server(secured: ElasticServer) -> Iterator[ElasticServer]:
    """The secured server, with two indices of somebody's."""
    with admin(secured) as client:
        for index in ("theirs", "untouched"):
            client.index(index=index, id="a", document={"body": "one", "lang": "en"}, refresh=True)
        yield secured
        client.indices.delete(index=["theirs", "untouched"])


def attach(server: ElasticServer, engine: sa.Engine, user: str, companion: str = "", index: str = "theirs") -> int:
    attachment = Attachment(server.url, index, "body", lang_field="lang", companion=companion)
    who = credentials(server, user)
    store = StoreLocation(attachment.url, "c", who).open_attached(make=True)
    try:
        encoded = catch_up(store, FakeEncoder(), engine, "c").encoded
        assert store.get(["a"])[0].text == "one"
    finally:
        store.close()
    StoreLocation(attachment.url, "c", who).drop()
    return encoded


def test_rights_on_the_index_alone_are_enough_to_attach_in_place(server: ElasticServer, engine: sa.Engine) -> None:
    assert attach(server, engine, "in_place") == 1


def test_a_companion_needs_no_right_to_write_into_theirs(server: ElasticServer, engine: sa.Engine) -> None:
    assert attach(server, engine, "beside", companion="ours") == 1


def test_a_missing_right_is_named_before_anything_is_written(server: ElasticServer, engine: sa.Engine) -> None:
    with pytest.raises(StoreError, match=r"no right to index, manage on untouched; attaching needs .* or --companion"):
        attach(server, engine, "reader", index="untouched")
    with admin(server) as client:
        mapping = client.indices.get_mapping(index="untouched")["untouched"]["mappings"]["properties"]
    assert "dragoman" not in mapping


def test_wrong_credentials_are_one_sentence_without_them(server: ElasticServer, engine: sa.Engine) -> None:
    with pytest.raises(StoreError, match="refused the credentials") as refused:
        attach(server, engine, "nobody")
    assert PASSWORD not in str(refused.value)


def test_an_index_is_read_with_the_credentials_of_the_environment(
    server: ElasticServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And with no more rights than the guide names."""
    monkeypatch.setenv("DRAGOMAN_ELASTIC_USER", "source")
    monkeypatch.setenv("DRAGOMAN_ELASTIC_PASSWORD", PASSWORD)
    monkeypatch.setenv("DRAGOMAN_ELASTIC_CA", str(server.ca))
    options = ReadOptions(fields={"text": "body"})
    readings = list(read(f"elastic:{server.url}/theirs", options))
    assert [one.doc_id for one in readings if isinstance(one, Document)] == ["a"]
    assert count_distinct(f"elastic:{server.url}/theirs", options) == 1
    monkeypatch.setenv("DRAGOMAN_ELASTIC_USER", "reader")
    with pytest.raises(StoreError, match=r"does not allow it .*indices:monitor/stats"):
        read(f"elastic:{server.url}/theirs", options)
