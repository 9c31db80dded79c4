"""A service holds while its collections are made, changed and deleted."""

from pathlib import Path

import pytest

from tests.conftest import fallen
from trials import long_running


@pytest.mark.long
def test_a_service_is_right_while_collections_are_made_changed_and_deleted(tmp_path: Path, elastic_url: str) -> None:
    outcomes = list(long_running.soak(tmp_path, elastic_url, 60))
    assert fallen(outcomes) == []
    assert len(outcomes) > 100


@pytest.mark.long
def test_collections_that_were_closed_hold_nothing(tmp_path: Path) -> None:
    outcomes = long_running.alone(long_running.many_collections, tmp_path, 30)
    assert len(outcomes) > 30
    assert not any(outcomes), [outcome for outcome in outcomes if outcome]
