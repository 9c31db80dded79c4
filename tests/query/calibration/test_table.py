"""Calibrations in the database: what an older one becomes."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command

from indexer.ledger import database
from indexer.ledger.database import connect


def test_of_several_active_calibrations_of_an_older_database_the_newest_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'older.db'}"
    engine = database.open_engine(url)
    config = database._alembic()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        for number, (model, active) in enumerate([("m", True), ("m", True), ("m", False), ("n", True)]):
            connection.execute(
                sa.text("INSERT INTO calibrations VALUES ('c', :id, :model, :made, :active, '{}', x'')"),
                {"id": f"{number}", "model": model, "made": f"2026-01-0{number + 1} 00:00:00", "active": active},
            )
    engine.dispose()
    with connect(url).connect() as connection:
        rows = connection.execute(sa.text("SELECT id, active FROM calibrations ORDER BY id")).all()
    assert [(one, bool(active)) for one, active in rows] == [("0", False), ("1", True), ("2", False), ("3", True)]
