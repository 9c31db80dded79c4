"""In no terminal are ids, languages, measure names and figures cut."""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from tests.query.commands.test_runs import Command, dragoman, judged  # noqa: F401
from tests.query.conftest import SOURCES

TAG = "a-run-with-a-long-name-of-more-than-fifty-characters"


@pytest.fixture(params=[60, 80, 100, 160])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> int:
    """Width of the terminal that stdout is."""
    columns: int = request.param
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    return columns


def is_whole(texts: Iterable[str], output: str, width: int) -> None:
    """Check that each text appears whole, and no table is wider than the terminal."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = plain.splitlines()
    words = {word for line in lines for word in line.split()}
    assert [text for text in texts if text not in words and not (" " in text and text in plain)] == []
    assert "…" not in plain.replace("SOURCE…", "")
    assert [line for line in lines if "───" in line and len(line) > width] == []


def means_of(runs: Iterable[dict[str, Any]], digits: int = 3) -> set[str]:
    """The figures of runs, as tables show them."""
    return {f"{mean:.{digits}f}" for run in runs for name, mean in run["means"].items() if not name.startswith("own")}


def test_evaluate_shows_languages_measures_and_ids(dragoman: Command, judged: list[str], width: int) -> None:  # noqa: F811
    runs = json.loads(dragoman("evaluate", *judged, "--tag", TAG, "--json"))["runs"]
    text = dragoman("evaluate", *judged, "--tag", TAG)
    names = {"MAP", "nDCG@10", "R@100", "P@10", "Judged@10", "PEER@100", "own", "BM25"}
    main = [run for run in runs if run["kind"] in {"language", "pooled"}]
    is_whole(
        names | {"de", "en", "all, pooled", "2.de", "2.en", "2.all", f"{TAG}, evaluation 2"} | means_of(main),
        text,
        width,
    )


def test_runs_list_shows_ids_languages_and_measures(dragoman: Command, judged: list[str], width: int) -> None:  # noqa: F811
    dragoman("evaluate", *judged, "--tag", TAG)
    runs = [json.loads(line) for line in dragoman("runs", "list", "--all", "--json").splitlines()]
    text = dragoman("runs", "list", "--all")
    names = {name for run in runs for name in run["means"]}
    assert "own-language" in names
    is_whole({run["id"] for run in runs} | names | means_of(runs) | {"de → de, BM25", "all, pooled"}, text, width)


def test_runs_show_shows_topics_and_measures(dragoman: Command, judged: list[str], width: int) -> None:  # noqa: F811
    dragoman("evaluate", *judged)
    shown = json.loads(dragoman("runs", "show", "1", "--json"))
    is_whole(
        {*shown["scores"], *shown["means"], "de", "en"} | means_of([shown], 4), dragoman("runs", "show", "1"), width
    )


def test_runs_compare_shows_measures_ids_and_every_p(dragoman: Command, judged: list[str], width: int) -> None:  # noqa: F811
    dragoman("evaluate", *judged)
    dragoman("evaluate", *judged, "--depth", "1")
    ids = ["1.all", "2.all"]
    compared = json.loads(dragoman("runs", "compare", *ids, "--json"))["comparisons"]
    text = dragoman("runs", "compare", *ids)
    figures = {f"{one[name]:.3f}" for one in compared for name in ("mean_a", "mean_b", "p_randomisation")}
    figures |= {f"{one['difference']:+.3f}" for one in compared}
    is_whole({*ids, *(one["measure"] for one in compared), "t-test", "Holm"} | figures, text, width)


def test_the_calibrations_of_a_collection_are_listed(
    calibrated_by_words: Settings, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["-c", "demo", "--home", str(calibrated_by_words.home)]
    assert run(["calibrate", "--list", "--json", *place]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run(["calibrate", "--list", *place]) == 0
    ids, states = {one["calibration"] for one in listed}, {one["decided_by"] for one in listed}
    is_whole(ids | states | {"active", "balance", "mates", "languages"}, capsys.readouterr().out, width)


def test_search_and_status_show_ids_and_languages(
    calibrated_by_words: Settings, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["-c", "demo", "--home", str(calibrated_by_words.home)]
    assert run(["search", "Garten", "--lang", "de", "--flat", "--json", *place]) == 0
    hits = json.loads(capsys.readouterr().out)["hits"]
    assert run(["search", "Garten", "--lang", "de", "--flat", *place]) == 0
    out = capsys.readouterr().out.replace(" …", "")
    is_whole({f"[{hit['id']}]" for hit in hits} | {hit["lang"] for hit in hits}, out, width)
    assert run(["status", "--json", *place]) == 0
    status = json.loads(capsys.readouterr().out)
    assert run(["status", *place]) == 0
    ids = {status["calibrations"][0]["calibration"] + ":", *status["languages"]}
    is_whole(ids, capsys.readouterr().out, width)


def test_encoders_show_their_names(default_folder: ModelFolder, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["encoders", "list"]) == 0
    names = {f"{default_folder.path.name} (default)", "int8", "384", "languages"}
    is_whole(names, capsys.readouterr().out, width)
    assert run(["encoders", "show", default_folder.path.name]) == 0
    assert default_folder.config.build_id in capsys.readouterr().out


def test_a_training_shows_each_language_with_its_figures(
    tmp_path: Path, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    learn = ["train", "cr5", *map(str, SOURCES[:3]), "--dimensions", "16", "--ridge", "0.3"]
    assert run([*learn, "-o", str(tmp_path / "one"), "--json", "-q"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert run([*learn, "-o", str(tmp_path / "two")]) == 0
    figures = {f"{count:,}" for name in ("documents", "vocabulary") for count in report[name].values()}
    is_whole({*report["documents"], "documents", "words"} | figures, capsys.readouterr().out, width)
