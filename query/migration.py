"""A migration is the active calibration: leaving it is choosing the one before."""

from __future__ import annotations

import sqlalchemy as sa

from indexer import collection as collections
from query import calibration_table

BEFORE = "before"
"""Entry of a migration's map that names the calibration it took the place of."""


def leave(engine: sa.Engine, name: str) -> str:
    """Choose the calibration that a collection had before it migrated.

    Returns:
        its id, ``none`` where it had none; nothing where the collection has not migrated.

    Raises:
        BadInput: there is no such collection.
    """
    kept = calibration_table.active(engine, collections.require(engine, name))
    before = str(kept.summary.get("map", {}).get(BEFORE, "")) if kept else ""
    if before:
        calibration_table.use(engine, name, before)
    return before
