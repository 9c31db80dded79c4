"""``dragoman search`` with each of its options: what is asked on the command line is how it is ranked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from indexer.collection.settings import Settings
from query.cli import run
from query.ranking.search_choice import RankingOptions
from query.ranking.searcher import Searcher

QUERY = "Der Imker Karl von Frisch und die Bienen im Garten"
Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def ask(calibrated_by_words: Settings, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The hits of the command."""

    def asked(*options: str) -> list[dict[str, Any]]:
        place = ["-c", "demo", "--home", str(calibrated_by_words.home), "--lang", "de", "--json", "-k", "20"]
        assert run(["search", QUERY, *place, *options]) == 0
        hits: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["hits"]
        return hits

    return asked


@pytest.mark.parametrize(
    ("options", "ranking"),
    [
        (["--balance", "0"], RankingOptions(balance=0.0)),
        (["--balance", "1", "--margin", "distance"], RankingOptions(balance=1.0, margin="distance")),
        (["--no-passages"], RankingOptions(passages=False)),
        (["--hybrid"], RankingOptions(hybrid=True)),
        (["--calibration", "none"], RankingOptions(calibration="none")),
    ],
)
def test_an_option_of_the_ranking_ranks_so(
    options: list[str], ranking: RankingOptions, ask: Ask, calibrated_by_words: Settings
) -> None:
    with Searcher.open("demo", calibrated_by_words, device="cpu", ranking=ranking) as searcher:
        expected = [(hit.doc_id, pytest.approx(hit.score, abs=1e-6)) for hit in searcher.search(QUERY, lang="de", k=20)]
    found = [(hit["id"], hit["score"]) for hit in ask(*options)]
    assert found == expected
    assert found != [(hit["id"], hit["score"]) for hit in ask()]


def test_languages_and_fields_bound_what_is_found(ask: Ask) -> None:
    assert {hit["lang"] for hit in ask("--to", "ar,ja")} == {"ar", "ja"}
    concept = ask()[0]["fields"]["concept"]
    among = ask("--filter", f"concept={concept}")
    assert {hit["fields"]["concept"] for hit in among} == {concept}
    assert len(among) > 1


def test_explain_speaks_of_languages_only_where_they_are_taken_out(
    calibrated_by_words: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["-c", "demo", "--home", str(calibrated_by_words.home), "--lang", "de"]
    for balance, spoken_of in (("0", False), ("0.5", True)):
        capsys.readouterr()
        assert run(["search", QUERY, *place, "--balance", balance, "--explain"]) == 0
        said = capsys.readouterr()
        assert ("without languages" in said.out, "without languages" in said.err) == (spoken_of, spoken_of)


def test_explain_says_what_a_score_is_made_of(
    ask: Ask, calibrated_by_words: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = ask("--explain", "--balance", "1")[0]["parts"]
    assert {"cosine", "corrected", "passage", "opening", "fwd", "bwd"} <= parts.keys()
    place = ["-c", "demo", "--home", str(calibrated_by_words.home), "--lang", "de", "--balance", "1"]
    assert run(["search", QUERY, *place, "-k", "1", "--explain"]) == 0
    said = capsys.readouterr().out
    assert f"cosine {parts['cosine']:.3f}, without languages {parts['corrected']:.3f}" in said
    assert f"best passage {parts['passage']:.3f}, opening {parts['opening']:.3f}" in said
