"""What tests of search share: the demo collection, indexed once, plain and calibrated."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa

import query
from encoders import methods
from encoders.folder import ModelFolder
from encoders.sentence import SentenceEncoder
from encoders.session import Device
from indexer import collection as collections
from indexer.collection import Collection
from indexer.database import connect, transaction
from indexer.indexing import index
from indexer.settings import Settings
from indexer.stores import open_store
from onnx_export.models import DEFAULT, default_path
from query import probe
from query.calibrating import calibrate
from query.cli import run
from tests.query.synthetic import make_word_model
from tests.servers.shared import once

DEMO = Path(query.__file__).parent / "demo"
SOURCES = sorted(DEMO.glob("docs.*.jsonl"))


@cache
def _default_encoder(folder: ModelFolder, threads: int | None) -> SentenceEncoder:
    return SentenceEncoder(folder, device="cpu", threads=threads)


@pytest.fixture(scope="module", autouse=True)
def _default_opened_once() -> Iterator[None]:
    """Whoever opens the default encoder gets the one of this process: to open it takes a second."""

    def opened(folder: ModelFolder, *, device: Device = "auto", threads: int | None = None) -> SentenceEncoder:
        if folder.path == default_path() and device != "cuda":
            return _default_encoder(folder, threads)
        return SentenceEncoder(folder, device=device, threads=threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "SentenceEncoder", opened)
        yield


def copied(home: Path, folder: Path) -> Settings:
    """A copy of a home, in another folder."""
    shutil.copytree(home, folder / "home")
    return Settings.read(home=folder / "home")


@contextmanager
def probed_quickly() -> Iterator[None]:
    """The probe tries a few settings, by the first hits of each query: what becomes of its choice is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "RANKS", (0, 1))
        patch.setattr(probe, "BALANCES", (0.0, 0.75, 1.0))
        patch.setattr(probe, "_DEPTH", 20)
        yield


@pytest.fixture
def quick_probe() -> Iterator[None]:
    """The same, for a test."""
    with probed_quickly():
        yield


def _indexed(folder: Path, encoder: str) -> Path:
    sources = [str(source) for source in SOURCES]
    index(sources, "demo", settings=Settings.read(home=folder), encoder=encoder, device="cpu")
    return folder


def _calibrated(folder: Path, plain: Settings) -> Path:
    settings = copied(plain.home, folder)
    calibrate("demo", settings, device="cpu")
    return settings.home


def _migrated(folder: Path, before: Settings, encoder: str) -> Path:
    home = copied(before.home, folder).home
    command = ["migrate", "-c", "demo", "--encoder", encoder, "--method", "first", "--anyway", "--device", "cpu"]
    with (home / "said.json").open("w") as said, redirect_stdout(said):
        assert run([*command, "--json", "-q", "--home", str(home)]) == 0
    return home


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, default_folder: ModelFolder) -> Settings:
    """The demo collection, indexed and without a calibration."""
    return copied(once("demo", lambda folder: _indexed(folder, DEFAULT)), tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def calibrated(tmp_path_factory: pytest.TempPathFactory, demo: Settings) -> Settings:
    """The same, calibrated."""
    return copied(once("calibrated", lambda folder: _calibrated(folder, demo)), tmp_path_factory.mktemp("calibrated"))


@pytest.fixture(scope="session")
def migrated(calibrated: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The demo collection, asked by another model: documents are their first tokens; ``said.json`` is its report."""
    home = once("migrated", lambda folder: _migrated(folder, calibrated, DEFAULT))
    return copied(home, tmp_path_factory.mktemp("migrated"))


@pytest.fixture(scope="session")
def word_model() -> ModelFolder:
    """A model folder that takes milliseconds for a text, where the default encoder proves nothing more."""
    return ModelFolder.open(once("word-model", lambda folder: make_word_model(folder / "words", SOURCES).path))


@pytest.fixture(scope="session")
def demo_by_words(tmp_path_factory: pytest.TempPathFactory, word_model: ModelFolder) -> Settings:
    """The demo collection by the word model, without a calibration."""
    home = once("demo-by-words", lambda folder: _indexed(folder, str(word_model.path)))
    return copied(home, tmp_path_factory.mktemp("demo-by-words"))


@pytest.fixture(scope="session")
def calibrated_by_words(tmp_path_factory: pytest.TempPathFactory, demo_by_words: Settings) -> Settings:
    """The same, calibrated."""
    with probed_quickly():
        home = once("calibrated-by-words", lambda folder: _calibrated(folder, demo_by_words))
    return copied(home, tmp_path_factory.mktemp("calibrated-by-words"))


@pytest.fixture(scope="session")
def migrated_by_words(
    tmp_path_factory: pytest.TempPathFactory, calibrated_by_words: Settings, word_model: ModelFolder
) -> Settings:
    """The same, asked by the word model's first tokens."""
    home = once("migrated-by-words", lambda folder: _migrated(folder, calibrated_by_words, str(word_model.path)))
    return copied(home, tmp_path_factory.mktemp("migrated-by-words"))


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
