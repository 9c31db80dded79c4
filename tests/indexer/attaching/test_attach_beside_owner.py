"""Beside an owner on a real server: attaching needs the guide's rights and no others, and their writes always win.

``python -m benchmarks.attack --only "an owner's writes"`` is the longer trial.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from encoders.document import Document
from encoders.errors import StoreError
from encoders.folder.model_folder import ModelFolder
from indexer.attaching.catch_up import catch_up
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.readers.formats import count_distinct, read
from indexer.readers.records.source import ReadOptions
from indexer.stores.attached.attached_address import Attachment
from trials.attach_race import race, race_with_follow
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


def test_rights_on_the_index_or_to_read_it_are_enough(server: ElasticServer, engine: sa.Engine) -> None:
    assert (attach(server, engine, "in_place"), attach(server, engine, "beside", companion="ours")) == (1, 1)


def test_missing_rights_are_said_before_anything_is_written(server: ElasticServer, engine: sa.Engine) -> None:
    with pytest.raises(StoreError, match=r"no right to index, manage on untouched; attaching needs .* or --companion"):
        attach(server, engine, "reader", index="untouched")
    with admin(server) as client:
        mapping = client.indices.get_mapping(index="untouched")["untouched"]["mappings"]["properties"]
    assert "dragoman" not in mapping


def test_an_index_is_read_with_the_rights_of_the_guide(server: ElasticServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("USER", "source"), ("PASSWORD", PASSWORD), ("CA", str(server.ca))):
        monkeypatch.setenv(f"DRAGOMAN_ELASTIC_{name}", value)
    place, options = f"elastic:{server.url}/theirs", ReadOptions(fields={"text": "body"})
    assert [one.doc_id for one in read(place, options) if isinstance(one, Document)] == ["a"]
    assert count_distinct(place, options) == 1
    monkeypatch.setenv("DRAGOMAN_ELASTIC_USER", "reader")
    with pytest.raises(StoreError, match=r"does not allow it .*indices:monitor/stats"):
        read(place, options)


@pytest.mark.parametrize(
    "companion", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in place", "companion"]
)
def test_after_a_race_every_text_has_its_own_vector(elastic_url: str, tmp_path: Path, *, companion: bool) -> None:
    parts, database = urlsplit(elastic_url), f"sqlite:///{tmp_path / 'race.db'}"
    place = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    outcome = race(*place, database, 250, companion=companion)
    assert (outcome.writes, outcome.wrong) == (500, [])
    assert outcome.documents > 50


@pytest.mark.parametrize(
    ("per_second", "companion"),
    [(30, False), pytest.param(30, True, marks=pytest.mark.long), pytest.param(4, False, marks=pytest.mark.long)],
    ids=["30 a second", "30 a second, companion", "4 a second"],
)
@pytest.mark.long
def test_an_owner_who_writes_while_it_is_followed_and_calibrated_ends_nothing(
    elastic_url: str, settings: Settings, small: ModelFolder, interruptible: None, *, per_second: float, companion: bool
) -> None:
    parts = urlsplit(elastic_url)
    server, prefix = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    outcome = race_with_follow(
        server, settings, prefix, seconds=10, per_second=per_second, companion=companion, encoder=str(small.path)
    )
    assert outcome.writes / per_second in range(10, 200, 2)  # two seconds more at a time until one is calibrated
    assert outcome.wrong == []
    assert outcome.calibrations > 0
