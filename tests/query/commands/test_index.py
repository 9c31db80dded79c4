"""``dragoman index``: languages that records lack, another encoder beside the one that is searched, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.folder import ModelFolder
from query.cli import run

RECORDS = [
    {"id": "a", "text": "The river rose and the town was under water."},
    {"id": "b", "lang": "de", "text": "Die Bäckerei öffnet morgens um sechs."},
]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[0])


def test_records_that_name_no_language_get_the_given_one_and_a_rebuild_is_returned_from(
    small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    place = ["-c", "c", "--home", str(tmp_path / "home")]
    index = ["index", str(source), *place, "--no-calibration", "-q"]
    assert said(capsys, *index, "--encoder", str(small.path), "--lang", "sw")["encoded"] == 2
    assert said(capsys, "status", *place)["languages"] == {"de": 1, "sw": 1}
    before = said(capsys, "status", *place)["encoder"]

    assert said(capsys, *index, "--encoder", str(small.path), "--method", "first", "--rebuild")["encoded"] == 2
    rebuilt = said(capsys, "status", *place)
    assert rebuilt["languages"] == {"de": 1, "en": 1}
    assert (rebuilt["method"], rebuilt["encoder"]) == ("first", before)
    assert said(capsys, "search", "water", *place, "--lang", "en")["hits"]

    assert run(["rollback", *place]) == 0
    returned = said(capsys, "status", *place)
    assert (returned["method"], returned["languages"]) == ("windows", {"de": 1, "sw": 1})
