"""What tests share: a home and a cache of their own, the default encoder, real texts."""

import gzip
import inspect
import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, TypeVar

import hypothesis
import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.folder.model_folder import ModelFolder
from encoders.machine.placement import Device
from encoders.methods import method_registry
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.token_windows import TitledWindows
from indexer.collection.settings import Settings
from indexer.ledger.database import connect
from onnx_export.models import DEFAULT, default_path, find_model
from tests import tiers
from trials.servers import shared
from trials.servers.elastic import ElasticServer, client_of, killable_server
from trials.servers.postgres import PostgresServer
from trials.servers.process import S, ServerMissing
from trials.servers.rabbitmq import RabbitServer
from trials.servers.redis import RedisServer
from trials.servers.secured import secured_server
from trials.servers.shared import once, shared_folder

_HERE = Path(__file__).parent
Capture = pytest.CaptureFixture[str]
Log = pytest.LogCaptureFixture
Patch = pytest.MonkeyPatch
R = TypeVar("R")

hypothesis.settings.register_profile("dragoman", deadline=None)  # beside other tests an example may wait for a core
hypothesis.settings.load_profile("dragoman")

pytest_addoption, pytest_ignore_collect = tiers.pytest_addoption, tiers.pytest_ignore_collect


def pytest_configure(config: pytest.Config) -> None:
    """Open the folder that the processes of this run share; several processes take one core each."""
    shared_folder()
    os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # it sends usage data, also after the test that uses Haystack
    if getattr(config.option, "numprocesses", None):
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")
    tiers.pytest_configure(config)


def fallen(outcomes: Iterable[str]) -> list[str]:
    """What fell of an attack's tries; fails if the attack tried nothing."""
    tried = list(outcomes)
    assert tried, "nothing was tried"
    return [fall for fall in tried if fall]


def skip_or_fail(reason: str) -> NoReturn:
    """Say why a test can't run here: in CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests know their tier; tests that need the train extra are skipped where it is not installed."""
    tiers.pytest_collection_modifyitems(items)
    missing = [name for name in ("torch", "transformers", "onnxscript") if find_spec(name) is None]
    skip = pytest.mark.skip(reason=f"needs the train extra, not installed: {', '.join(missing)}")
    for item in items:
        if missing and item.get_closest_marker("torch"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A log may end within a character. pytest-xdist's reports are UTF-8, so half a character is escaped."""
    report = yield
    report.sections = [(name, content.encode(errors="backslashreplace").decode()) for name, content in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def _own_places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the developer's home, cache or settings; a hub is never asked."""
    places = tmp_path_factory.mktemp("places")
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith("DRAGOMAN_") and name != "DRAGOMAN_DATA"]:
        patch.delenv(name)
    patch.setenv("DRAGOMAN_HOME", str(places / "home"))
    patch.setenv("DRAGOMAN_CACHE", str(shared_folder() / "cache"))
    patch.setenv("HF_HUB_OFFLINE", "1")
    yield
    patch.undo()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Everything in a folder of this test's own."""
    return Settings.read(home=tmp_path / "home")


@pytest.fixture
def engine(settings: Settings) -> Iterator[sa.Engine]:
    """The ledger of this test's own home."""
    opened = connect(settings.database)
    yield opened
    opened.dispose()


@pytest.fixture(scope="session")
def default_folder(_own_places: None) -> ModelFolder:
    """The default encoder's folder, made once for all tests."""
    return ModelFolder.open(once("default-model", lambda _: find_model(DEFAULT, Console(quiet=True)).path))


@cache
def opened_once(folder: ModelFolder, threads: int | None = None) -> SentenceEncoder:
    """A sentence encoder that a process opens once, because to open the default encoder takes a second."""
    return SentenceEncoder(folder, device="cpu", threads=threads)


@pytest.fixture(scope="session")
def encoder(default_folder: ModelFolder) -> Encoder:
    return TitledWindows(opened_once(default_folder))


@pytest.fixture(scope="module")
def default_opened_once() -> Iterator[None]:
    """Opening the default encoder gives the one that this process has open."""

    def opened(folder: ModelFolder, *, device: Device = "auto", threads: int | None = None) -> SentenceEncoder:
        if folder.path == default_path() and device != "cuda":
            return opened_once(folder, threads)
        return SentenceEncoder(folder, device=device, threads=threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method_registry, "SentenceEncoder", opened)
        yield


@pytest.fixture(scope="session")
def small() -> ModelFolder:
    """An encoder with random weights, where the default encoder proves nothing more."""
    from tests.onnx_export.conftest import small_folder

    return ModelFolder.open(once("small-model", lambda folder: small_folder(folder / "small").path))


def started(name: str, make: Callable[[Path], S]) -> S:
    """A server that is started once for a whole test run; the test is skipped where it is not installed."""
    try:
        return shared.started(name, make)
    except ServerMissing as missing:
        skip_or_fail(str(missing))


@pytest.fixture(scope="session")
def elastic() -> ElasticServer:
    """A real Elasticsearch server without security, for all tests."""
    return started("elasticsearch", ElasticServer)


@pytest.fixture(scope="session")
def secured() -> ElasticServer:
    """A real Elasticsearch server with security."""
    return started("secured", secured_server)


@contextmanager
def installed(starting: AbstractContextManager[R]) -> Iterator[R]:
    """What runs in a context; the test is skipped where it is not installed."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(starting)
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        yield running


def lent(name: str, make: Callable[[Path], S]) -> AbstractContextManager[S]:
    """A server that a test has for itself and may kill; the test is skipped where it is not installed."""
    return installed(shared.lent(name, make))


@pytest.fixture
def killable() -> Iterator[ElasticServer]:
    """A real Elasticsearch server that a test has for itself and may kill; it has little room for writes."""
    with lent("killable", killable_server) as server:
        yield server


@pytest.fixture
def elastic_url(elastic: ElasticServer) -> Iterator[str]:
    """URL of a place for stores on the server that is this test's own, and empty again afterwards."""
    with _place(elastic) as url:
        yield url


@pytest.fixture
def killable_url(killable: ElasticServer) -> Iterator[str]:
    with _place(killable) as url:
        yield url
        killable.revive()


@contextmanager
def _place(server: ElasticServer) -> Iterator[str]:
    prefix = f"test-{uuid.uuid4().hex[:12]}"
    yield f"{server.url}/{prefix}"
    with client_of(server.url) as client:
        names = client.indices.get(index=f"{prefix}*", expand_wildcards="all").body
        if names:
            client.indices.delete(index=list(names))


@pytest.fixture
def killable_postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL that a test has for itself and may kill."""
    with lent("killable-postgresql", PostgresServer) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    return started("postgresql", PostgresServer)


@pytest.fixture(scope="session")
def redis() -> RedisServer:
    return started("redis", RedisServer)


@pytest.fixture(scope="session")
def rabbitmq() -> RabbitServer:
    return started("rabbitmq", RabbitServer)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The open test collections; ``DRAGOMAN_DATA=none`` says that there are none, also in CI."""
    folder = Path(os.environ.get("DRAGOMAN_DATA", _HERE.parent.parent / "shared" / "data"))
    if str(folder) == "none":
        pytest.skip("DRAGOMAN_DATA=none: this test needs the open test collections")
    if not folder.is_dir():
        skip_or_fail(f"the open test collections are not at {folder}; name their folder in DRAGOMAN_DATA")
    return folder


def read_documents(file: Path, most: int) -> list[Document]:
    """The first documents of one of the open collections' files."""
    documents: list[Document] = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            if len(documents) == most:
                break
            record = json.loads(line)
            documents.append(Document(record["id"], record["lang"], record["text"], record["title"]))
    return documents


@pytest.fixture(scope="session")
def real_texts(data_dir: Path) -> list[Document]:
    """Real texts in 22 languages and 12 scripts, ten of each: 220."""
    languages = {"lohelp": "en de fr it es ru fi ja zh ko vi el", "ntrex": "ar th hi bn ta he fa ka sw uk"}
    files = [data_dir / name / f"docs.{lang}.jsonl.gz" for name, langs in languages.items() for lang in langs.split()]
    return [document for file in files for document in read_documents(file, 10)]


def until(happens: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that another process or thread does."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, f"not so after {seconds:g} s: {inspect.getsource(happens).strip()}"
        time.sleep(0.05)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, as Python has it, though the tests may run where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
