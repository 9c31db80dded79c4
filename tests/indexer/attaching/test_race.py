"""An owner who writes while we attach always wins, and is followed: on a real server.

``python -m benchmarks.attach_race`` is the longer trial.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from trials.attach_race import race


@pytest.mark.parametrize(
    "companion", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in place", "companion"]
)
def test_every_text_is_the_owners_and_every_vector_belongs_to_its_text(
    elastic_url: str, tmp_path: Path, *, companion: bool
) -> None:
    parts = urlsplit(elastic_url)
    outcome = race(
        f"{parts.scheme}://{parts.netloc}",
        parts.path.strip("/"),
        f"sqlite:///{tmp_path / 'race.db'}",
        250,
        companion=companion,
    )
    assert sum(outcome.writes.values()) == 500
    assert (outcome.lost, outcome.wrong) == ([], [])
    assert outcome.documents > 50
