"""What tests of the indexer share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _default_opened_once(default_opened_once: None) -> None:
    """In all tests of this folder."""
