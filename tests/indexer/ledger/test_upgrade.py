"""A database is made and upgraded in one step: whatever interrupts it, the next command goes on."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from encoders.errors import StoreError
from indexer.ledger import database
from indexer.ledger.database import connect, open_database, open_engine, read_database_id, upgrade
from tests.conftest import fallen
from tests.indexer.workers.conftest import new_database
from trials.database_accidents import copied, fill, interrupted, migrations_with_second, require_complete
from trials.servers.postgres import PostgresServer


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Migrations with a made-up second one."""
    return migrations_with_second(tmp_path / "migrations")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A database of the first version with rows that refer to others."""
    return fill(tmp_path / "filled" / "dragoman.db")


@contextmanager
def every_statement(engine: sa.Engine, act: Callable[[int, str], None]) -> Iterator[None]:
    """Call ``act`` with number and text of each statement before it is done."""
    numbers = itertools.count(1)

    def count(_connection: sa.Connection, _cursor: Any, statement: str, *_: Any) -> None:
        act(next(numbers), statement)

    sa.event.listen(engine, "before_cursor_execute", count)
    try:
        yield
    finally:
        sa.event.remove(engine, "before_cursor_execute", count)


def fail_late(_: int, statement: str) -> None:
    """Fail at a statement near the end of either migration."""
    if "INDEX ix_notes_text" in statement or "TABLE spools" in statement:
        raise sa.exc.OperationalError(statement, {}, Exception("accident"))


@pytest.mark.parametrize(("again", "every"), [(False, 7), (True, 1)])
def test_what_a_kill_at_any_statement_leaves_is_finished_by_the_next_command(
    again: bool, every: int, tmp_path: Path, filled: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files as they are before a statement: the operating system keeps what a killed process wrote."""
    if again:
        monkeypatch.setattr(database, "MIGRATIONS", second)
    left: list[Path] = []
    engine = open_engine(f"sqlite:///{filled if again else tmp_path / 'new.db'}")

    def keep(number: int, _: str) -> None:
        if number % every == 0:
            left.append(copied(Path(str(engine.url.database)), tmp_path / "left" / str(number)))

    with every_statement(engine, keep):
        upgrade(engine)
    engine.dispose()
    assert len(left) >= 4
    for file in left:
        require_complete(file, upgraded=again)


@pytest.mark.parametrize("again", [False, True])
def test_a_statement_that_fails_leaves_the_database_as_it_was(
    again: bool, tmp_path: Path, filled: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if again:
        monkeypatch.setattr(database, "MIGRATIONS", second)
    file = filled if again else tmp_path / "new.db"
    engine = open_engine(f"sqlite:///{file}")
    tables = set(sa.inspect(engine).get_table_names())
    with pytest.raises(StoreError, match="accident"), every_statement(engine, fail_late):
        upgrade(engine)
    assert set(sa.inspect(engine).get_table_names()) == tables
    engine.dispose()
    require_complete(file, upgraded=again)


def test_a_full_disk_is_said_and_the_next_command_makes_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "dragoman.db"
    for pages in (2, 9, 20, 29):
        engine = open_engine(f"sqlite:///{file}")
        sa.event.listen(engine, "connect", lambda raw, _, pages=pages: raw.execute(f"PRAGMA max_page_count={pages}"))
        engine.dispose()
        with pytest.raises(StoreError, match="see that the disk has room"):
            upgrade(engine)
        engine.dispose()
    require_complete(file)


def test_a_migration_that_copies_a_table_keeps_the_rows_that_refer_to_it(
    filled: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MIGRATIONS", second)
    require_complete(filled, upgraded=True)


def test_a_migration_that_leaves_rows_without_the_row_they_refer_to_is_undone(
    filled: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = next((second / "versions").glob("0003*"))
    deletion = '    op.execute("DELETE FROM index_runs")\n'
    version.write_text(version.read_text() + deletion)
    monkeypatch.setattr(database, "MIGRATIONS", second)
    with pytest.raises(StoreError, match="a row of chunks refers to a row of index_runs that is not there"):
        connect(f"sqlite:///{filled}")
    version.write_text(version.read_text().replace(deletion, ""))
    require_complete(filled, upgraded=True)


def test_several_that_open_a_new_database_at_once_make_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'dragoman.db'}"

    def opened(_: int) -> str:
        with open_database(url) as engine:
            return read_database_id(engine)

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(opened, range(6)))) == 1


@pytest.mark.parts
def test_postgresql_is_upgraded_in_one_step_by_one_of_several(
    postgres: PostgresServer, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database(postgres)

    def upgraded(_: int) -> str:
        engine = open_engine(url)
        try:
            return upgrade(engine)
        finally:
            engine.dispose()

    engine = open_engine(url)
    with pytest.raises(StoreError, match="accident"), every_statement(engine, fail_late):
        upgrade(engine)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(upgraded, range(4))) == {"0003"}
    monkeypatch.setattr(database, "MIGRATIONS", second)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(upgraded, range(4))) == {"0003"}


@pytest.mark.long
@pytest.mark.parametrize("again", [False, True])
def test_a_hundred_kills_and_twenty_full_disks_break_nothing(again: bool, tmp_path: Path) -> None:
    outcomes = list(interrupted(tmp_path, again=again, kills=100))
    assert fallen(outcomes) == []
    assert len(outcomes) > 120
