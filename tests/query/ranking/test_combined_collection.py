"""A collection of combined vectors: indexed, calibrated, searched; weights act without indexing again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.calibration_fitting import calibration_fit as calibrating
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.cli import root, run
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hits
from query.ranking.searcher import Searcher
from query.service.service_options import ServiceOptions
from tests.query.conftest import copied, moved
from tests.query.ranking.same_ranking import assert_same_hits
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
        assert run(["calibrate", "-c", name, "--balance", "0.75", *at]) == 0
    return Settings.read(home=place / "home")


def weighed(searcher: Searcher, weights: tuple[float, ...]) -> Searcher:
    """The same collection by a calibration with other weights, in which mates don't count."""
    assert searcher.calibration is not None
    parts = replace(searcher.calibration.vector_parts, weights=weights)
    return replace(searcher, calibration=replace(searcher.calibration, vector_parts=parts, mates=False))


def hits(settings: Settings, collection: str, weights: tuple[float, ...], balance: float = 0.75) -> list[Hits]:
    ranking = RankingOptions(balance=balance)
    with weighed(Searcher.open(collection, settings, device="cpu", ranking=ranking), weights) as searcher:
        return [searcher.search(text, lang=lang, k=5) for lang, text in QUERIES]


def test_where_one_part_has_all_the_weight_the_ranking_is_its_own(home: Settings) -> None:
    """Nearly: the int8 passages of both are rounded together."""
    both, alone = hits(home, "both", (1.0, 0.0), 0.5), hits(home, "alone", (1.0,), 0.5)  # by no bank, which each draws
    for of_both, of_one in zip(both, alone, strict=True):
        assert_same_hits(of_both, of_one, tolerance=0.01)


def test_both_stores_rank_them_alike(home: Settings, elastic_url: str, tmp_path: Path) -> None:
    on_a_server = moved(home, "both", elastic_url, tmp_path / "home")
    for there, here in zip(hits(on_a_server, "both", (0.3, 0.7)), hits(home, "both", (0.3, 0.7)), strict=True):
        assert_same_hits(there, here, tolerance=1e-4)


def test_weights_change_the_ranking(home: Settings) -> None:
    first, second = (hits(home, "both", weights) for weights in ((0.9, 0.1), (0.1, 0.9)))
    assert [hit.doc_id for of_query in first for hit in of_query] != [
        hit.doc_id for of_query in second for hit in of_query
    ]


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


def test_documents_that_one_part_does_not_know_are_ranked_by_the_other_on_one_scale(home: Settings) -> None:
    """Cr5 knows no Japanese: its pages' cosines are the other encoder's, and no smaller for that."""
    corrected = []
    for name in ("both", "alone"):
        with Searcher.open(name, home, device="cpu") as searcher:
            hits = searcher.search("flood in the old town", lang="en", k=200, explain=True)
        corrected.append({hit.doc_id: hit.parts.corrected for hit in hits if hit.parts and hit.lang == "ja"})
    both, alone = corrected
    known = both.keys() & alone.keys()
    assert known
    assert {one: both[one] for one in known} == pytest.approx({one: alone[one] for one in known}, abs=0.01)


def test_a_person_states_weights_and_the_index_stays_and_is_gone_on_with(home: Settings, tmp_path: Path) -> None:
    copy = copied(home.home, tmp_path)

    def calibrated(*options: str) -> dict[str, object]:
        done = CliRunner().invoke(root, ["calibrate", "-c", "both", *options, "--json", "--home", str(copy.home)])
        assert done.exit_code == 0, done.output
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def state() -> tuple[dict[str, float], dict[str, bytes]]:
        """The scores of a search, and what is stored."""
        with Searcher.open("both", copy, device="cpu") as searcher:
            hits = searcher.search("flood in the old town", lang="en", k=5)
            pages = list(searcher.store.scan(searcher.stored_model))
        vectors = {one.document.doc_id: one.vector.tobytes() for page in pages for one in page}
        return {hit.doc_id: hit.score for hit in hits}, vectors

    before, vectors = state()
    given = calibrated("--weights", "0.2,0.8")
    assert given["decided_by"] == "you"
    assert given["weights"] == pytest.approx([0.2, 0.8])
    after, same_vectors = state()
    assert after != before
    assert same_vectors == vectors
    decided = calibrated()
    assert decided["decided_by"] in {"documents", "default"}
    assert decided["weights"] == [0.5, 0.5]
    (tmp_path / "more.jsonl").write_text('{"id": "new", "lang": "de", "text": "Ein Garten."}\n', encoding="utf-8")
    assert run(["index", str(tmp_path / "more.jsonl"), "-c", "both", "--home", str(copy.home), "-q"]) == 0
    assert state()[1].keys() == vectors.keys() | {"new"}


@pytest.mark.parametrize(
    ("collection", "weights", "said"),
    [("both", (1.0,), "give 2 weights, not 1"), ("alone", (0.5, 0.5), "give 1 weight, not 2")],
)
def test_weights_that_fit_no_part_are_refused_before_anything_is_encoded(
    home: Settings, collection: str, weights: tuple[float, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "draw_samples", lambda *_, **__: pytest.fail("queries were drawn"))
    with pytest.raises(BadInput, match=said):
        calibrating.calibrate(collection, home, CalibrationRequest(weights=weights), device="cpu")
