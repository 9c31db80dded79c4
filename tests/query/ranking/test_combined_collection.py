"""A collection of combined vectors: weights act without indexing again, and its parts' cosines are on one scale."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from query.calibration_fitting import calibration_fit as calibrating
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.cli import root, run
from query.ranking.fair_ranker import FairRanker
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hits
from query.ranking.searcher import Searcher
from tests.query.conftest import copied, moved
from tests.query.ranking.same_ranking import assert_same_hits
from trials import DEMO

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "en", "es", "ja")]
QUERY = "flood in the old town"
QUERIES = (("de", "Bienen im Garten"), ("ja", "山火事"), ("en", QUERY))


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


def said(settings: Settings, *arguments: str) -> str:
    done = CliRunner().invoke(root, [*arguments, "--home", str(settings.home)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_where_one_part_has_all_the_weight_the_ranking_is_its_own(home: Settings) -> None:
    """Nearly: the int8 passages of both are rounded together."""
    both, alone = hits(home, "both", (1.0, 0.0), 0.5), hits(home, "alone", (1.0,), 0.5)  # by no bank, which each draws
    for of_both, of_one in zip(both, alone, strict=True):
        assert_same_hits(of_both, of_one, tolerance=0.01)


def test_both_stores_rank_them_alike(home: Settings, elastic_url: str, tmp_path: Path) -> None:
    on_a_server = moved(home, "both", elastic_url, tmp_path / "home")
    for there, here in zip(hits(on_a_server, "both", (0.3, 0.7)), hits(home, "both", (0.3, 0.7)), strict=True):
        assert_same_hits(there, here, tolerance=1e-4)


def test_documents_that_one_part_does_not_know_are_ranked_by_the_other_on_one_scale(home: Settings) -> None:
    """Cr5 knows no Japanese: its pages' cosines are the other encoder's, and no smaller for that."""
    corrected = []
    for name in ("both", "alone"):
        with Searcher.open(name, home, device="cpu") as searcher:
            hits = searcher.search(QUERY, lang="en", to=["ja"], k=200, explain=True)
        corrected.append({hit.doc_id: hit.parts.corrected for hit in hits if hit.parts})
    assert corrected[0]
    assert corrected[0] == pytest.approx(corrected[1], abs=0.01)


def test_a_person_states_weights_and_the_index_stays_and_is_gone_on_with(home: Settings, tmp_path: Path) -> None:
    copy = copied(home.home, tmp_path)

    def calibrated(*options: str) -> Any:
        return json.loads(said(copy, "calibrate", "-c", "both", *options, "--json"))

    def state() -> tuple[dict[str, float], dict[str, bytes]]:
        with Searcher.open("both", copy, device="cpu") as searcher:
            hits = searcher.search(QUERY, lang="en", k=5)
            pages = list(searcher.store.scan(searcher.stored_model))
        vectors = {one.document.doc_id: one.vector.tobytes() for page in pages for one in page}
        return {hit.doc_id: hit.score for hit in hits}, vectors

    before, vectors = state()
    given = calibrated("--weights", "1,4")
    assert (given["decided_by"], given["weights"]) == ("you", pytest.approx([0.2, 0.8]))
    after, same_vectors = state()
    assert after != before
    assert same_vectors == vectors
    decided = calibrated()
    assert decided["decided_by"] in {"documents", "default"}
    assert decided["weights"] == [0.5, 0.5]
    (tmp_path / "more.jsonl").write_text('{"id": "new", "lang": "de", "text": "Ein Garten."}\n', encoding="utf-8")
    assert run(["index", str(tmp_path / "more.jsonl"), "-c", "both", "--home", str(copy.home), "-q"]) == 0
    assert state()[1].keys() == vectors.keys() | {"new"}


def test_weights_that_fit_no_part_are_refused_at_once(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrating, "draw_samples", lambda *_, **__: pytest.fail("queries were drawn"))
    for collection, weights, sentence in (
        ("both", (1.0,), "2 weights, not 1"),
        ("alone", (0.5, 0.5), "1 weight, not 2"),
    ):
        with pytest.raises(BadInput, match=f"give {sentence}"):
            calibrating.calibrate(collection, home, CalibrationRequest(weights=weights), device="cpu")


def test_without_a_calibration_they_are_on_one_scale_too_and_shown_so(home: Settings) -> None:
    found = {}
    for name in ("both", "alone"):
        with Searcher.open(name, home, device="cpu", ranking=RankingOptions(calibration="none")) as searcher:
            found[name] = {hit.doc_id: hit for hit in searcher.search(QUERY, lang="en", k=200)}
    assert all(hit.score == pytest.approx(hit.cosine, abs=1e-4) for hit in found["both"].values())
    japanese = [hit for hit in found["alone"].values() if hit.lang == "ja"]
    assert japanese
    for hit in japanese:
        other = found["both"][hit.doc_id]
        assert (other.score, other.cosine) == pytest.approx((hit.score, hit.cosine), abs=1e-4)
        assert hit.passage is not None
        assert other.passage is not None
        assert other.passage.cosine == pytest.approx(hit.passage.cosine, abs=0.02)


def test_without_a_calibration_the_first_hits_stay_the_same(home: Settings, tmp_path: Path) -> None:
    both, few, source = str(home.home.parent / "words"), tmp_path / "few", tmp_path / "some.jsonl"
    train_cr5(Sources(SOURCES[:2]), few, settings=Cr5Settings(dimensions=4, ridge=1, vocabulary=40))
    words = load_model(ModelFolder.open(both)).vocabularies["en"]
    pairs = [f"{words[place]} {words[-place]}" for place in range(1, 40)]
    mixed = [f"{words[place]} {words[-place - 7]} {words[-place - 9]}" for place in range(1, 40)]
    lines = [json.dumps({"id": text, "lang": "en", "text": text}) for pair in pairs for text in (pair, pair.split()[1])]
    source.write_text("\n".join(dict.fromkeys(lines)), encoding="utf-8")
    at = ["--home", str(tmp_path / "home"), "--no-calibration", "-q"]
    assert run(["index", str(source), "-c", "mixed", "--encoder", both, "--encoder", str(few), *at]) == 0
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
    assert set(ranking.langs) == {"de", "en", "es", "ja"}
    cosines = [detail.parts.cosine for detail in ranking.details_of(ranking.doc_ids)]
    assert ranking.scores == pytest.approx(cosines, abs=1e-4)
    assert [hits[doc_id].cosine for doc_id in ranking.doc_ids] == pytest.approx(cosines, abs=1e-4)


def test_a_query_that_no_part_of_any_weight_knows_is_refused_and_finds_nothing(home: Settings) -> None:
    with Searcher.open("both", home, device="cpu") as searcher:
        second = weighed(searcher, (0.0, 1.0))
        with pytest.raises(BadInput, match=r"^words knows no word of the query '山火事' in ja"):
            second.search("山火事", lang="ja")
        unknown, known = second.rank([Document("1", "ja", "山火事"), Document("2", "de", "Wasser")], k=5)
        assert (len(unknown.doc_ids), len(known.doc_ids)) == (0, 5)
        assert searcher.search("山火事", lang="ja")


def test_weights_are_shown_wherever_a_calibration_is(home: Settings) -> None:
    assert ", weights 0.2,0.8" in said(home, "calibrate", "-c", "both", "--weights", "0.2,0.8")
    assert ", weights 0.2,0.8" in said(home, "status", "-c", "both")
    told = json.loads(said(home, "status", "-c", "both", "--json"))["calibrations"]
    assert [one["weights"] for one in told if one["active"]] == [[0.2, 0.8]]
    assert "0.2,0.8" not in said(home, "calibrate", "-c", "both")
    assert "0.2,0.8" in said(home, "status", "-c", "both", "--calibration")
    assert "weights" not in said(home, "status", "-c", "alone", "--calibration")
