"""What tests of search share: the demo collection, indexed once, plain and calibrated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import query
from encoders.folder import ModelFolder
from indexer.indexing import index
from indexer.settings import Settings
from query.calibrating import calibrate

DEMO = Path(query.__file__).parent / "demo"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, default_folder: ModelFolder) -> Settings:
    """The demo collection, indexed and without a calibration."""
    place = Settings.read(home=tmp_path_factory.mktemp("demo"))
    index([str(path) for path in sorted(DEMO.glob("docs.*.jsonl"))], "demo", settings=place, device="cpu")
    return place


@pytest.fixture(scope="session")
def calibrated(tmp_path_factory: pytest.TempPathFactory, demo: Settings) -> Settings:
    """The same, calibrated."""
    home = tmp_path_factory.mktemp("calibrated") / "home"
    shutil.copytree(demo.home, home)
    place = Settings.read(home=home)
    calibrate("demo", place, device="cpu")
    return place
