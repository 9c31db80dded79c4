"""After a power loss, a kill or a clock that was set back, commands lose nothing and do what they always do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.ledger import index_runs
from indexer.ledger.database import open_database
from query.calibration import calibration_table
from tests.conftest import fallen, skip_or_fail
from trials import DEMO, ROOT
from trials.clock import Clock
from trials.command import DRAGOMAN
from trials.documents import contents
from trials.power_loss import losses
from trials.server_life import kills_on_servers

pytestmark = pytest.mark.long


@pytest.mark.parametrize("power", [True, False], ids=["power lost", "killed"])
def test_no_command_loses_or_changes_anything_by_a_power_loss_or_a_kill(power: bool, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a disk that loses what was not synced: apt-get install gcc")
    assert fallen(losses(tmp_path, 28, power=power)) == []


@pytest.mark.elastic
def test_a_kill_at_any_request_to_the_servers_is_made_good_by_the_same_command(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a library that sees requests: apt-get install gcc")
    assert fallen(kills_on_servers(tmp_path, 17)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="it preloads a library")
def test_a_clock_that_is_set_back_changes_no_document_calibration_or_run(
    tmp_path: Path, word_model: ModelFolder
) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a clock that can be set: apt-get install gcc")
    clock, source = Clock(tmp_path), tmp_path / "docs.jsonl"
    records = [json.loads(line) for file in DEMO.glob("docs.*.jsonl") for line in file.read_bytes().splitlines()]
    homes = {tmp_path / "goes-on": (0, 0, 0), tmp_path / "set-back": (86_400, 0, -86_400)}

    def dragoman(home: Path, *arguments: str) -> None:
        environment = {**os.environ, **clock.environment, "PYTHONPATH": str(ROOT)}
        options = ("-c", "c", "--home", str(home), "-q", "--device", "cpu")
        subprocess.run([*DRAGOMAN, *arguments, *options], env=environment, check=True, stdout=subprocess.DEVNULL)

    for home, times in homes.items():
        for number, ahead in enumerate(times):
            clock.set(ahead)
            lines = [json.dumps({**record, "text": record["text"][number:]}) for record in records[number * 20 :]]
            source.write_text("\n".join(lines), encoding="utf-8")
            encoder = ("--encoder", str(word_model.path)) if number == 0 else ()
            dragoman(home, "index", str(source), "--prune", "--no-calibration", *encoder)
            dragoman(home, "calibrate", "--balance", str(number / 2))
    expected, actual = (Settings.read(home=home) for home in homes)
    assert contents(actual, "c") == contents(expected, "c")
    ids = []
    for settings in (expected, actual):
        with open_database(settings.database) as engine:
            assert [run.state for run in index_runs.runs(engine, "c")] == ["done"] * 3
            ids.append({(row.id, row.active) for row in calibration_table.all_calibrations(engine, "c")})
    assert ids[0] == ids[1]
