"""What a collection of combined vectors says of its parts: cosines on one scale, weights shown, what none knows."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from encoders.cr5.encoder import load_model
from encoders.cr5.settings import Cr5Settings
from encoders.document import Document
from encoders.errors import BadInput
from encoders.folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.readers.documents import Sources
from indexer.training.cr5 import train_cr5
from query.calibration.calibration_choice import CalibrationChoice
from query.cli import root, run
from query.fitting import calibrate as calibrating
from query.fitting.request import CalibrationRequest
from query.ranking.search_choice import RankingOptions
from query.ranking.searcher import Searcher
from trials import DEMO

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "en", "es")]
AS_ENCODED = RankingOptions(balance=0, passages=False, mates=False)
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
        assert run(["calibrate", "-c", name, "--balance", "0.75", "--rank", "0", *at]) == 0
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
    with Searcher.open("both", home, device="cpu", ranking=AS_ENCODED) as searcher:
        found = searcher.search(QUERY, lang="en", k=200)
    assert {hit.lang for hit in found} == {"de", "en", "es"}
    assert all(hit.score == pytest.approx(hit.cosine, abs=1e-4) for hit in found)


def test_a_query_that_no_part_of_any_weight_knows_is_refused_and_finds_nothing(home: Settings) -> None:
    with Searcher.open("both", home, device="cpu", ranking=RankingOptions(weights=(0.0, 1.0))) as searcher:
        with pytest.raises(BadInput, match=r"^two knows no word of the query 'el agua' in es"):
            searcher.search("el agua", lang="es")
        unknown, known = searcher.rank([Document("1", "es", "el agua"), Document("2", "de", "Wasser")], k=5)
        assert (len(unknown.doc_ids), len(known.doc_ids)) == (0, 5)
        assert searcher.weighed((0.5, 0.5)).search("el agua", lang="es")


def test_weights_are_shown_wherever_a_calibration_is(home: Settings) -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(root, [*arguments, "--home", str(home.home)])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert ", weights 0.2,0.8;" in said("calibrate", "-c", "both", "--weights", "0.2,0.8")
    assert ", weights 0.2,0.8, decided by you" in said("status", "-c", "both")
    told = json.loads(said("status", "-c", "both", "--json"))["calibrations"]
    assert [one["weights"] for one in told if one["active"]] == [[0.2, 0.8]]
    decided = said("calibrate", "-c", "both")
    assert "0.9,0.1" in decided
    assert "equal" in decided
    assert "0.2,0.8" in said("calibrate", "-c", "both", "--list")
    assert "weights" not in said("calibrate", "-c", "alone", "--list")
    told_how = CliRunner().invoke(
        root, ["search", "Wasser", "-c", "both", "--explain", "--weights", "7,3", "--home", str(home.home)]
    )
    assert "the encoders' cosines count 0.7,0.3" in told_how.output


def test_the_probe_takes_out_no_more_directions_than_the_narrowest_part_has(home: Settings) -> None:
    report = calibrating.calibrate("both", home, device="cpu")
    assert {0, 1} <= {one.choice.rank for one in report.decision.tried} <= {0, 1, 2}


def test_weights_that_fit_no_part_are_refused_before_anything_is_encoded(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "draw_samples", lambda *_, **__: pytest.fail("queries were drawn"))
    with pytest.raises(BadInput, match="2 parts, one for each encoder; give 2 weights, not 1"):
        calibrating.calibrate("both", home, CalibrationRequest(choice=CalibrationChoice(weights=(0.2,))), device="cpu")
