"""A service holds while its collections are made, changed and deleted; and the trial of it finds what falls."""

from pathlib import Path

import pytest

from tests.conftest import fallen
from trials import long_running
from trials.soak import Collection, Known, soak

BEFORE, AFTER = {"1": "old", "2": "old"}, {"2": "new", "3": "new"}


def test_what_a_search_may_find_is_known_before_a_change_meanwhile_and_after() -> None:
    collection = Collection("c")
    collection.finish(BEFORE)
    begun = collection.known[-1].since
    assert collection.between(begun).must == collection.between(begun).may == frozenset(BEFORE.items())
    collection.change(AFTER)
    meanwhile = collection.between(begun)
    assert meanwhile.must == frozenset()
    assert meanwhile.may == frozenset(BEFORE.items()) | frozenset(AFTER.items())
    collection.finish(AFTER)
    assert collection.between(begun).may == meanwhile.may
    after = collection.between(collection.known[-1].since)
    assert (after.must, after.exists, after.missing) == (frozenset(AFTER.items()), True, False)
    collection.finish({}, exists=False)
    assert collection.between(collection.known[-1].since) == Known()


@pytest.mark.long
def test_a_service_is_right_while_collections_are_made_changed_and_deleted(tmp_path: Path, elastic_url: str) -> None:
    outcomes = list(soak(tmp_path, elastic_url, 60))
    assert fallen(outcomes) == []
    assert len(outcomes) > 100


@pytest.mark.parts
def test_collections_that_were_closed_hold_nothing(tmp_path: Path) -> None:
    outcomes = long_running.alone(long_running.many_collections, tmp_path, 30)
    assert len(outcomes) > 30
    assert not any(outcomes), [outcome for outcome in outcomes if outcome]
