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


@pytest.fixture
def served(settings: Settings) -> Iterator[OpenCollections]:
    with closing(OpenCollections(ServiceOptions(settings, device="cpu"), Metrics())) as opened:
        yield opened


def make(settings: Settings, encoder: ModelFolder, text: str, name: str = "c", method: str = "first") -> None:
    source = settings.home.parent / "docs.jsonl"
    source.write_text(json.dumps({"id": "a", "lang": "en", "text": text}) + "\n", encoding="utf-8")
    index([str(source)], name, settings=settings, encoder=str(encoder.path), method=method, device="cpu")


def remove(settings: Settings, name: str = "c") -> None:
    with open_database(settings.database) as engine:
        remove_collection(engine, collections.require(engine, name), settings)


def first_text(served: OpenCollections, name: str = "c") -> str:
    with served.searcher(name) as searcher:
        (hit,) = searcher.search("coffee", lang="en")
        return hit.document.text


def open_files(folder: Path) -> list[str]:
    """Files of a folder that this process has open, also those that are removed."""
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [str(link) for link in links if folder in link.parents]


def test_a_collection_that_was_deleted_and_made_anew_is_searched_as_it_is_now(
    served: OpenCollections, settings: Settings, word_model: ModelFolder
) -> None:
    """Though nobody searched while it was gone."""
    make(settings, word_model, "coffee of the first collection")
    assert first_text(served) == "coffee of the first collection"
    remove(settings)
    make(settings, word_model, "coffee of the second collection")
    assert first_text(served) == "coffee of the second collection"


def test_a_calibration_that_is_made_after_the_clock_was_put_back_is_noticed(
    served: OpenCollections, settings: Settings, word_model: ModelFolder
) -> None:
    make(settings, word_model, "coffee")
    with open_database(settings.database) as engine:
        with served.searcher("c") as before:
            calibration = Calibration.none(before.stored_model, before.vector_parts)
        calibration_table.keep(engine, require(engine, "c"), calibration, Summary.of(calibration, "you"))
        with served.searcher("c") as calibrated:
            assert calibrated is not before
            assert calibrated.calibration
        with transaction(engine) as session:
            session.execute(sa.update(CalibrationRow).values(created=now() - dt.timedelta(days=1)))
        with served.searcher("c") as after:
            assert after is not calibrated
        with served.searcher("c") as again:
            assert again is after


def test_a_deleted_collection_is_closed_though_nobody_asks_for_it(
    served: OpenCollections, settings: Settings, word_model: ModelFolder
) -> None:
    make(settings, word_model, "coffee")
    first_text(served)
    remove(settings)
    served.close_unused()
    assert not open_files(settings.home / "store")
    with pytest.raises(BadInput, match="there is no collection 'c'"):
        first_text(served)


def test_a_search_in_a_collection_that_is_deleted_meanwhile_makes_no_file_in_its_place(
    served: OpenCollections, settings: Settings, word_model: ModelFolder
) -> None:
    make(settings, word_model, "coffee")
    with served.searcher("c") as searcher:
        remove(settings)
        served.close_unused()
        with pytest.raises(StoreError, match="is gone"):
            searcher.search("coffee", lang="en")  # it opens one more connection
    assert not open_files(settings.home / "store")
    assert not list((settings.home / "store").iterdir())


def test_documents_of_a_new_language_are_found_as_soon_as_their_run_ended(
    served: OpenCollections, settings: Settings, word_model: ModelFolder
) -> None:
    make(settings, word_model, "coffee")
    first_text(served)
    source = settings.home.parent / "german.jsonl"
    source.write_text(json.dumps({"id": "b", "lang": "de", "text": "coffee"}) + "\n", encoding="utf-8")
    index([str(source)], "c", settings=settings, encoder=str(word_model.path), method="first", device="cpu")
    with served.searcher("c") as searcher:
        assert {hit.lang for hit in searcher.search("coffee", lang="en")} == {"de", "en"}


@pytest.mark.parametrize("error", [StoreError("away"), RuntimeError("a defect")])
def test_a_search_that_fails_while_documents_are_counted_leaves_no_collection_open(
    served: OpenCollections,
    settings: Settings,
    word_model: ModelFolder,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    make(settings, word_model, "coffee")
    first_text(served)
    monkeypatch.setattr("query.service.open_collections._COUNT_SECONDS", -1.0)

    def fail(_: EmbeddedStore) -> dict[str, int]:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "count", fail)
        with pytest.raises(type(error)):
            first_text(served)
    remove(settings)
    served.close_unused()
    assert not open_files(settings.home / "store")


def test_a_search_is_counted_once_though_the_calibration_is_switched_meanwhile(
    served: OpenCollections, settings: Settings, word_model: ModelFolder
) -> None:
    """Another thread may write the new state at any time."""

    class Switching:
        def __init__(self) -> None:
            self.asked = 0

        def __eq__(self, _: object) -> bool:
            self.asked += 1
            return self.asked % 2 == 1

        def __hash__(self) -> int:
            return 0

    make(settings, word_model, "coffee")
    first_text(served)
    opened = served._open["c"]
    opened.state = Switching()  # type: ignore[assignment]
    with served.searcher("c"):
        assert opened.searches == 1
    assert opened.searches == 0


def test_threads_that_need_an_encoder_at_once_load_it_once(
    served: OpenCollections, settings: Settings, word_model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        make(settings, word_model, "coffee", name)
    loaded: list[Encoder] = []

    def slow(*arguments: Any) -> Encoder:
        time.sleep(0.2)
        loaded.append(open_query_encoder(*arguments))
        return loaded[-1]

    monkeypatch.setattr("query.service.open_collections.open_query_encoder", slow)
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(lambda name: first_text(served, name), "abcd")) == ["coffee"] * 4
    assert len(loaded) == 1


def test_a_language_that_grows_large_has_more_candidates_at_once(
    served: OpenCollections, settings: Settings, word_model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(settings, word_model, "coffee")
    with served.searcher("c") as searcher:
        options = RankingOptions(hybrid=True)
        small = searcher._ranker(options)
        assert small is searcher._ranker(options)
        searcher.languages = {"en": MANY + 1}
        grown = searcher._ranker(options)
        assert grown._stretches(10, 9)[0].candidates == 2 * small._stretches(10, 9)[0].candidates


def test_an_encoder_that_no_collection_needs_any_more_is_let_go(
    served: OpenCollections, settings: Settings, word_model: ModelFolder
) -> None:
    make(settings, word_model, "coffee", "a")
    make(settings, word_model, "coffee", "b", "segments")
    with served.searcher("a") as first, served.searcher("b") as second:
        pass
    remove(settings, "a")
    served.close_unused()
    assert [*served._encoders.values()] == [second.encoder]
    make(settings, word_model, "coffee", "a")
    with served.searcher("a") as again:
        assert again.encoder is not first.encoder
        assert again.search("coffee", lang="en")
