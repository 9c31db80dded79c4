"""What tests of the service share: the calibrated demo collection, served."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from indexer.collection.settings import Settings
from query.service.options import ServiceOptions
from trials.servers.service import serving


@pytest.fixture(scope="session")
def service(calibrated: Settings) -> Iterator[httpx.Client]:
    """The calibrated demo collection, served as it is by default."""
    with serving(ServiceOptions(calibrated, device="cpu")) as client:
        yield client
