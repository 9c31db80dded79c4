"""Runs that were ranked differently are told apart by their tags, in lists and in comparisons."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from indexer.collection.settings import Settings
from query.cli import run
from query.evaluation.evaluation_log import EvaluationRow, LoggedRun, Setup
from query.evaluation.run_settings import default_tag, ranking_in_words
from query.ranking.search_choice import RankingOptions
from query.ranking.searcher import Searcher
from trials import DEMO

# {chosen}: the balance that the probe chose, which small differences of the vectors decide
RANKINGS: dict[str, tuple[Mapping[str, Any], str]] = {
    "plain": ({"calibration": "none"}, "plain cosine"),
    "fair": ({}, "balance {chosen}, ratio, passages, mates"),
    "fair-balance-1": ({"balance": 1.0}, "balance 1, ratio, passages, mates"),
    "fair-no-passages-no-mates": ({"passages": False, "mates": False}, "balance {chosen}, ratio"),
    "fair-distance-hybrid": (
        {"margin": "distance", "hybrid": True},
        "balance {chosen}, distance, passages, mates, hybrid",
    ),
}


def setup_of(searcher: Searcher) -> Setup:
    return Setup("demo", "tag", "model", "build", "space", searcher.describe(), "topics", "", "")


@pytest.mark.parametrize("name", RANKINGS)
def test_a_tag_says_what_was_chosen(calibrated: Settings, name: str) -> None:
    options, words = RANKINGS[name]
    with Searcher.open("demo", calibrated, device="cpu", ranking=RankingOptions(**options)) as searcher:
        assert default_tag(searcher, None) == f"multilingual-e5-small-{name}"
        assert default_tag(searcher, ["de", "fr"]) == f"multilingual-e5-small-{name}-to-de-fr"
        run = LoggedRun(kind="language", evaluation_row=EvaluationRow(setup=setup_of(searcher)))
        chosen = searcher.calibration.balance if searcher.calibration else 0
        assert ranking_in_words(run) == words.format(chosen=f"{chosen:g}")


def test_lists_show_and_compare_say_how_runs_were_ranked(
    calibrated: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(calibrated.home)]
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de", "-q"]
    for options in (["--calibration", "none"], ["--no-mates", "--to", "de,en"]):
        assert run(["evaluate", *judged, "-c", "demo", "--baseline", "none", *options, *home]) == 0
    capsys.readouterr()
    assert run(["runs", "list", "--json", *home]) == 0
    second, first = (json.loads(line) for line in capsys.readouterr().out.splitlines()[:2])
    assert [first["tag"], first["ranking"]] == ["multilingual-e5-small-plain", "plain cosine"]
    assert second["tag"] == "multilingual-e5-small-fair-no-mates-to-de-en"
    chosen = f"{second['settings']['balance']:g}"
    assert run(["runs", "show", second["id"], *home]) == 0
    shown = capsys.readouterr().out
    assert f"· balance {chosen} · margin ratio ·" in shown
    assert "· mates' lift 0 ·" in shown
    assert "· documents in de en · depth 1,000" in shown
    assert run(["runs", "compare", first["id"], second["id"], *home]) == 0
    compared = capsys.readouterr().out
    assert f"{second['id']} against {first['id']}: calibration " in compared
    assert f"balance {chosen} (not 0), margin ratio (not absolute)" in compared
    assert "documents in de en (not all languages)" in compared
    assert "encoder" not in compared
    assert run(["runs", "compare", first["id"], second["id"], "--json", *home]) == 0
    assert f"balance {chosen} (not 0)" in json.loads(capsys.readouterr().out)["differences"][second["id"]]
