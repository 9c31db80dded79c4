"""An owner who writes while we attach always wins, and is followed: on a real server.

``python -m benchmarks.attack --only "an owner's writes"`` is the longer trial.
"""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from trials.attach_race import race, race_with_follow


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
    assert outcome.writes == 500
    assert outcome.wrong == []
    assert outcome.documents > 50


@pytest.mark.parametrize(
    ("per_second", "companion"),
    [(30, False), pytest.param(30, True, marks=pytest.mark.long), pytest.param(4, False, marks=pytest.mark.long)],
    ids=["30 a second", "30 a second, companion", "4 a second"],
)
def test_an_owner_who_writes_while_it_is_followed_and_calibrated_ends_nothing(
    elastic_url: str, settings: Settings, small: ModelFolder, interruptible: None, *, per_second: float, companion: bool
) -> None:
    parts = urlsplit(elastic_url)
    outcome = race_with_follow(
        f"{parts.scheme}://{parts.netloc}",
        settings,
        parts.path.strip("/"),
        seconds=10,
        per_second=per_second,
        companion=companion,
        encoder=str(small.path),
    )
    seconds = outcome.writes / per_second
    assert seconds in range(10, 200, 2)  # ten, and two more at a time until a calibration is made
    assert outcome.wrong == []
    assert outcome.calibrations > 0
