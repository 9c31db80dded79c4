"""What tests of search share: the demo collection, indexed once, plain and calibrated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

import query
from encoders.folder import ModelFolder
from indexer import collection as collections
from indexer.collection import Collection
from indexer.database import connect, transaction
from indexer.indexing import index
from indexer.settings import Settings
from indexer.stores import open_store
from onnx_export.models import DEFAULT
from query.calibrating import calibrate
from query.migrating import migrate
from tests.servers.shared import once

DEMO = Path(query.__file__).parent / "demo"


def _copy(home: Path, folder: Path) -> Settings:
    """A copy of a home, in another folder."""
    shutil.copytree(home, folder / "home")
    return Settings.read(home=folder / "home")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, default_folder: ModelFolder) -> Settings:
    """The demo collection, indexed and without a calibration."""

    def make(folder: Path) -> Path:
        sources = [str(path) for path in sorted(DEMO.glob("docs.*.jsonl"))]
        index(sources, "demo", settings=Settings.read(home=folder), device="cpu")
        return folder

    return _copy(once("demo", make), tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def calibrated(tmp_path_factory: pytest.TempPathFactory, demo: Settings) -> Settings:
    """The same, calibrated."""

    def make(folder: Path) -> Path:
        settings = _copy(demo.home, folder)
        calibrate("demo", settings, device="cpu")
        return settings.home

    return _copy(once("calibrated", make), tmp_path_factory.mktemp("calibrated"))


@pytest.fixture(scope="session")
def migrated(calibrated: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The demo collection, asked by another model: documents are their first tokens."""

    def make(folder: Path) -> Path:
        settings = _copy(calibrated.home, folder)
        migrate("demo", DEFAULT, "first", settings, anyway=True, device="cpu")
        return settings.home

    return _copy(once("migrated", make), tmp_path_factory.mktemp("migrated"))


def moved(settings: Settings, collection: str, url: str, home: Path) -> Settings:
    """A copy of a home, one collection's documents and vectors put on a server."""
    shutil.copytree(settings.home, home)
    copy = Settings.read(home=home)
    engine = connect(copy.database)
    found = collections.require(engine, collection)
    source, target = found.open_store(copy), open_store(url, collection)
    target.create(found.model, found.dim)
    for page in source.scan(found.model):
        assert target.put(found.model, page).stored == len(page)
    target.publish()
    for store in (source, target):
        store.close()
    with transaction(engine) as session:
        session.execute(sa.update(Collection).where(Collection.name == collection).values(store=url))
    engine.dispose()
    return copy
