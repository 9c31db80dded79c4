"""The command ``dragoman`` as a process of its own."""

from __future__ import annotations

import os
import sys

from indexer.collection.settings import Settings
from trials import ROOT

DRAGOMAN = (sys.executable, "-m", "query.cli")


def environment_of(settings: Settings) -> dict[str, str]:
    """The environment of a ``dragoman`` that works with a home, store, database and broker."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DRAGOMAN_HOME": str(settings.home),
        "DRAGOMAN_STORE": settings.store,
        "DRAGOMAN_DATABASE": settings.database,
        "DRAGOMAN_BROKER": settings.broker,
    }
