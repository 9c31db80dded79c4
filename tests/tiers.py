"""The three tiers of tests: ``make check``, ``make test``, ``make test-all``.

A test is run by ``make check`` unless it is marked. ``parts``: it needs a real part (a server, torch, the browser), and
``make test`` runs it. ``long``: ``make test-all`` alone runs it. Tests that ask for a server's fixture, or are marked
``torch``, are marked ``parts`` here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

PARTS = frozenset({"elastic", "secured", "killable", "postgres", "killable_postgres", "redis", "rabbitmq", "browser"})
"""Fixtures that start a real part."""
_TIERS = {"long": "make test-all", "parts": "make test", "": "make check"}


def tier(item: pytest.Item) -> str:
    """The mark that decides where a test is run: ``long``, ``parts`` or none."""
    return next(mark for mark in _TIERS if not mark or item.get_closest_marker(mark))


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seconds``, which ``make check`` gives."""
    parser.addoption(
        "--seconds", type=float, help="a test that takes longer fails; things made once for all do not count"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need real parts, and begin with the files that take long."""
    for item in items:
        needs = PARTS.intersection(getattr(item, "fixturenames", ()))
        if needs or item.get_closest_marker("torch"):
            item.add_marker("parts")
    order = list(_TIERS)
    first: dict[Path, int] = {}
    for item in items:
        first[item.path] = min(first.get(item.path, len(order)), order.index(tier(item)))
    items.sort(key=lambda item: first[item.path])


class Stopwatch:
    """What a test takes, without the fixtures that are made once for all tests."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self._depth = 0
        self._shared = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Take the time of the outermost fixture of the session."""
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
        torch = "torch" in sys.modules
        yield
        if tier(item):
            return
        if not torch and "torch" in sys.modules:
            pytest.fail("imports torch, which `make check` does without: mark it `torch`, for `make test`")
        taken = time.monotonic() - item.stash[_STARTED] - self._shared
        if self.limit and taken > self.limit:
            pytest.fail(
                f"took {taken:.1f} s, and a test of `make check` takes {self.limit:g} s at most: mark it `parts` "
                "(`make test` runs it), or `long` (`make test-all` runs it) and leave a quick test behind"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin."""
        self._shared = 0.0
        item.stash[_STARTED] = time.monotonic()


_STARTED = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """Take the time of every test."""
    config.pluginmanager.register(Stopwatch(config.getoption("--seconds")))
