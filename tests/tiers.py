"""The tiers of tests: ``make check``, ``make test``, ``make test-train``, ``make test-all``.

A test is run by ``make check`` unless it is marked. ``parts``: it needs a real part (a server, torch, the browser) or
seconds, and ``make test`` runs it. ``train``: it trains, and ``make test-train`` runs it. ``long``: ``make test-all``
alone runs it.
Tests that ask for a server's fixture, or are marked ``torch``, ``elastic`` or ``train``, are marked ``parts``; so are
those of the papers' wing. Those that ask for Elasticsearch are marked ``elastic``, too, and ``make test-elastic-8``
runs these on an older server.
"""

import re
import sys
import time
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from trials.servers.process import ServerProcess

ELASTIC = frozenset({"elastic", "secured", "killable"})
"""Fixtures that start Elasticsearch."""
PARTS = ELASTIC | {"postgres", "killable_postgres", "redis", "rabbitmq", "browser"}
"""Fixtures that start a real part."""
_TIERS = {"long": "make test-all", "train": "make test-train", "parts": "make test", "": "make check"}


_OF_TORCH = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.torch\b", re.MULTILINE)


def tier(item: pytest.Item) -> str:
    """The mark that decides where a test is run: ``long``, ``train``, ``parts`` or none."""
    return next(mark for mark in _TIERS if not mark or item.get_closest_marker(mark))


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seconds``, which ``make check`` gives."""
    parser.addoption("--seconds", type=float, help="a test that takes longer fails; what is made once does not count")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file that is marked ``torch`` as a whole, and may import it, where its tests are not run anyway."""
    if collection_path.suffix != ".py" or not ("not parts" in config.option.markexpr or find_spec("torch") is None):
        return None
    return _OF_TORCH.search(collection_path.read_text(encoding="utf-8")) is not None or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need real parts, and begin with the files that take long."""
    for item in items:
        needs = PARTS.intersection(getattr(item, "fixturenames", ()))
        if needs & ELASTIC:
            item.add_marker("elastic")
        if (
            needs
            or item.path.parent.name == "papers"
            or any(map(item.get_closest_marker, ("torch", "elastic", "train")))
        ):
            item.add_marker("parts")
    order = list(_TIERS)
    first: dict[Path, int] = {}
    for item in items:
        first[item.path] = min(first.get(item.path, len(order)), order.index(tier(item)))
    items.sort(key=lambda item: first[item.path])


class Bounds:
    """What holds for every test of ``make check``: no server, no torch, a few seconds."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started = 0.0
        self._collected_torch = False
        self._torch = False  # imported already, by a test of another tier
        self._shared = 0.0  # seconds of the fixtures that are made once for all tests
        self._depth = 0  # of such fixtures that need each other

    def pytest_collection_finish(self) -> None:
        """See whether a file of tests imports torch by itself: every test of ``make check`` waits for it then."""
        self._collected_torch = bool(self._seconds) and "torch" in sys.modules

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin, unless torch is here already."""
        if self._collected_torch:
            pytest.fail("a file of tests imports torch: import it in the tests that are marked `torch`", pytrace=False)
        self._started, self._shared = time.monotonic(), 0.0
        self._torch = "torch" in sys.modules
        ServerProcess.allowed = bool(tier(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Take the time of a fixture that is made once for all tests."""
        if fixturedef.scope != "session" or self._depth:
            return (yield)
        self._depth += 1
        started = time.monotonic()
        try:
            return (yield)
        finally:
            self._depth -= 1
            self._shared += time.monotonic() - started

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a test of ``make check`` that belongs to another tier."""
        yield
        if tier(item):
            return
        if not self._torch and "torch" in sys.modules:
            pytest.fail("imports torch, which `make check` does without: mark it `torch`, for `make test`")
        taken = time.monotonic() - self._started - self._shared
        if self._seconds and taken > self._seconds:
            pytest.fail(
                f"took {taken:.1f} s, and a test of `make check` takes {self._seconds:g} s at most: mark it "
                "`parts` (`make test` runs it), or `long` (`make test-all` runs it) and leave a quick test behind"
            )


def pytest_configure(config: pytest.Config) -> None:
    """Hold every test to its tier."""
    config.pluginmanager.register(Bounds(config.getoption("--seconds")))
