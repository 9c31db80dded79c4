"""What is made of the runs of T-LASER and its rivals."""

import json
from pathlib import Path

import pytest

from encoders.errors import BadInput
from trials.tlaser_runs import order, read_runs, run_name


def _line(variant: str, seed: int, error: float, **other: object) -> str:
    run = {"variant": variant, "seed": seed, "languages": ["de", "en"], "steps": 9, "tokens": 50 + seed}
    return (
        json.dumps({**run, "errors": {"de-en": error, "en-de": error}, "cross": [0.3], "same": [0.4], **other}) + "\n"
    )


def test_of_two_lines_of_a_model_the_later_counts_and_the_order_is_said_by_seed(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    lines = [_line("t", 0, 0.9), _line("ct", 0, 0.3), _line("t", 1, 0.4), _line("ct", 1, 0.3), _line("laser", 0, 0.2)]
    file.write_text("".join([*lines, _line("t", 0, 0.2)]), encoding="utf-8")
    runs = read_runs(file)
    assert {seed: run.error for seed, run in runs["t"].items()} == pytest.approx({0: 0.2, 1: 0.4})
    assert order(runs)[1] == (
        "cT-LASER: search error below T-LASER's in 1 of 2 seeds; cross at least T-LASER's in 2 of 2 seeds; "
        "search error below LASER's in 0 of 1 seeds. The paper's order does not hold here."
    )
    assert order({"t": runs["t"]}) == []


def test_a_model_of_other_settings_is_a_model_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(_line("ct", 0, 0.3) + _line("ct margin=1.0 summed=0", 0, 0.4), encoding="utf-8")
    assert list(read_runs(file)) == ["ct", "ct margin=1.0 summed=0"]
    assert run_name("ct margin=1.0 summed=0") == "cT-LASER, margin=1.0, summed=0"
    assert run_name("claser") == "cLASER"


@pytest.mark.parametrize("other", [{"steps": 8}, {"tokens": 51}, {"languages": ["en"]}, {"languages": []}])
def test_runs_that_cant_be_compared_are_refused(tmp_path: Path, other: dict[str, object]) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(_line("t", 0, 0.9) + _line("ct", 0, 0.9, **other), encoding="utf-8")
    with pytest.raises(BadInput, match="unlike languages, steps or tokens"):
        read_runs(file)
