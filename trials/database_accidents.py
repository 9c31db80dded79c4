"""Accidents to databases: a process is killed while it makes one, the disk is full, or can't be written."""

from __future__ import annotations

import multiprocessing
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import sqlalchemy as sa

from encoders.errors import StoreError
from indexer.ledger import database
from indexer.ledger.database import Base, open_database, read_database_id, transaction
from indexer.ledger.tables import Chunk, IndexRun

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["alembic.command", "alembic.autogenerate", "indexer.ledger.database"])
DONE, REFUSED, KILLED = "done", "refused", "killed"
_CHUNKS = 3

SECOND_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None


def upgrade() -> None:
    recreate = "always" if op.get_bind().dialect.name == "sqlite" else "auto"
    with op.batch_alter_table("index_runs", recreate=recreate) as table:
        table.add_column(sa.Column("note", sa.String(), nullable=False, server_default="none"))
    op.create_table("notes", sa.Column("id", sa.Integer(), primary_key=True), sa.Column("text", sa.String()))
    op.execute("UPDATE index_runs SET note = 'upgraded'")
    op.create_index("ix_notes_text", "notes", ["text"])
"""
"""A migration as a later version may have it: it copies and drops a table that others refer to."""


def migrations_with_second(folder: Path) -> Path:
    """A copy of the migrations in a new folder, with ``SECOND_MIGRATION``."""
    copied = Path(shutil.copytree(database.MIGRATIONS, folder))
    (copied / "versions" / "0002_made_up.py").write_text(SECOND_MIGRATION, encoding="utf-8")
    return copied


def fill(file: Path) -> Path:
    """Make a database of the first version with rows that refer to others; returns its file."""
    with open_database(f"sqlite:///{file}") as engine, transaction(engine) as session:
        run = {
            "collection": "c", "sources": [], "fingerprint": "", "model": "m", "build": "b", "state": "running",
            "started": database.now(), "encoded": 0, "unchanged": 0, "pruned": 0, "generation": 1, "prune": False,
            "spooled": False, "swept": 0.0,
        }  # fmt: skip
        session.execute(sa.insert(IndexRun).values(id=1, **run))
        chunk = {
            "state": "pending", "documents": 1, "todo": b"", "digest": "", "updated": database.now(), "wanted": 1,
            "until": 0.0, "attempts": 0, "error": "",
        }  # fmt: skip
        session.execute(sa.insert(Chunk), [{"run_id": 1, "number": number, **chunk} for number in range(_CHUNKS)])
    return file


def copied(file: Path, folder: Path) -> Path:
    """A database with the files that SQLite has beside it, as a killed process leaves them."""
    folder.mkdir(parents=True)
    for part in file.parent.glob(f"{file.name}*"):
        shutil.copyfile(part, folder / part.name)
    return folder / file.name


def require_complete(file: Path, *, upgraded: bool = False) -> None:
    """Open a database, and see that nothing is missing and nothing is there twice."""
    with open_database(f"sqlite:///{file}") as engine:
        names = set(sa.inspect(engine).get_table_names())
        assert names >= set(Base.metadata.tables)
        assert read_database_id(engine)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
            if upgraded:
                assert connection.exec_driver_sql("SELECT note FROM index_runs").scalars().all() == ["upgraded"]
                assert connection.exec_driver_sql("SELECT count(*) FROM chunks").scalar() == _CHUNKS
                assert "notes" in names
                assert not [name for name in names if name.startswith("_alembic_tmp")]


def open_in_process(file: Path, migrations: Path, *, kill_after: float | None = None, max_bytes: int = 0) -> str:
    """Open a database file in another process; returns ``DONE``, ``REFUSED``, ``KILLED`` or what went wrong.

    Args:
        file: the database.
        migrations: folder of migrations.
        kill_after: seconds after which the process is killed.
        max_bytes: size to which the process may write a file; 0: any.
    """
    ours, theirs = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=_open, args=(theirs, file, migrations, max_bytes))
    process.start()
    with closing(ours):
        ours.recv()
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        theirs.close()
        try:
            outcome = str(ours.recv())
        except EOFError:
            outcome = KILLED
        process.join()
    return outcome


def _open(pipe: Connection, file: Path, migrations: Path, max_bytes: int) -> None:
    database.MIGRATIONS = migrations
    if max_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, resource.RLIM_INFINITY))
    pipe.send("ready")
    try:
        database.connect(f"sqlite:///{file}").dispose()
    except StoreError:
        pipe.send(REFUSED)
    except BaseException as error:  # noqa: BLE001 - the caller says what went wrong
        pipe.send(repr(error))
    else:
        pipe.send(DONE)


def random_kills(
    prepare: Callable[[], Path], migrations: Path, count: int, *, seed: int = 0
) -> Iterator[tuple[Path, str]]:
    """Kill ``count`` processes that open databases, at moments spread over the time that an undisturbed process takes.

    Yields each database and the outcome of ``open_in_process``; a process that was done before its kill does not count.
    ``prepare`` makes the file to open, or names a new one.
    """
    draw = random.Random(seed)
    begun = time.monotonic()
    open_in_process(prepare(), migrations)
    undisturbed = time.monotonic() - begun
    killed = 0
    while killed < count:
        file = prepare()
        outcome = open_in_process(file, migrations, kill_after=draw.uniform(0, undisturbed))
        killed += outcome == KILLED
        if outcome == DONE:
            undisturbed *= 0.95  # the first process took longer than the others do
        yield file, outcome


@contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[Path]:
    """A disk of this size, in memory, at a folder.

    Raises:
        PermissionError: this user may not mount disks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _mounted(folder, "-t", "tmpfs", "-o", f"size={kibibytes}k", "dragoman-test", str(folder)):
        yield folder


@contextmanager
def unwritable(folder: Path, view: Path) -> Iterator[None]:
    """Mount a folder at another one, ``view``, by which it can't be written, not even by root.

    Raises:
        PermissionError: this user may not mount folders.
    """
    view.mkdir(parents=True, exist_ok=True)
    with _mounted(view, "--bind", str(folder), str(view)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(view)], check=True)
        yield


@contextmanager
def _mounted(folder: Path, *arguments: str) -> Iterator[None]:
    mounted = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise PermissionError(mounted.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
