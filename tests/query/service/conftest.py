"""What tests of the service share: the calibrated demo collection, served."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from indexer.settings import Settings
from query.service.options import ServiceOptions
from tests.opened_once import opened_once
from tests.servers.service import serving


@pytest.fixture(scope="package", autouse=True)
def _opened_once() -> Iterator[None]:
    """These tests are of the service, not of how it opens the default encoder."""
    with opened_once():
        yield


@pytest.fixture(scope="package")
def service(calibrated: Settings) -> Iterator[httpx.Client]:
    """The calibrated demo collection, served as it is by default."""
    with serving(ServiceOptions(calibrated, device="cpu")) as client:
        yield client
