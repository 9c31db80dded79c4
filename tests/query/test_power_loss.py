"""After a power loss nothing is lost that a command said was done, and the same command completes the rest."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import fallen, skip_or_fail
from trials.power_loss import losses


@pytest.mark.long
@pytest.mark.parametrize("power", [True, False], ids=["power lost", "killed"])
def test_no_command_loses_or_changes_anything_by_a_power_loss_or_a_kill(power: bool, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a disk that loses what was not synced: apt-get install gcc")
    assert fallen(losses(tmp_path, 24, power=power)) == []
