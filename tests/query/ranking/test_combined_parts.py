"""What a collection of combined vectors says of its parts: cosines on one scale, weights shown, what none knows."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from encoders.cr5.bags_of_words import load_model
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.document import Document
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.readers.source_documents import Sources
from indexer.training.cr5_training import train_cr5
from query.cli import root, run
from query.ranking.fair_ranker import FairRanker
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from tests.query.ranking.test_combined_collection import weighed
from trials import DEMO

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "en", "es")]
QUERY = "flood in the old town"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The demo's articles by ``three``, a Cr5 model of their languages, and ``two``, which knows no Spanish."""
    place = tmp_path_factory.mktemp("parts")
    three, two, at = str(place / "three"), str(place / "two"), ["--home", str(place / "home"), "-q"]
    assert run(["train", "cr5", *SOURCES, "-o", three, "--dimensions", "20", "--ridge", "1", "-q"]) == 0
    assert run(["train", "cr5", *SOURCES[:2], "-o", two, "--dimensions", "4", "--ridge", "1", "-q"]) == 0
    for name, encoders in (("both", ["--encoder", three, "--encoder", two]), ("alone", ["--encoder", three])):
        assert run(["index", *SOURCES, "-c", name, *encoders, "--no-calibration", *at]) == 0
        assert run(["calibrate", "-c", name, "--balance", "0.75", *at]) == 0
    return Settings.read(home=place / "home")


def test_without_a_calibration_they_are_on_one_scale_too_and_shown_so(home: Settings) -> None:
    found = {}
    for name in ("both", "alone"):
        with Searcher.open(name, home, device="cpu", ranking=RankingOptions(calibration="none")) as searcher:
            found[name] = {hit.doc_id: hit for hit in searcher.search(QUERY, lang="en", k=200)}
    assert all(hit.score == pytest.approx(hit.cosine, abs=1e-4) for hit in found["both"].values())
    spanish = [hit for hit in found["alone"].values() if hit.lang == "es"]
    assert spanish
    for hit in spanish:
        other = found["both"][hit.doc_id]
        assert (other.score, other.cosine) == pytest.approx((hit.score, hit.cosine), abs=1e-4)
        assert hit.passage is not None
        assert other.passage is not None
        assert other.passage.cosine == pytest.approx(hit.passage.cosine, abs=0.02)


def test_without_a_calibration_the_first_hits_are_the_same_however_many_are_asked_for(
    home: Settings, tmp_path: Path
) -> None:
    """Of a language's documents some are known by both, some by one: kNN has them on other scales."""
    three, few = str(home.home.parent / "three"), tmp_path / "few"
    train_cr5(Sources(SOURCES[:2]), few, settings=Cr5Settings(dimensions=4, ridge=1, vocabulary=40))
    words = load_model(ModelFolder.open(three)).vocabularies["en"]
    pairs = [f"{words[place]} {words[-place]}" for place in range(1, 40)]
    mixed = [f"{words[place]} {words[-place - 7]} {words[-place - 9]}" for place in range(1, 40)]
    lines = [json.dumps({"id": text, "lang": "en", "text": text}) for pair in pairs for text in (pair, pair.split()[1])]
    (tmp_path / "some.jsonl").write_text("\n".join(dict.fromkeys(lines)), encoding="utf-8")
    at = ["--home", str(tmp_path / "home"), "--no-calibration", "-q"]
    both = ["--encoder", three, "--encoder", str(few)]
    assert run(["index", str(tmp_path / "some.jsonl"), "-c", "mixed", *both, *at]) == 0
    with Searcher.open("mixed", Settings.read(home=tmp_path / "home"), device="cpu") as searcher:
        queries = [Document(text, "en", text) for text in mixed]
        first, many = ([one.doc_ids[:1] for one in searcher.rank(queries, k=k)] for k in (1, 50))
    assert first == many


def test_cosines_shown_with_a_calibration_are_on_that_scale(home: Settings) -> None:
    with Searcher.open("both", home, device="cpu") as searcher:
        assert searcher.calibration is not None
        as_encoded = FairRanker(searcher.store, replace(searcher.calibration, mates=False), 0.0, passages=False)
        vector = searcher.encoder.encode_queries([Document("q", "en", QUERY)])
        (ranking,) = as_encoded.rank(vector, "en", sorted(searcher.languages), 200, detailed=True)
        hits = {hit.doc_id: hit for hit in searcher.search(QUERY, lang="en", k=200)}
    assert set(ranking.langs) == {"de", "en", "es"}
    cosines = [detail.parts.cosine for detail in ranking.details_of(ranking.doc_ids)]
    assert ranking.scores == pytest.approx(cosines, abs=1e-4)
    assert [hits[doc_id].cosine for doc_id in ranking.doc_ids] == pytest.approx(cosines, abs=1e-4)


def test_a_query_that_no_part_of_any_weight_knows_is_refused_and_finds_nothing(home: Settings) -> None:
    with Searcher.open("both", home, device="cpu") as searcher:
        second = weighed(searcher, (0.0, 1.0))
        with pytest.raises(BadInput, match=r"^two knows no word of the query 'el agua' in es"):
            second.search("el agua", lang="es")
        unknown, known = second.rank([Document("1", "es", "el agua"), Document("2", "de", "Wasser")], k=5)
        assert (len(unknown.doc_ids), len(known.doc_ids)) == (0, 5)
        assert searcher.search("el agua", lang="es")


def test_weights_are_shown_wherever_a_calibration_is(home: Settings) -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(root, [*arguments, "--home", str(home.home)])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert ", weights 0.2,0.8" in said("calibrate", "-c", "both", "--weights", "0.2,0.8")
    assert re.search(", weights 0.2,0.8, .*decided by you", said("status", "-c", "both"))
    told = json.loads(said("status", "-c", "both", "--json"))["calibrations"]
    assert [one["weights"] for one in told if one["active"]] == [[0.2, 0.8]]
    told_how = CliRunner().invoke(root, ["search", "Wasser", "-c", "both", "--explain", "--home", str(home.home)])
    assert "the encoders' cosines count 0.2,0.8" in told_how.output
    decided = said("calibrate", "-c", "both")
    assert "0.2,0.8" not in decided
    assert "0.2,0.8" in said("calibrate", "-c", "both", "--list")
    assert "weights" not in said("calibrate", "-c", "alone", "--list")
