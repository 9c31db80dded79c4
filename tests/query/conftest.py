"""What tests of search share: the demo collection, indexed once, plain and calibrated."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.index_sources import index
from indexer.ledger.database import open_database, transaction
from onnx_export.models import DEFAULT
from query.calibration_fitting.calibration_fit import calibrate
from query.cli import run
from tests.query.synthetic import make_token_reranker, make_word_model
from trials import DEMO
from trials.servers.shared import once

SOURCES = sorted(DEMO.glob("docs.*.jsonl"))


@pytest.fixture(scope="module", autouse=True)
def _default_opened_once(default_opened_once: None) -> None:
    """In all tests of this folder."""


def copied(home: Path, folder: Path) -> Settings:
    """A copy of a home, in another folder."""
    shutil.copytree(home, folder / "home")
    return Settings.read(home=folder / "home")


class Command:
    """Types commands, and keeps what the last one said; ``place``: options of each of them."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *place: str) -> None:
        self._capsys, self.place, self.out, self.err = capsys, place, "", ""

    def __call__(self, *arguments: object, status: int = 0) -> str:
        """What a command says on stdout; if it must fail, on stderr."""
        self._capsys.readouterr()
        assert run([*map(str, arguments), *self.place]) == status, arguments
        self.out, self.err = self._capsys.readouterr()
        return self.err if status else self.out

    def json(self, *arguments: object) -> list[Any]:
        """What it says on stdout, read as JSON."""
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]

    def one(self, *arguments: object) -> Any:
        (line,) = self.json(*arguments)
        return line


@pytest.fixture
def dragoman(capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands that name their home, or find it by themselves."""
    return Command(capsys)


@pytest.fixture
def on_demo(calibrated_by_words: Settings, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands on the calibrated demo by the word model."""
    return Command(capsys, "-c", "demo", "--home", str(calibrated_by_words.home))


def _own(shared: str) -> Any:
    """A fixture: a copy of a home, to change; commands find it without --home."""

    @pytest.fixture
    def own(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
        monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
        return copied(request.getfixturevalue(shared).home, tmp_path)

    return own


home, real = _own("calibrated_by_words"), _own("calibrated")


def _indexed(folder: Path, encoder: str) -> Path:
    sources = [str(source) for source in SOURCES]
    index(sources, "demo", settings=Settings.read(home=folder), encoder=encoder, device="cpu")
    return folder


def _calibrated(folder: Path, plain: Path) -> Path:
    settings = copied(plain, folder)
    calibrate("demo", settings, device="cpu")
    return settings.home


def _migrated(folder: Path, before: Path, encoder: str) -> Path:
    home = copied(before, folder).home
    command = ["migrate", "-c", "demo", "--encoder", encoder, "--method", "first", "--anyway", "--device", "cpu"]
    with (home / "said.json").open("w") as said, redirect_stdout(said):
        assert run([*command, "--json", "-q", "--home", str(home)]) == 0
    return home


@pytest.fixture(scope="session")
def word_model() -> ModelFolder:
    """A model folder that takes milliseconds for a text, where the default encoder proves nothing more."""
    return ModelFolder.open(once("word-model", lambda folder: make_word_model(folder / "words", SOURCES).path))


@pytest.fixture(scope="session")
def reranker(word_model: ModelFolder) -> ModelFolder:
    """A reranker that takes milliseconds for a pair; its scores mean nothing."""
    return ModelFolder.open(once("reranker", lambda folder: make_token_reranker(folder / "tokens", word_model).path))


class Homes:
    """Homes with the demo collection, made once for a whole test run; fixtures copy them."""

    def __init__(self, encoder: str, name: str) -> None:
        self._encoder, self._name = encoder, name

    def plain(self) -> Path:
        """Without a calibration."""
        return once(f"demo{self._name}", lambda folder: _indexed(folder, self._encoder))

    def calibrated(self) -> Path:
        """Calibrated."""
        return once(f"calibrated{self._name}", lambda folder: _calibrated(folder, self.plain()))

    def migrated(self) -> Path:
        """Calibrated, and migrated to the method *first*; ``said.json`` is the migration's report."""
        return once(f"migrated{self._name}", lambda folder: _migrated(folder, self.calibrated(), self._encoder))


@pytest.fixture(scope="session")
def homes(default_folder: ModelFolder) -> Homes:
    return Homes(DEFAULT, "")


@pytest.fixture(scope="session")
def homes_by_words(word_model: ModelFolder) -> Homes:
    return Homes(str(word_model.path), "-by-words")


def _copy_of(home: Callable[[Homes], Path], homes: str) -> Any:
    """A fixture: settings of a copy of a home with the demo collection."""

    @pytest.fixture(scope="session")
    def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Settings:
        return copied(home(request.getfixturevalue(homes)), tmp_path_factory.mktemp("demo"))

    return copy


demo = _copy_of(Homes.plain, "homes")
calibrated = _copy_of(Homes.calibrated, "homes")
migrated = _copy_of(Homes.migrated, "homes")
demo_by_words = _copy_of(Homes.plain, "homes_by_words")
calibrated_by_words = _copy_of(Homes.calibrated, "homes_by_words")
migrated_by_words = _copy_of(Homes.migrated, "homes_by_words")


def moved(settings: Settings, collection: str, url: str, home: Path) -> Settings:
    """A copy of a home, one collection's documents and vectors put on a server."""
    shutil.copytree(settings.home, home)
    copy = Settings.read(home=home)
    with open_database(copy.database) as engine, transaction(engine) as session:
        row = session.get_one(Collection, collection)
        with closing(row.open_store(copy)) as source, closing(StoreLocation(url, collection).open()) as target:
            target.create(row.model, row.dim)
            for page in source.scan(row.model):
                assert target.put(row.model, page).stored == len(page)
            target.publish()
        row.store = url
    return copy


@pytest.fixture(scope="session")
def service(calibrated: Settings) -> Iterator[httpx.Client]:
    """The calibrated demo collection, served as it is by default."""
    from query.service.service_options import ServiceOptions
    from trials.servers.service import serving

    with serving(ServiceOptions(calibrated, device="cpu")) as client:
        yield client
