"""The SQL database of the ledger, calibrations and evaluation log: SQLite, or PostgreSQL for several machines."""

import datetime as dt
import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.sql.functions import FunctionElement

from encoders.errors import StoreError
from encoders.folder.whole_folder import make_private_folder
from encoders.phrases import install_command
from indexer.ledger import migrations, sqlite

_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq for an unresponsive PostgreSQL, in seconds; ``tcp_user_timeout`` is in milliseconds."""
_DAMAGED = "it is damaged: bring back a copy of it, or move it away and index again"
_UPGRADE_LOCK = 3_791_624_505
"""Key of the advisory lock that an upgrade takes in PostgreSQL; any number that no other program takes."""
_WITHOUT_LIMITS = """SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"""
"""Lets a transaction of PostgreSQL stay open; ``transaction_timeout`` is known since version 17."""
_SHOWN = ("host", "port", "dbname", "service")
"""URL parameters that messages show; others may be passwords."""


class Base(DeclarativeBase):
    """Declarative base of every table; the migrations in ``indexer/ledger/migrations`` create the tables."""


def now() -> dt.datetime:
    """The current time in UTC, without a zone, as every timestamp column has it."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


class clock(FunctionElement[float]):  # noqa: N801 - an SQL function, as sa.func has them
    """Seconds since 1970 by the database's clock, which measures all leases: workers' clocks may differ by an hour."""

    name = "clock"
    type = sa.Double()
    inherit_cache = True


@compiles(clock, "postgresql")
def _postgresql_clock(_element: clock, _compiler: Any, **_: Any) -> str:
    return "EXTRACT(EPOCH FROM clock_timestamp())::double precision"


@compiles(clock, "sqlite")
def _sqlite_clock(_element: clock, _compiler: Any, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


def open_engine(url: str) -> sa.Engine:
    """Open the database without a check of its tables. Raises StoreError: it cannot be opened."""
    parsed = _parsed(url)
    try:
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            make_private_folder(Path(parsed.database).absolute().parent)
        uses_libpq = parsed.drivername.startswith("postgresql+psycopg")
        timeouts = {name: value for name, value in _PATIENCE.items() if uses_libpq and name not in parsed.query}
        create = sqlite_engine if parsed.get_backend_name() == "sqlite" else sa.create_engine
        engine = create(parsed, pool_pre_ping=True, connect_args=timeouts)
        engine.connect().close()
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the database {shown(url)} needs a driver that is not installed ({error.name}); "
            f"PostgreSQL's comes with: {install_command('postgres')}"
        ) from error
    except (sa.exc.SQLAlchemyError, OSError) as error:
        raise StoreError(f"the database {shown(url)} can't be opened: {_first_line(error)}{_remedy(error)}") from error
    return engine


def is_missing(url: str) -> bool:
    """Whether a URL names a file of SQLite that does not exist. Raises StoreError: the URL can't be read."""
    parsed = _parsed(url)
    return parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file()


def sqlite_engine(url: str | sa.URL, **options: Any) -> sa.Engine:
    """An engine for a SQLite file, whose connections are as ``sqlite.connect`` opens them."""
    engine = sa.create_engine(url, **options)
    sa.event.listen(engine, "do_connect", lambda _dialect, _entry, places, given: sqlite.connect(*places, **given))
    sa.event.listen(engine, "checkout", _reconnect_if_changed)
    return engine


def _reconnect_if_changed(connection: sqlite.Connection, *_: Any) -> None:
    if connection.is_outdated:
        raise sa.exc.DisconnectionError("the file has changed")


def connect(url: str) -> sa.Engine:
    """Open the database; SQLite's tables are upgraded. Raises StoreError: a server's tables are another version's."""
    engine = open_engine(url)
    if engine.dialect.name == "sqlite":
        upgrade(engine)
    elif not is_current(engine):
        engine.dispose()
        raise StoreError(f"the tables of {shown(url)} are not of this version; run: dragoman db upgrade")
    return engine


@contextmanager
def open_database(url: str) -> Iterator[sa.Engine]:
    """``connect`` as a context manager, which closes the connections at the end. Raises StoreError: as ``connect``."""
    engine = connect(url)
    try:
        yield engine
    finally:
        engine.dispose()


def shown(url: str | sa.URL) -> str:
    """A database's URL without passwords, for messages. Raises StoreError: the URL can't be read."""
    parsed = _parsed(url) if isinstance(url, str) else url
    return parsed.set(query={name: parsed.query[name] for name in _SHOWN if name in parsed.query}).render_as_string()


def _parsed(url: str) -> sa.URL:
    """Parse a URL; messages show no unreadable URL, for it may hold a password."""
    try:
        parsed = make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    if parsed is None or "@" in (parsed.host or ""):
        raise StoreError(
            "the database's URL can't be read; give postgresql://USER:PASSWORD@HOST:5432/NAME or sqlite:///FILE, and "
            "write '@', '/' and ':' of a password as %40, %2F and %3A"
        )
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername in {"postgresql", "postgres"} else parsed


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__


def is_current(engine: sa.Engine) -> bool:
    """Whether the tables are this version's. Raises StoreError: the database failed, or a newer Dragoman wrote it."""
    with reading(engine) as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return False
        version = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() or ""
    if version.isdecimal() and version > migrations.head():
        engine.dispose()  # no caller has use for it
        raise StoreError(f"the database {shown(engine.url)} was written by a newer Dragoman; upgrade this program")
    return version == migrations.head()


def upgrade(engine: sa.Engine) -> str:
    """Apply the missing migrations, all or none; returns the version. Raises StoreError: it is another Dragoman's."""
    if is_current(engine):
        return migrations.head()
    from alembic import command  # noqa: PLC0415 - a tenth of a second, needed only for upgrades
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(migrations.FOLDER))
    config.set_main_option("path_separator", "os")
    try:
        with _upgrading(engine) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(
            f"the database {shown(engine.url)} was made by another version of Dragoman; install that one"
        ) from error
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(
            f"the tables of {shown(engine.url)} can't be made: {_first_line(error)}{_remedy(error)}"
        ) from error
    return migrations.head()


@contextmanager
def _upgrading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction for all migrations; of two processes that upgrade a database, the second waits for the first.

    SQLite's driver begins no transaction before a table is made, so this says BEGIN. Foreign keys are off meanwhile and
    checked at the end: SQLite alters a table by a copy, and dropping the old one would delete rows that refer to it.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.detach()  # another user of the pool needs foreign keys
            connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        elif engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        yield connection
        if engine.dialect.name == "sqlite":
            orphan = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
            if orphan is not None:
                raise StoreError(
                    f"the tables of {shown(engine.url)} are left as they were: a row of {orphan[0]} refers to a row "
                    f"of {orphan[2]} that is not there; bring back a copy of the database, or name another home"
                )


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection for reads. Raises StoreError: the database failed."""
    with _database_errors(engine), engine.connect() as connection:
        yield connection


@contextmanager
def _database_errors(engine: sa.Engine) -> Iterator[None]:
    """Raise the database's failures as a ``StoreError``."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        remedy = _remedy(error) or "; see that it can be reached and has room, then run the command again"
        raise StoreError(f"the database {shown(engine.url)} failed ({_first_line(error)}){remedy}") from error
    except sqlite.UNREADABLE as error:
        raise StoreError(f"the database {shown(engine.url)} holds what can't be read ({error}); {_DAMAGED}") from error


def _remedy(error: Exception) -> str:
    """The end of a message that says what to do about a failure of SQLite; empty if unknown, or another database's."""
    cause = getattr(error, "orig", None) or error
    remedy = sqlite.advice(cause, _DAMAGED) if isinstance(cause, sqlite3.Error | OSError) else ""
    return remedy and f"; {remedy}"


@contextmanager
def transaction(engine: sa.Engine) -> Iterator[Session]:
    """A session that commits at the end and rolls back on an error. Raises StoreError: the database failed."""
    with _database_errors(engine), Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


def changed_rows(session: Session, change: sa.Update | sa.Delete) -> int:
    """Change rows, and return their number; objects that the session has loaded stay as they are."""
    result = session.execute(change, execution_options={"synchronize_session": False})
    return int(result.rowcount)  # type: ignore[attr-defined]


def require_writable(engine: sa.Engine, table: type[Base]) -> None:
    """Raise StoreError now if a table can't be written, rather than after hours of work."""
    with transaction(engine) as session:
        session.execute(sa.delete(table).where(sa.false()))


@contextmanager
def shared_lock(engine: sa.Engine, name: str) -> Iterator[Callable[[], bool]]:
    """A lock of PostgreSQL by its name; yields a function that takes it, also again, and says whether it was free.

    The lock belongs to an open transaction without writes, so that the server frees a killed process's lock, also
    through a pooler. A server that restarts forgets it; then the ledger refuses what the slower process writes.
    """
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)
    with _database_errors(engine):
        connection = engine.connect()

    def take() -> bool:
        with _database_errors(engine):
            if connection.invalidated:
                connection.rollback()
            connection.exec_driver_sql(_WITHOUT_LIMITS)
            return bool(connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(key))))

    try:
        yield take
    finally:
        with suppress(sa.exc.DBAPIError):  # a server that is gone has forgotten the lock
            connection.rollback()
        connection.close()


def is_away(error: StoreError) -> bool:
    """Whether a database's failure is temporary: the database is away, restarts, or is overloaded."""
    cause = error.__cause__
    return isinstance(cause, sa.exc.OperationalError | sa.exc.InterfaceError) or (
        isinstance(cause, sa.exc.DBAPIError) and cause.connection_invalidated
    )


class DatabaseId(Base):
    """The id of this database, drawn when the table was created; the table has one row."""

    __tablename__ = "owners"

    id: Mapped[str] = mapped_column(primary_key=True)


def read_database_id(engine: sa.Engine) -> str:
    """The id of a database. Raises StoreError: the database failed, or its id is gone."""
    with transaction(engine) as session:
        database_id = session.scalars(sa.select(DatabaseId.id)).one_or_none()
    if database_id is None:
        raise StoreError(f"the database {shown(engine.url)} has lost its id; {_DAMAGED}")
    return database_id


def storable(text: str) -> str:
    """A text that every database accepts: PostgreSQL refuses NUL, and every database a lone surrogate."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
