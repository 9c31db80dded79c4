"""The ledger's database: how it is reached, who may read SQLite's files, and how it is made and upgraded at once."""

import itertools
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from encoders.errors import StoreError
from encoders.folder.whole_folder import make_private_folder
from indexer.cluster.index_changes import ShardPosition
from indexer.collection.settings import Settings
from indexer.ledger import database, migrations
from indexer.ledger.attach_ledger import AttachLedger
from indexer.ledger.database import connect, open_database, open_engine, read_database_id, shown, transaction, upgrade
from indexer.ledger.findings import Finding
from indexer.stores.sqlite_file import SqliteFile
from tests.conftest import Patch, fallen, skip_or_fail
from tests.indexer.workers.conftest import new_database
from trials.database_accidents import copied, fill, interrupted, migrations_with_second, require_complete, unwritable
from trials.fake_encoder import FakeEncoder
from trials.servers.postgres import PostgresServer
from trials.servers.process import free_port


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:secret@host/db", "postgresql+psycopg://u:***@host/db"),
        ("postgresql://host/db?user=u&password=secret&sslpassword=secret", "postgresql+psycopg://host/db"),
        ("postgresql:///db?host=%2Frun&password=secret", "postgresql+psycopg:///db?host=%2Frun"),
        ("sqlite:////home/me/dragoman.db", "sqlite:////home/me/dragoman.db"),
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str, told: str) -> None:
    assert shown(url) == told


@pytest.mark.parametrize(
    "url",
    [
        *(f"postgresql://u:{password}@127.0.0.1:{{port}}/db" for password in ("secret", "p@secret", "p@s:secret")),
        "postgresql://127.0.0.1:{port}/db?user=u&password=secret",
        "postgresql://u:secret@127.0.0.1:secret/db",
        "nonsense:secret",
        "u:secret@host",
    ],
)
def test_a_database_that_can_t_be_opened_is_one_sentence_without_a_password(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        connect(url.format(port=free_port()))
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None or "secret" not in str(refused.value.__cause__)


def test_a_postgresql_that_takes_a_connection_and_says_nothing_is_not_waited_for_long() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        started = time.monotonic()
        with pytest.raises(StoreError, match="can't be opened: connection timeout expired"):
            open_engine(f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/db?connect_timeout=2")
        assert time.monotonic() - started < 9  # 10 unless the address says 2


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
def test_a_connection_to_postgresql_ends_when_its_machine_falls_silent(postgres: PostgresServer) -> None:
    """What its socket is set to: a machine that loses every packet can't be had here."""
    engine = open_engine(postgres.url)
    with engine.connect() as connection, socket.socket(fileno=os.dup(connection.connection.fileno())) as line:
        tcp = {
            name: line.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        }
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    engine.dispose()
    assert tcp == {"TCP_USER_TIMEOUT": 30_000, "TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


_ENDED = """SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON database = pg_database.oid
WHERE locktype = 'advisory' AND granted AND datname = %s"""


def test_a_lock_outlasts_the_servers_limits_of_transactions(postgres: PostgresServer) -> None:
    """Both limits are of a twentieth of a second, where the server knows them."""
    engine = open_engine(new_database(postgres))
    limits = ("idle_in_transaction_session_timeout", "transaction_timeout")
    with engine.begin() as connection:
        known = connection.scalars(sa.text("SELECT name FROM pg_settings")).all()
        for limit in set(limits).intersection(known):
            connection.exec_driver_sql(f"ALTER DATABASE {engine.url.database} SET {limit} = 50")
    engine.dispose()
    with database.shared_lock(engine, "c") as take, psycopg.connect(postgres.url, autocommit=True) as other:
        assert take()
        other.execute("SELECT pg_sleep(0.5)")
        with database.shared_lock(engine, "c") as take_too:
            assert not take_too()
            other.execute(_ENDED, [engine.url.database])
            assert take_too()
            with pytest.raises(StoreError):  # the server has forgotten this lock
                take()
            assert not take()
        assert take()
    engine.dispose()


def test_the_findings_of_any_number_of_deleted_documents_are_deleted(engine: sa.Engine) -> None:
    ledger = AttachLedger.open(engine, "c", "elastic:there", "mark", FakeEncoder().spec)
    doc_ids = [str(number) for number in range(300_000)]  # more than SQLite takes in a statement
    ledger.advance(0, ShardPosition(1), [], [Finding.refusal(doc_id, "why") for doc_id in doc_ids[::1000]])
    ledger.record_deletions(doc_ids[:-1000], 0)
    assert [refusal.doc_id for refusal in ledger.refusals()] == ["299000"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one row, which nobody has open."""
    folder = tmp_path / "home" / "store"
    make_private_folder(folder)
    write(folder / "a.db", "CREATE TABLE numbers (number INTEGER)")
    add_row(folder / "a.db")
    return folder / "a.db"


def write(file: Path, statement: str) -> None:
    engine = database.sqlite_engine(f"sqlite:///{file}")
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
            engine = database.sqlite_engine(f"sqlite:///{view / file.name}")
            yield view, engine
            engine.dispose()
    except PermissionError as error:
        pytest.skip(f"folders can't be mounted: {error}")


def test_files_are_their_owners_alone_and_a_commit_is_on_the_disk_when_it_returns(file: Path) -> None:
    old = os.umask(0o022)
    try:
        engine = database.sqlite_engine(f"sqlite:///{file}")
        with engine.connect() as connection:
            connection.exec_driver_sql("INSERT INTO numbers VALUES (2)")
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2  # full
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        engine.dispose()
    finally:
        os.umask(old)
    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (file.parent, file.parent.parent)] == [0o700, 0o700]
    file.parent.chmod(0o750)
    make_private_folder(file.parent / "below")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o750  # a folder that exists keeps its mode


def test_processes_that_open_a_new_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Of two that turn a file to WAL mode SQLite refuses one at once, whatever its timeout."""
    engine = database.sqlite_engine(f"sqlite:///{tmp_path / 'new.db'}")
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, other.rollback).start()
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    engine.dispose()


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    home = tmp_path / "why? 100%3F"
    with open_database(Settings.read(home=home).database) as engine, closing(SqliteFile(home / "store.db")) as file:
        assert engine.url.database == str(home / "dragoman.db")
        with file.writing():
            pass
    assert {"dragoman.db", "store.db"} <= {path.name for path in home.iterdir()}


def test_a_connection_in_use_at_the_end_of_a_file_is_not_used_again(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "a.db")
    with file.reading():
        file.close()
        file.path.unlink()
    with pytest.raises(StoreError, match="is gone"), file.reading():
        pass


def test_a_file_that_can_t_be_written_is_read_with_what_another_process_writes_or_left_beside_it(file: Path) -> None:
    add = "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('INSERT INTO numbers VALUES (2)')"
    with read_only(file) as (_, engine):
        assert rows(engine) == 1
        with pytest.raises(sa.exc.OperationalError, match="readonly"), engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO numbers VALUES (2)")
        add_row(file)
        assert rows(engine) == 2
        with closing(sqlite3.connect(file)) as writer:
            writer.execute("INSERT INTO numbers VALUES (3)")
            writer.commit()
            assert rows(engine) == 3
        add_row(file)
        assert rows(engine) == 4
    subprocess.run([sys.executable, "-c", f"{add}; c.commit(); os._exit(0)", file], check=True)  # it is killed
    with read_only(file) as (_, engine):
        assert rows(engine) == 5


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
        *((f"SELECT {what}", True) for what in ("* FROM letters", "letter FROM numbers", "CAST(x'ff' AS TEXT)")),
    ],
)
def test_a_file_is_called_damaged_only_if_it_is(tmp_path: Path, statement: str, is_damage: bool) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with closing(SqliteFile(tmp_path / "a.db")) as file, open_database(url) as engine:
        with file.writing() as connection:
            connection.execute("CREATE TABLE numbers (number INTEGER UNIQUE)")
            connection.execute("INSERT INTO numbers VALUES (1)")
        with pytest.raises(StoreError) as database_error, transaction(engine) as session:
            session.execute(sa.text(statement)).all()
        with pytest.raises(StoreError) as store_error, file.writing() as connection:
            connection.execute(statement).fetchall()
    assert ("it is damaged" in str(database_error.value)) == is_damage
    assert ("it is broken" in str(store_error.value)) == is_damage


@pytest.fixture
def second(tmp_path: Path) -> Path:
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
def test_what_a_failure_or_a_kill_at_any_statement_leaves_is_finished_by_the_next_command(
    again: bool, every: int, tmp_path: Path, filled: Path, second: Path, monkeypatch: Patch
) -> None:
    """The files as they are before a statement: the operating system keeps what a killed process wrote."""
    if again:
        monkeypatch.setattr(migrations, "FOLDER", second)
    file, left = filled if again else tmp_path / "new.db", list[Path]()
    engine = open_engine(f"sqlite:///{file}")
    tables = set(sa.inspect(engine).get_table_names())
    with pytest.raises(StoreError, match="accident"), every_statement(engine, fail_late):
        upgrade(engine)
    assert set(sa.inspect(engine).get_table_names()) == tables  # a statement that fails leaves all as it was

    def keep(number: int, _: str) -> None:
        if number % every == 0:
            left.append(copied(file, tmp_path / "left" / str(number)))

    with every_statement(engine, keep):
        upgrade(engine)
    engine.dispose()
    assert len(left) >= 4
    for one in (*left, file):
        require_complete(one, upgraded=again)


@pytest.mark.parametrize("again", [False, True])
def test_a_full_disk_is_said_and_the_next_command_goes_on(
    again: bool, tmp_path: Path, filled: Path, second: Path, monkeypatch: Patch
) -> None:
    if again:
        monkeypatch.setattr(migrations, "FOLDER", second)
    file = filled if again else tmp_path / "dragoman.db"
    for pages in (2, 9, 20, 29):
        engine = open_engine(f"sqlite:///{file}")
        sa.event.listen(engine, "connect", lambda raw, _, pages=pages: raw.execute(f"PRAGMA max_page_count={pages}"))
        engine.dispose()
        with pytest.raises(StoreError, match="see that the disk has room"):
            upgrade(engine)
        engine.dispose()
    require_complete(file, upgraded=again)


def test_a_migration_that_breaks_references_is_undone(filled: Path, second: Path, monkeypatch: Patch) -> None:
    version = next((second / "versions").glob("9999*"))
    deletion = '    op.execute("DELETE FROM index_runs")\n'
    version.write_text(version.read_text() + deletion)
    monkeypatch.setattr(migrations, "FOLDER", second)
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
def test_postgresql_is_upgraded_by_one_of_many(postgres: PostgresServer, second: Path, monkeypatch: Patch) -> None:
    url = new_database(postgres)

    def upgraded(_: int) -> str:
        engine = open_engine(url)
        version = upgrade(engine)
        engine.dispose()
        return version

    engine = open_engine(url)
    with pytest.raises(StoreError, match="accident"), every_statement(engine, fail_late):
        upgrade(engine)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()
    for folder, version in ((migrations.FOLDER, "0003"), (second, "9999")):
        monkeypatch.setattr(migrations, "FOLDER", folder)
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(upgraded, range(4))) == {version}
    monkeypatch.undo()
    for use in (lambda: connect(url), lambda: upgraded(0)):
        with pytest.raises(StoreError, match="was written by a newer Dragoman; upgrade this program"):
            use()


@pytest.mark.long
@pytest.mark.parametrize("again", [False, True])
def test_a_hundred_kills_break_nothing(again: bool, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a command that is killed at a change: apt-get install gcc")
    assert fallen(interrupted(tmp_path, again=again, kills=100)) == []
