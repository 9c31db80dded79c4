"""SQLite files: who may read them, and how they are read where they can't be written."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import sqlalchemy as sa

from encoders.errors import StoreError
from encoders.folder.whole_folder import make_private_folder
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from indexer.ledger.sqlite import sqlite_engine
from indexer.stores.sqlite_file import SqliteFile
from trials.database_accidents import unwritable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one row, which nobody has open."""
    folder = tmp_path / "home" / "store"
    make_private_folder(folder)
    write(folder / "a.db", "CREATE TABLE numbers (number INTEGER)")
    add_row(folder / "a.db")
    return folder / "a.db"


def write(file: Path, statement: str) -> None:
    engine = sqlite_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def add_row(file: Path) -> None:
    write(file, "INSERT INTO numbers VALUES (1)")


def rows(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM numbers").scalar_one())


@contextmanager
def read_only(file: Path) -> Iterator[tuple[Path, sa.Engine]]:
    """Another path to a database's folder, by which it can't be written, and the database there."""
    view = file.parent.with_name("view")

    try:
        with unwritable(file.parent, view):
            engine = sqlite_engine(f"sqlite:///{view / file.name}")
            yield view, engine
            engine.dispose()
    except PermissionError as error:
        pytest.skip(f"folders can't be mounted: {error}")


def test_files_and_folders_are_their_owners_alone(file: Path) -> None:
    old = os.umask(0o022)
    try:
        engine = sqlite_engine(f"sqlite:///{file}")
        with engine.connect() as connection:
            connection.exec_driver_sql("INSERT INTO numbers VALUES (2)")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        engine.dispose()
    finally:
        os.umask(old)
    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (file.parent, file.parent.parent)] == [0o700, 0o700]


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    make_private_folder(tmp_path / "store")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


class _BusyAtFirst(sqlite3.Connection):
    """A connection whose file another process turns to WAL mode at the same time."""

    refusals = 0

    def cursor(self, *_: object) -> sqlite3.Cursor:  # type: ignore[override]
        class Cursor(sqlite3.Cursor):
            def execute(self, sql: str, *parameters: Any) -> Self:
                if "journal_mode" in sql and _BusyAtFirst.refusals < 2:
                    _BusyAtFirst.refusals += 1
                    error = sqlite3.OperationalError("database is locked")
                    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                    raise error
                return super().execute(sql, *parameters)

        return Cursor(self)


def test_processes_that_open_a_new_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    engine = sqlite_engine(f"sqlite:///{tmp_path / 'new.db'}", connect_args={"factory": _BusyAtFirst})
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    assert _BusyAtFirst.refusals == 2
    engine.dispose()


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    home = tmp_path / "why? 100%3F"
    with open_database(Settings.read(home=home).database) as engine, closing(SqliteFile(home / "store.db")) as file:
        assert engine.url.database == str(home / "dragoman.db")
        with file.writing():
            pass
    assert {"dragoman.db", "store.db"} <= {path.name for path in home.iterdir()}


def test_a_file_that_can_t_be_written_is_read_and_a_write_is_refused(file: Path) -> None:
    with read_only(file) as (_, engine):
        assert rows(engine) == 1
        with pytest.raises(sa.exc.OperationalError, match="readonly"), engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO numbers VALUES (2)")


def test_a_commit_is_on_the_disk_when_it_returns(file: Path) -> None:
    engine = sqlite_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        full = 2
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == full
    engine.dispose()


def test_what_another_process_writes_meanwhile_is_read(file: Path) -> None:
    with read_only(file) as (_, engine):
        assert rows(engine) == 1
        add_row(file)
        assert rows(engine) == 2
        with closing(sqlite3.connect(file)) as writer:
            writer.execute("INSERT INTO numbers VALUES (3)")
            writer.commit()
            assert rows(engine) == 3
        add_row(file)
        assert rows(engine) == 4


def test_commits_that_a_killed_writer_left_beside_the_file_are_read(file: Path) -> None:
    add = "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('INSERT INTO numbers VALUES (2)')"
    subprocess.run([sys.executable, "-c", f"{add}; c.commit(); os._exit(0)", file], check=True)
    with read_only(file) as (_, engine):
        assert rows(engine) == 2


def test_commits_that_can_t_be_read_are_never_left_out(file: Path) -> None:
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("INSERT INTO numbers VALUES (2)")
        writer.commit()
        copy = file.parent.with_name("copy") / file.name
        copy.parent.mkdir()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{file}{suffix}", f"{copy}{suffix}")
    with read_only(copy) as (_, engine), pytest.raises(sa.exc.OperationalError, match="unable to open"):
        rows(engine)


@pytest.mark.parametrize(
    ("statement", "is_damage"),
    [
        ("INSERT INTO numbers SELECT number FROM numbers", False),
        ("SELECT * FROM letters", True),
        ("SELECT letter FROM numbers", True),
        ("SELECT CAST(x'ff' AS TEXT)", True),
    ],
)
def test_a_file_is_called_damaged_only_if_it_is(tmp_path: Path, statement: str, is_damage: bool) -> None:
    file = SqliteFile(tmp_path / "a.db")
    with file.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE numbers (number INTEGER UNIQUE)")
        connection.exec_driver_sql("INSERT INTO numbers VALUES (1)")
    with open_database(f"sqlite:///{tmp_path / 'a.db'}") as engine:
        with pytest.raises(StoreError) as database_error, transaction(engine) as session:
            session.execute(sa.text(statement)).all()
        with pytest.raises(StoreError) as store_error, file.writing() as connection:
            connection.execute(sa.text(statement)).all()
    file.close()
    assert ("it is damaged" in str(database_error.value)) == is_damage
    assert ("it is broken" in str(store_error.value)) == is_damage
