"""Runs that were ranked differently are told apart by their tags, in lists and in comparisons."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from indexer.collection.settings import Settings
from query.cli import run
from query.evaluation.evaluation_log import EvaluationRow, LoggedRun, Setup
from query.evaluation.run_settings import default_tag, differences, ranking_in_words, settings_in_words
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from trials import DEMO

RANKINGS: dict[str, tuple[Mapping[str, Any], str]] = {
    "plain": ({"calibration": "none"}, "plain cosine"),
    "fair": ({}, "balance 0.75, mates"),
    "fair-balance-1": ({"balance": 1.0}, "balance 1, mates"),
    "fair-hybrid": ({"hybrid": True}, "balance 0.75, mates, hybrid"),
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
        assert ranking_in_words(run) == words


def test_a_run_of_an_earlier_version_is_listed_and_compared_with_its_settings(calibrated: Settings) -> None:
    with Searcher.open("demo", calibrated, device="cpu") as searcher:
        setup = setup_of(searcher)
    kept = {name: value for name, value in setup.settings.items() if name not in {"mates", "maps"}}
    gone = {
        "margin": "ratio", "passages": True, "lift": 0.8, "bar": 0.5, "second_look": False, "mix": [1, 1, 1, 2],
        "calibration": "0123456789abcdef",
    }  # fmt: skip
    new, old = (
        LoggedRun(kind="language", lang="de", evaluation_row=EvaluationRow(setup=one))
        for one in (setup, replace(setup, settings={**kept, **gone}))
    )
    assert ranking_in_words(old) == ranking_in_words(new) == "balance 0.75, mates"
    words = settings_in_words(old)
    assert {"margin": "ratio", "lift": "0.8", "second look": "no", "mix": "1 1 1 2"}.items() <= words.items()
    assert "mates" not in words
    assert settings_in_words(new)["mates"] == "yes"
    assert differences(new, old) == [f"calibration {setup.settings['calibration']} (not 0123456789abcdef)"]


def test_lists_show_and_compare_say_how_runs_were_ranked(
    calibrated: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(calibrated.home)]
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de", "-q"]
    for options in (["--calibration", "none"], ["--hybrid", "--to", "de,en"]):
        assert run(["evaluate", *judged, "-c", "demo", "--baseline", "none", *options, *home]) == 0
    capsys.readouterr()
    assert run(["runs", "list", "--json", *home]) == 0
    second, first = (json.loads(line) for line in capsys.readouterr().out.splitlines()[:2])
    assert [first["tag"], first["ranking"]] == ["multilingual-e5-small-plain", "plain cosine"]
    assert second["tag"] == "multilingual-e5-small-fair-hybrid-to-de-en"
    assert run(["runs", "show", second["id"], *home]) == 0
    shown = capsys.readouterr().out
    assert "· balance 0.75 · mates yes · weights 1 · hybrid yes ·" in shown
    assert "· documents in de en · depth 1,000" in shown
    assert run(["runs", "compare", first["id"], second["id"], *home]) == 0
    compared = capsys.readouterr().out
    assert f"{second['id']} against {first['id']}: calibration " in compared
    assert "mates yes (not no), hybrid yes (not no)" in compared
    assert "documents in de en (not all languages)" in compared
    assert "encoder" not in compared
    assert run(["runs", "compare", first["id"], second["id"], "--json", *home]) == 0
    assert "mates yes (not no)" in json.loads(capsys.readouterr().out)["differences"][second["id"]]
