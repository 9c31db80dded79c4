"""The database's clock, which measures all leases: workers' clocks may differ by an hour."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class clock(FunctionElement[float]):  # noqa: N801 - an SQL function, as sa.func has them
    """Seconds since 1970 by the database's clock while the statement runs."""

    name = "clock"
    type = sa.Double()
    inherit_cache = True


@compiles(clock, "postgresql")
def _postgresql(_element: clock, _compiler: Any, **_: Any) -> str:
    return "EXTRACT(EPOCH FROM clock_timestamp())::double precision"


@compiles(clock, "sqlite")
def _sqlite(_element: clock, _compiler: Any, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"
