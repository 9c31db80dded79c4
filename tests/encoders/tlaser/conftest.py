"""These tests need the train extra."""

from importlib.util import find_spec

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="needs the train extra, not installed: torch")
    for item in items:
        if find_spec("torch") is None and item.get_closest_marker("torch"):
            item.add_marker(skip)
