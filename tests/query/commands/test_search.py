"""``dragoman search`` with each of its options: what is asked on the command line is how it is ranked."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from encoders.printable import cells, fitted
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from query.calibration.calibration import Calibration
from query.calibration.calibration_table import CalibrationRow
from query.commands.output.hits import hit_parts, query_parts
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hit, Hits, Passage, ScoreParts, as_json, explanation, good_hits
from query.ranking.searcher import Searcher
from tests.query.calibration.earlier import earlier_artifact, earlier_summary
from tests.query.conftest import Command

QUERY = "Der Imker Karl von Frisch und die Bienen im Garten"
SEARCH = ("search", QUERY, "--lang", "de")
NO_ANSWER = "no good answer here: most of these hits fit other queries as well as this one"
Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def ask(on_demo: Command) -> Ask:
    return lambda *options: on_demo.one(*SEARCH, "-k", "20", *options)["hits"]


@pytest.mark.parametrize(
    ("options", "ranking"),
    [
        (["--balance", "0"], RankingOptions(balance=0.0)),
        (["--balance", "1"], RankingOptions(balance=1.0)),
        (["--hybrid"], RankingOptions(hybrid=True)),
        (["--calibration", "none"], RankingOptions(calibration="none")),
    ],
)
def test_an_option_ranks(options: list[str], ranking: RankingOptions, ask: Ask, calibrated_by_words: Settings) -> None:
    with Searcher.open("demo", calibrated_by_words, device="cpu", ranking=ranking) as searcher:
        expected = [(hit.doc_id, pytest.approx(hit.score, abs=1e-6)) for hit in searcher.search(QUERY, lang="de", k=20)]
    found = [(hit["id"], hit["score"]) for hit in ask("--flat", *options)]
    assert found == expected
    assert found != [(hit["id"], hit["score"]) for hit in ask("--flat")]


def test_facets_are_counted(calibrated_by_words: Settings, on_demo: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked = [*SEARCH, "--flat", "--facets", "lang, label,concept"]
    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        facets = searcher.search(QUERY, lang="de", facets=["lang", "label", "concept"]).facets
    assert facets
    assert on_demo.one(*asked)["facets"] == asdict(facets)
    shown = on_demo(*asked, "-k", "1")
    assert "\n\nthe best 50 of 235 documents searched:\nlang: " in shown
    value, count = next(iter(facets.counts["label"].items()))
    assert f"\nlabel: {value} {count} · " in shown
    assert len(facets.counts["concept"]) <= 20 or "more values" in shown
    assert max(map(len, shown.partition("searched:")[2].splitlines())) <= 80
    assert "no document has the field 'labels'" in on_demo(*asked, "--facets", "labels", status=1)


def test_similar_documents(calibrated_by_words: Settings, on_demo: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an encoder is loaded")

    monkeypatch.setattr("query.ranking.query_encoder.open_encoder_of", refuse)
    with Searcher.open("demo", calibrated_by_words, queries=False) as searcher:
        hits = searcher.similar("demo:de:sourdough", to=["fr", "ja"], k=4, filters={"label": "food"})
        with pytest.raises(BadInput, match="opened without an encoder, to compare stored documents; open another"):
            searcher.search("Bienen", lang="de")
    asked = ["similar", "demo:de:sourdough", "--to", "fr,ja", "-k", "4", "--filter", "label=food"]
    answer = {"id": "demo:de:sourdough", "lang": "de", "collection": "demo", "hits": list(map(as_json, hits))}
    assert on_demo.one(*asked) == answer
    assert f"  1  {hits[0].score:.3f}  {hits[0].lang}" in on_demo(*asked)
    assert on_demo("similar", "nothing", status=1) == "Error: collection demo has no document of this id\n"
    on_demo("similar", "a", "--filter", "label", status=2)


def test_explain_says_what_a_score_is_made_of_and_when_languages_are_taken_out(ask: Ask, on_demo: Command) -> None:
    parts = ask("--explain", "--balance", "1")[0]["parts"]
    assert {"cosine", "corrected", "title", "opening", "passage", "fwd", "bwd"} <= parts.keys()
    said = on_demo(*SEARCH, "--balance", "1", "-k", "1", "--explain")
    told = " ".join(said.split())
    assert f"cosine {parts['cosine']:.3f}, without what its language shares {parts['corrected']:.3f}; title" in told
    assert f"{parts['passage']:.3f}; mean of all {parts['compared']:.3f}" in told
    for balance, spoken_of in (("0", False), ("0.5", True)):
        said = on_demo(*SEARCH, "--balance", balance, "--explain")
        assert ("without what its language shares" in " ".join(said.split())) == spoken_of


def test_each_subject_is_a_hit_within_bounds(ask: Ask, on_demo: Command, calibrated_by_words: Settings) -> None:
    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        subjects = searcher.search(QUERY, lang="de", k=20, subjects=True)
        preferring = searcher.search(QUERY, lang="de", k=20, subjects=True, prefer=["ja", "fr"])
        documents = searcher.search(QUERY, lang="de", k=20)
    found = ask()
    assert found == list(map(as_json, subjects))
    assert {hit["lang"] for hit in ask("--to", "ar,ja")} == {"ar", "ja"}
    concept = found[0]["fields"]["concept"]
    among = ask("--flat", "--filter", f"concept={concept}")
    assert ask("--flat", "--filter", f"concept>={concept}", "--filter", f"concept<={concept}") == among
    assert len(among) > 1
    assert {hit["fields"]["concept"] for hit in among} == {concept}
    assert any("also" in hit for hit in found)
    assert ask("--prefer", "ja,fr") == list(map(as_json, preferring)) != found
    flat = ask("--flat")
    assert flat == list(map(as_json, documents))
    assert not any("also" in hit for hit in flat)
    for options, shown in (("", True), ("--flat", False), ("--to fr", False), ("--calibration none", False)):
        assert ("           also in " in on_demo(*SEARCH, *options.split())) == shown


def test_an_old_calibration_is_made_anew(home: Settings, dragoman: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encoders.console._warned", set())  # another test of this process may have been warned
    with open_database(home.database) as engine, transaction(engine) as session:
        row = session.scalars(sa.select(CalibrationRow)).one()
        calibration = Calibration.from_bytes(row.artifact)
        row.artifact, row.summary = earlier_artifact(calibration), earlier_summary(calibration, "concepts")
    advice = "demo was calibrated by an earlier version; make its calibration anew: dragoman calibrate -c demo"
    for options, warned in ((["--calibration", "none"], 0), ([], 1)):
        dragoman(*SEARCH, "-c", "demo", "-q", *options)
        assert dragoman.err.count(advice) == warned


def hit(lang: str, title: str, also: list[Hit] | None = None) -> Hit:
    return Hit(f"{lang}-1", lang, 0.5, 0.5, Document(f"{lang}-1", lang, "", title=title), None, also=also or [])


def test_no_line_of_titles_is_too_wide(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "62")
    titles = {"de": "Brot ohne Hefe", "ja": "眠れない夜に" * 20, "fr": "Du pain"}
    Console().print(hit_parts([hit("en", "Bread", [hit(*pair) for pair in titles.items()])]))
    assert capsys.readouterr().out.splitlines() == [
        "  1  0.500  en   Bread  [en-1]",
        "           also in de: Brot ohne Hefe [de-1] · ja:",
        f"           {'眠れない夜に' * 3}眠れない夜…",
        "           [ja-1] · fr: Du pain [fr-1]",
    ]


def test_the_shown_part_of_a_passage_ends_with_a_whole_word() -> None:
    for text, length, shown in ("a screen " * 40, 73, f"{'ascreen' * 26}a…"), ("光" * 300, 80, f"{'光' * 240}…"):
        hits = [Hit("1", "en", 0.5, 0.5, Document("1", "en", text), Passage(text, 0, 9, 0.5, 0, 0.5))]
        title, below = "".join(map(str, hit_parts(hits))).split("[1]")
        assert (" ".join(title.split()[3:]), "".join(below.split())) == (f"{text[:length]} …", shown)


@pytest.mark.parametrize(("mates", "shown"), [(0.1004, "0.101"), (-0.0508, "-0.050")])
def test_what_mates_add_is_shown_as_the_difference_of_the_shown_scores(mates: float, shown: str) -> None:
    parts = ScoreParts(0.5, 0.5, None, None, None, 0.5, None, None, score=1.0004, mate="x", mates=mates, words=None)
    of_mates = f"documents about the same thing, such as [x], add {shown}"
    assert explanation(parts, 1.0004 + mates, 0.0) == f"cosine 0.500; {of_mates}; score {1.0004 + mates:.3f}"
    assert explanation(replace(parts, mates=0.00001), 0.9, 0.0) == "cosine 0.500; score 0.900, that of its place"


@pytest.mark.parametrize(
    ("fits", "count"),
    [
        *(("yynn", 2), ("ynynn", 3), ("nny", 0), ("y?n", 2), ("??", None), ("", None), ("n" * 9 + "y" * 30, 0)),
        *(("y" * 12 + "nn", 12), ("yy" + "n" * 8 + "y" * 30, 2)),
    ],
)
def test_good_hits_end_where_most_above_fit_and_most_below_do_not(fits: str, count: int | None) -> None:
    """``y``: a hit fits, ``n``: it does not, ``?``: nobody knows."""
    assert good_hits([replace(hit("de", "Brot"), fits={"y": True, "n": False}.get(flag)) for flag in fits]) == count


def test_a_line_marks_where_the_good_hits_end(on_demo: Command) -> None:
    above, line, below = on_demo(*SEARCH, "-k", "50").partition("     ── most hits below fit other queries")
    assert line
    assert above.count("[demo:") < below.count("[demo:")
    assert "── most" not in on_demo(*SEARCH, "-k", "50", "--calibration", "none")


@pytest.mark.parametrize(
    ("lang", "confidence", "fits", "said"),
    [
        ("ru", None, True, []),
        ("ru", 0.95, True, ["query language: ru (detected)"]),
        ("ru", 0.6, True, ["is this ru? say so: --lang ru"]),
        ("und", 0.4, True, ["the query's language is unsure; say which: --lang LANG"]),
        ("und", 0.0, False, ["the query's language is unsure; say which: --lang LANG", NO_ANSWER]),
    ],
)
def test_it_says_what_is_unsure(lang: str, confidence: float | None, fits: bool, said: list[str]) -> None:
    hits = Hits([hit("de", "Brot")], lang, confidence, good=int(fits))
    *notes, meaning = query_parts(hits, "")
    assert notes == said
    assert "a score orders the hits of this search" in str(meaning)


def test_where_there_is_one_collection_it_need_not_be_named(calibrated_by_words: Settings, dragoman: Command) -> None:
    home = ["--home", str(calibrated_by_words.home)]
    assert dragoman.one(*SEARCH, *home)["hits"] == dragoman.one(*SEARCH, *home, "-c", "demo")["hits"]
    assert "did you mean 'health'?" in dragoman(*SEARCH, *home, "--filter", "label=helth")


def test_at_a_terminal_no_word_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "  the query is longer than the encoder reads; what comes after 眠れない夜 is left out"
    for columns in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = fitted(sentence, terminal=True).splitlines()
        assert " ".join(line.strip() for line in lines) == sentence.strip()
        assert all(cells(line) <= columns and line.startswith("  ") for line in lines)
        assert fitted(sentence, terminal=False) == sentence
