"""What runs for long, or is used often in one process, uses no more of the machine than before."""

from pathlib import Path

import pytest

from trials import long_running


@pytest.mark.parts
def test_collections_that_were_closed_hold_nothing(tmp_path: Path) -> None:
    outcomes = long_running.alone(long_running.many_collections, tmp_path, 30)
    assert len(outcomes) > 30
    assert not any(outcomes), [outcome for outcome in outcomes if outcome]
