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


@pytest.fixture(scope="session")
def migrated(calibrated: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The demo collection, asked by another model: documents are their first tokens."""
    home = tmp_path_factory.mktemp("migrated") / "home"
    shutil.copytree(calibrated.home, home)
    settings = Settings.read(home=home)
    migrate("demo", DEFAULT, "first", settings, anyway=True, device="cpu")
    return settings


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
