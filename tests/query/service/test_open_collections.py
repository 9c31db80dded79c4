"""Collections that are made anew, deleted or migrated while they are served."""

import datetime as dt
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from encoders.document import Encoder
from encoders.errors import BadInput, StoreError
from encoders.folder.model_folder import ModelFolder
from indexer.collection import collection as collections
from indexer.collection.collection import require
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import now, open_database, transaction
from indexer.stores.embedded import EmbeddedStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_summary import Summary
from query.calibration.calibration_table import CalibrationRow
from query.collections.removal import remove_collection
from query.ranking.fair_ranker import MANY
from query.ranking.query_encoder import open_query_encoder
from query.ranking.ranking_options import RankingOptions
from query.service.open_collections import OpenCollections
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions


class Home:
    """A home whose collections of one document are made anew and deleted while they are served."""

    def __init__(self, settings: Settings, encoder: ModelFolder, served: OpenCollections) -> None:
        self.settings, self.encoder, self.served = settings, encoder, served

    def make(self, text: str = "coffee", name: str = "c", method: str = "first", lang: str = "en") -> None:
        """Index a document; the language is its id."""
        source = self.settings.home.parent / "docs.jsonl"
        source.write_text(json.dumps({"id": lang, "lang": lang, "text": text}) + "\n", encoding="utf-8")
        encoder = str(self.encoder.path)
        index([str(source)], name, settings=self.settings, encoder=encoder, method=method, device="cpu")

    def remove(self, name: str = "c") -> None:
        with open_database(self.settings.database) as engine:
            remove_collection(engine, collections.require(engine, name), self.settings)

    def first_text(self, name: str = "c") -> str:
        with self.served.searcher(name) as searcher:
            (hit,) = searcher.search("coffee", lang="en")
            return hit.document.text

    def open_files(self) -> list[str]:
        """Files of the store that this process has open, also those that are removed."""
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [str(link) for link in links if self.settings.home / "store" in link.parents]


@pytest.fixture
def home(settings: Settings, word_model: ModelFolder) -> Iterator[Home]:
    with closing(OpenCollections(ServiceOptions(settings, device="cpu"), Metrics())) as served:
        yield Home(settings, word_model, served)


def test_a_collection_that_was_deleted_and_made_anew_is_searched_as_it_is_now(home: Home) -> None:
    """Though nobody searched while it was gone."""
    home.make("coffee of the first collection")
    assert home.first_text() == "coffee of the first collection"
    home.remove()
    home.make("coffee of the second collection")
    assert home.first_text() == "coffee of the second collection"


def test_a_calibration_that_is_made_after_the_clock_was_put_back_is_noticed(home: Home) -> None:
    home.make()
    with open_database(home.settings.database) as engine:
        with home.served.searcher("c") as before:
            calibration = Calibration.none(before.stored_model, before.vector_parts)
        calibration_table.keep(engine, require(engine, "c"), calibration, Summary.of(calibration, "you"))
        with home.served.searcher("c") as calibrated:
            assert calibrated is not before
            assert calibrated.calibration
        with transaction(engine) as session:
            session.execute(sa.update(CalibrationRow).values(created=now() - dt.timedelta(days=1)))
        with home.served.searcher("c") as after:
            assert after is not calibrated
        with home.served.searcher("c") as again:
            assert again is after


def test_a_deleted_collection_is_closed_though_nobody_asks_for_it(home: Home) -> None:
    home.make()
    home.first_text()
    home.remove()
    home.served.close_unused()
    assert not home.open_files()
    with pytest.raises(BadInput, match="there is no collection 'c'"):
        home.first_text()


def test_a_search_in_a_collection_that_is_deleted_meanwhile_makes_no_file_in_its_place(home: Home) -> None:
    home.make()
    with home.served.searcher("c") as searcher:
        home.remove()
        home.served.close_unused()
        with pytest.raises(StoreError, match="is gone"):
            searcher.search("coffee", lang="en")  # it opens one more connection
    assert not home.open_files()
    assert not list((home.settings.home / "store").iterdir())


def test_documents_of_a_new_language_are_found_as_soon_as_their_run_ended(home: Home) -> None:
    home.make()
    home.first_text()
    home.make(lang="de")
    with home.served.searcher("c") as searcher:
        assert {hit.lang for hit in searcher.search("coffee", lang="en")} == {"de", "en"}


@pytest.mark.parametrize("error", [StoreError("away"), RuntimeError("a defect")])
def test_a_search_that_fails_while_documents_are_counted_leaves_no_collection_open(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    home.make()
    home.first_text()
    monkeypatch.setattr("query.service.open_collections._COUNT_SECONDS", -1.0)

    def fail(_: EmbeddedStore) -> dict[str, int]:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "count", fail)
        with pytest.raises(type(error)):
            home.first_text()
    home.remove()
    home.served.close_unused()
    assert not home.open_files()


def test_a_search_is_counted_once_though_the_calibration_is_switched_meanwhile(home: Home) -> None:
    """Another thread may write the new state at any time."""

    class Switching:
        def __init__(self) -> None:
            self.asked = 0

        def __eq__(self, _: object) -> bool:
            self.asked += 1
            return self.asked % 2 == 1

        def __hash__(self) -> int:
            return 0

    home.make()
    home.first_text()
    opened = home.served._open["c"]
    opened.state = Switching()  # type: ignore[assignment]
    with home.served.searcher("c"):
        assert opened.searches == 1
    assert opened.searches == 0


def test_threads_that_need_an_encoder_at_once_load_it_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcd":
        home.make(name=name)
    loaded: list[Encoder] = []

    def slow(*arguments: Any) -> Encoder:
        time.sleep(0.2)
        loaded.append(open_query_encoder(*arguments))
        return loaded[-1]

    monkeypatch.setattr("query.service.open_collections.open_query_encoder", slow)
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(home.first_text, "abcd")) == ["coffee"] * 4
    assert len(loaded) == 1


def test_a_language_that_grows_large_has_more_candidates_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.make()
    with home.served.searcher("c") as searcher:
        options = RankingOptions(hybrid=True)
        small = searcher._ranker(options)
        assert small is searcher._ranker(options)
        searcher.languages = {"en": MANY + 1}
        grown = searcher._ranker(options)
        assert grown._stretches(10, 9)[0].candidates == 2 * small._stretches(10, 9)[0].candidates


def test_an_encoder_that_no_collection_needs_any_more_is_let_go(home: Home) -> None:
    home.make(name="a")
    home.make(name="b", method="segments")
    with home.served.searcher("a") as first, home.served.searcher("b") as second:
        pass
    home.remove("a")
    home.served.close_unused()
    assert [*home.served._encoders.values()] == [second.encoder]
    home.make(name="a")
    with home.served.searcher("a") as again:
        assert again.encoder is not first.encoder
        assert again.search("coffee", lang="en")
