"""Accidents to databases: a process is killed while it makes one, the disk is full, or can't be written."""

import multiprocessing
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

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

revision, down_revision, branch_labels, depends_on = "9999", "0003", None, None


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
    copied = Path(shutil.copytree(database.MIGRATIONS, folder))
    (copied / "versions" / "9999_made_up.py").write_text(SECOND_MIGRATION, encoding="utf-8")
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

    The process is killed after some seconds, or may write a file up to so many bytes; 0: any.
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


def interrupted(folder: Path, *, again: bool, kills: int, seed: int = 0) -> Iterator[str]:
    """Kill processes that make a database, or upgrade it ``again``, and fill their disks; the next command goes on."""
    migrations = migrations_with_second(folder / "migrations") if again else database.MIGRATIONS
    filled, numbers = fill(folder / "filled" / "dragoman.db"), iter(range(10_000))

    def prepare() -> Path:
        home = folder / f"home-{next(numbers)}"
        return copied(filled, home) if again else home / "dragoman.db"

    def complete(file: Path, outcome: str, *held: str) -> str:
        if outcome not in held:
            return f"{file.parent.name}: {outcome}"
        try:
            require_complete(file, upgraded=again)
        except Exception as error:  # noqa: BLE001 - it is what fell
            return f"{file.parent.name}, {outcome}: {error!r}"
        finally:
            shutil.rmtree(file.parent)
        return ""

    draw, begun = random.Random(seed), time.monotonic()
    with patch.object(database, "MIGRATIONS", migrations):
        open_in_process(prepare(), migrations)
        undisturbed, killed = time.monotonic() - begun, 0
        while killed < kills:
            file = prepare()
            outcome = open_in_process(file, migrations, kill_after=draw.uniform(0, undisturbed))
            killed += outcome == KILLED
            if outcome == DONE:
                undisturbed *= 0.95  # the first process took longer than the others do
            yield complete(file, outcome, KILLED, DONE)
        outcomes = set()
        for size in range(1, 21, 1 if kills > 10 else 4):
            file = prepare()
            outcome = open_in_process(file, migrations, max_bytes=size * 16_384)
            outcomes.add(outcome)
            yield complete(file, outcome, REFUSED, DONE)
        yield "" if outcomes == {REFUSED, DONE} else f"no size was too small, or all were: {outcomes}"


@contextmanager
def unwritable(folder: Path, view: Path) -> Iterator[None]:
    """Mount a folder at another one, ``view``, by which it can't be written, not even by root."""
    view.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(["mount", "--bind", folder, view], capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise PermissionError(mounted.stderr.strip())
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", view], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", view], check=True)
