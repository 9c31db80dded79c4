"""A collection of combined vectors: indexed, calibrated, searched; weights act without indexing again."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from encoders.errors import BadInput
from encoders.folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import root, run
from query.ranking.search_choice import RankingOptions
from query.ranking.searcher import Searcher
from query.service.options import ServiceOptions
from tests.query.conftest import moved
from trials import DEMO
from trials.servers.service import serving

LANGS = ("de", "en", "es", "ja")
SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in LANGS]
QUERIES = (("de", "Bienen im Garten"), ("ja", "山火事"), ("en", "flood in the old town"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, word_model: ModelFolder) -> Settings:
    """The demo's articles in four languages, by a sentence encoder and a Cr5 model of German, English and Spanish."""
    place = tmp_path_factory.mktemp("combined")
    words, at = str(place / "words"), ["--home", str(place / "home"), "-q"]
    assert run(["train", "cr5", *SOURCES[:3], "-o", words, "--dimensions", "20", "--ridge", "1", "-q"]) == 0
    alone = ["--encoder", str(word_model.path)]
    for name, encoders in (("both", [*alone, "--encoder", words]), ("alone", alone)):
        assert run(["index", *SOURCES, "-c", name, *encoders, "--no-calibration", *at]) == 0
        assert run(["calibrate", "-c", name, "--balance", "0.75", "--rank", "0", *at]) == 0
    return Settings.read(home=place / "home")


def hits(settings: Settings, collection: str, ranking: RankingOptions) -> list[list[tuple[str, Any]]]:
    with Searcher.open(collection, settings, device="cpu", ranking=ranking) as searcher:
        return [
            [(hit.doc_id, pytest.approx(hit.score, abs=0.01)) for hit in searcher.search(text, lang=lang, k=5)]
            for lang, text in QUERIES
        ]


@pytest.mark.parametrize("passages", [True, False])
def test_where_one_part_has_all_the_weight_the_ranking_is_its_own(home: Settings, passages: bool) -> None:
    alone = RankingOptions(balance=0.5, passages=passages)  # without a bank, which each draws
    both = hits(home, "both", replace(alone, weights=(1.0, 0.0)))
    # the int8 passages of both are rounded together, so hits of nearly the same score may change places
    assert list(map(dict, both)) == list(map(dict, hits(home, "alone", alone)))


def test_both_stores_rank_them_alike(home: Settings, elastic_url: str, tmp_path: Path) -> None:
    ranking = RankingOptions(weights=(0.3, 0.7))
    assert hits(moved(home, "both", elastic_url, tmp_path / "home"), "both", ranking) == hits(home, "both", ranking)


def test_weights_change_the_ranking_and_not_the_index(home: Settings) -> None:
    first, second = (hits(home, "both", RankingOptions(weights=given)) for given in ((0.9, 0.1), (0.1, 0.9)))
    assert first != second


@pytest.mark.parametrize("collection", ["both", "alone"])
def test_an_encoder_that_the_collections_method_can_not_use_is_refused_as_another_encoder(
    home: Settings, collection: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = str(home.home.parent / "words")
    assert run(["index", SOURCES[0], "-c", collection, "--encoder", words, "--home", str(home.home)]) == 1
    assert f"collection {collection} holds vectors of" in capsys.readouterr().err


def test_the_service_names_both_encoders(home: Settings, word_model: ModelFolder) -> None:
    with serving(ServiceOptions(home, collections=("both",), device="cpu")) as client:
        (described,) = client.get("/api/collections").json()["collections"]
    assert described["encoder"] == f"{word_model.path.name} + words"


def test_one_searcher_ranks_by_weights_of_each_query(home: Settings) -> None:
    with Searcher.open("both", home, device="cpu") as searcher:
        for weights in ((0.9, 0.1), (0.1, 0.9), (0.9, 0.1)):
            found = [
                [(hit.doc_id, hit.score) for hit in searcher.weighed(weights).search(text, lang=lang, k=5)]
                for lang, text in QUERIES
            ]
            assert list(map(len, found)) == [5] * len(QUERIES)
            assert found == hits(home, "both", RankingOptions(weights=weights))
            described, whole = searcher.weighed(weights).describe(), searcher.describe()
            assert (described["weights"], described["calibration"]) == (list(weights), whole["calibration"])
            assert described["space"] != whole["space"]
        searcher.languages = {"de": 1}
        assert searcher.weighed((0.9, 0.1)).targets(None) == ["de"]


def test_documents_that_one_part_does_not_know_are_ranked_by_the_other_on_one_scale(home: Settings) -> None:
    """Cr5 knows no Japanese: its pages' cosines are the other encoder's, and no smaller for that."""
    with Searcher.open("both", home, device="cpu", ranking=RankingOptions(passages=False)) as searcher:
        found = {hit.lang: hit for hit in searcher.search("flood in the old town", lang="en", k=200, explain=True)}
    with Searcher.open("alone", home, device="cpu", ranking=RankingOptions(passages=False)) as searcher:
        alone = {hit.doc_id: hit for hit in searcher.search("flood in the old town", lang="en", k=200, explain=True)}
    hit = found["ja"]
    assert hit.parts is not None
    other = alone[hit.doc_id].parts
    assert other is not None
    assert hit.parts.corrected == pytest.approx(other.corrected, abs=0.01)


def test_the_probe_chooses_weights_and_a_person_may(home: Settings, tmp_path: Path) -> None:
    shutil.copytree(home.home, tmp_path / "home")

    def calibrated(*options: str) -> dict[str, object]:
        place = ["--home", str(tmp_path / "home")]
        done = CliRunner().invoke(root, ["calibrate", "-c", "both", *options, "--json", *place])
        assert done.exit_code == 0, done.output
        found: dict[str, object] = json.loads(done.stdout)
        return found

    given = calibrated("--weights", "0.2,0.8")
    assert given["decided_by"] == "you"
    assert given["weights"] == [0.2, 0.8]
    decided = calibrated()
    assert decided["decided_by"] == "concepts"
    assert {tuple(one["weights"]) for one in decided["probe"]} >= {(), (0.1, 0.9), (0.9, 0.1)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("collection", "weights", "said"),
    [
        ("both", (1.0,), "give 2 weights, not 1"),
        ("alone", (0.5, 0.5), "give 1 weight, not 2"),
    ],
)
def test_weights_that_fit_no_part_are_refused(
    home: Settings, collection: str, weights: tuple[float, ...], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        Searcher.open(collection, home, ranking=RankingOptions(weights=weights))


def test_the_collection_is_gone_on_with_by_the_same_encoders(home: Settings, tmp_path: Path) -> None:
    shutil.copytree(home.home, tmp_path / "home")
    copy = Settings.read(home=tmp_path / "home")
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "new", "lang": "de", "text": "Ein Garten."}\n', encoding="utf-8")
    assert run(["index", str(more), "-c", "both", "--home", str(copy.home), "-q"]) == 0
    with Searcher.open("both", copy, device="cpu") as searcher:
        assert searcher.store.count()["de"] == len(Path(SOURCES[0]).read_text(encoding="utf-8").splitlines()) + 1
        assert searcher.search("Ein Garten", lang="de", to=["de"])
