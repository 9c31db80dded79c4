"""What tests of the indexer share."""

from tests.opened_once import opened_once  # noqa: F401 - for every test here
