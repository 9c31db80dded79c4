"""Accidents to databases: a command is killed while it makes a database, or can't write it."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import sqlalchemy as sa

from indexer.ledger import database, migrations
from indexer.ledger.database import Base, open_database, read_database_id, transaction
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import Chunk
from trials.command import fell
from trials.power_loss import Machine

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
    copied = Path(shutil.copytree(migrations.FOLDER, folder))
    (copied / "versions" / "9999_made_up.py").write_text(SECOND_MIGRATION, encoding="utf-8")
    return copied


def fill(file: Path) -> Path:
    """Make a database of the first version with rows that refer to others; returns its file."""
    with open_database(f"sqlite:///{file}") as engine:
        run_id = Ledger.open(engine, "c", [], "", "m", "b").run.id
        chunk = {"state": "pending", "documents": 1, "todo": b"", "digest": "", "updated": database.now(), "wanted": 1}
        with transaction(engine) as session:
            session.execute(sa.insert(Chunk), [{"run_id": run_id, "number": at, **chunk} for at in range(_CHUNKS)])
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


_MIGRATIONS = """
import alembic.autogenerate, alembic.command, pathlib
from indexer.ledger import migrations
migrations.FOLDER = pathlib.Path({folder!r})
"""


def interrupted(folder: Path, *, again: bool, kills: int, seed: int = 0) -> Iterator[str]:
    """Kill commands while they make a database, or upgrade it ``again``; the next command goes on."""
    chosen = migrations_with_second(folder / "migrations") if again else migrations.FOLDER
    filled, home, draw = fill(folder / "filled" / "dragoman.db"), folder / "home", random.Random(seed)
    command, changes = ["db", "upgrade", "--home", str(home), "-q"], 0
    with (
        Machine(folder, home, _MIGRATIONS.format(folder=str(chosen))) as machine,
        patch.object(migrations, "FOLDER", chosen),
    ):
        for _ in range(kills + 1):
            if again:
                copied(filled, home)
            lost_at = draw.randrange(changes) if changes else None
            outcome = machine.run_until(command, lost_at=lost_at)
            changes = changes or len(outcome.kinds)  # of the first command, which no kill disturbs
            try:
                require_complete(home / "dragoman.db", upgraded=again)
            except Exception as error:  # noqa: BLE001 - it is what fell
                yield f"killed at change {lost_at} of {changes}: {error!r}"
            else:
                yield fell(outcome, machine.said(), held=outcome.status == (0 if lost_at is None else None))
            shutil.rmtree(home)


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
