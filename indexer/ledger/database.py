"""The SQL database: ledger of index runs, calibrations, evaluation log. SQLite here, PostgreSQL past one machine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from filelock import FileLock
from sqlalchemy.engine import make_url
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from encoders.errors import StoreError

MIGRATIONS = Path(__file__).parent / "migrations"
_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Of libpq, in seconds and (the last) milliseconds: how long a PostgreSQL that says nothing is waited for."""
_SHOWN = ("host", "port", "dbname", "service")
"""Parameters of a URL that are in its messages; others may be passwords."""


class Base(DeclarativeBase):
    """Declarative base of every table; the migrations in ``indexer/ledger/migrations`` make them."""


def now() -> dt.datetime:
    """The time in UTC, without a zone: what every timestamp column holds."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def open_engine(url: str) -> sa.Engine:
    """Open the database, whatever its tables are.

    Raises:
        StoreError: it cannot be opened.
    """
    parsed = _parsed(url)
    try:
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        by_libpq = parsed.drivername.startswith("postgresql+psycopg")
        patience = {name: value for name, value in _PATIENCE.items() if by_libpq and name not in parsed.query}
        engine = sa.create_engine(parsed, pool_pre_ping=True, connect_args=patience)
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _sqlite_pragmas)
        engine.connect().close()
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the database {shown(url)} needs a driver that is not installed ({error.name}); "
            "PostgreSQL's comes with: pip install 'dragoman[postgres]'"
        ) from error
    except (sa.exc.SQLAlchemyError, OSError) as error:
        raise StoreError(f"the database {shown(url)} can't be opened: {_first_line(error)}") from error
    return engine


def connect(url: str) -> sa.Engine:
    """Open the database; SQLite's tables are brought up to date by the way.

    Raises:
        StoreError: it cannot be opened, or a server's tables are not of this version (``dragoman db upgrade``).
    """
    engine = open_engine(url)
    if engine.dialect.name == "sqlite":
        upgrade(engine)
    elif not is_current(engine):
        engine.dispose()
        raise StoreError(f"the tables of {shown(url)} are not of this version; run: dragoman db upgrade")
    return engine


@contextmanager
def opened(url: str) -> Iterator[sa.Engine]:
    """The same for a while; its connections are closed at the end.

    Raises:
        StoreError: as ``connect``.
    """
    engine = connect(url)
    try:
        yield engine
    finally:
        engine.dispose()


def shown(url: str | sa.URL) -> str:
    """A database's URL as it may be shown: without passwords, wherever they stand.

    Raises:
        StoreError: it can't be read.
    """
    parsed = _parsed(url) if isinstance(url, str) else url
    return parsed.set(query={name: parsed.query[name] for name in _SHOWN if name in parsed.query}).render_as_string()


def _parsed(url: str) -> sa.URL:
    """Take a URL apart; one that can't be is shown in no message, for it may hold a password."""
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


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA busy_timeout=30000")
    cursor.close()


def _alembic() -> Any:
    from alembic.config import Config  # noqa: PLC0415 - a tenth of a second that an up-to-date database need not pay

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config


def head() -> str:
    """The newest migration's id: the last of the files by name, which are numbered."""
    return max(path.stem for path in (MIGRATIONS / "versions").glob("[0-9]*.py")).split("_", 1)[0]


def is_current(engine: sa.Engine) -> bool:
    """Whether the database's tables are those of this version."""
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return False
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == head()


def upgrade(engine: sa.Engine) -> str:
    """Apply the migrations the database lacks; returns the version it then has."""
    if is_current(engine):
        return head()
    from alembic import command  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = _alembic()
    try:
        with _one_at_a_time(engine), engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(
            f"the database {shown(engine.url)} was made by another version of Dragoman; install that one"
        ) from error
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(f"the tables of {shown(engine.url)} can't be made: {_first_line(error)}") from error
    return head()


def _one_at_a_time(engine: sa.Engine) -> AbstractContextManager[object]:
    """Two processes that open a new SQLite database at once: the second finds it made."""
    if engine.dialect.name == "sqlite" and engine.url.database:
        return FileLock(f"{engine.url.database}.lock", timeout=60)
    return nullcontext()


@contextmanager
def transaction(engine: sa.Engine) -> Iterator[Session]:
    """A session that commits at the end of the block and rolls back on an error.

    Raises:
        StoreError: the database failed.
    """
    try:
        with Session(engine, expire_on_commit=False) as session, session.begin():
            yield session
    except sa.exc.DBAPIError as error:
        raise StoreError(
            f"the database {shown(engine.url)} failed ({_first_line(error)}); "
            "see that it can be reached and has room, then run the command again"
        ) from error


def is_away(error: StoreError) -> bool:
    """Whether a database's failure is one that goes by: it is away, restarts, or has too much to do."""
    cause = error.__cause__
    return isinstance(cause, sa.exc.OperationalError | sa.exc.InterfaceError) or (
        isinstance(cause, sa.exc.DBAPIError) and cause.connection_invalidated
    )


class Owner(Base):
    """The id of this database, drawn when the table was made; there is one."""

    __tablename__ = "owners"

    id: Mapped[str] = mapped_column(primary_key=True)


def owner_of(engine: sa.Engine) -> str:
    """The id of a database."""
    with transaction(engine) as session:
        return session.scalars(sa.select(Owner.id)).one()
