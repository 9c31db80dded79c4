"""How the database is reached: what is told of its URL, and how long a silent server is waited for."""

import os
import socket
import time
from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa

from encoders.errors import StoreError
from indexer.cluster.index_changes import ShardPosition
from indexer.collection.settings import Settings
from indexer.ledger.attach_ledger import AttachLedger
from indexer.ledger.database import connect, open_engine, shared_lock, shown
from indexer.ledger.findings import Finding
from tests.indexer.workers.conftest import new_database
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
        "postgresql://u:secret@127.0.0.1:{port}/db",
        "postgresql://127.0.0.1:{port}/db?user=u&password=secret",
        "postgresql://u:secret@127.0.0.1:secret/db",
        "postgresql://u:p@secret@127.0.0.1:{port}/db",
        "postgresql://u:p@s:secret@127.0.0.1:{port}/db",
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


def test_a_lock_outlasts_the_servers_limits_of_transactions(postgres: PostgresServer) -> None:
    """Both limits are of a twentieth of a second, where the server knows them."""
    engine = open_engine(new_database(postgres))
    limits = ("idle_in_transaction_session_timeout", "transaction_timeout")
    with engine.begin() as connection:
        known = connection.scalars(sa.text("SELECT name FROM pg_settings")).all()
        for limit in set(limits).intersection(known):
            connection.exec_driver_sql(f"ALTER DATABASE {engine.url.database} SET {limit} = 50")
    engine.dispose()
    with shared_lock(engine, "c") as is_first, psycopg.connect(postgres.url) as other:
        assert is_first
        other.execute("SELECT pg_sleep(0.5)")
        with shared_lock(engine, "c") as is_free:
            assert not is_free
    engine.dispose()


def test_the_findings_of_any_number_of_deleted_documents_are_deleted(settings: Settings) -> None:
    engine = connect(settings.database)
    ledger = AttachLedger.open(engine, "c", "elastic:there", "mark", "model", "build")
    doc_ids = [str(number) for number in range(300_000)]  # more than SQLite takes in a statement
    ledger.advance(0, ShardPosition(1), [], [Finding.refusal(doc_id, "why") for doc_id in doc_ids[::1000]])
    ledger.record_deletions(doc_ids[:-1000], 0)
    assert [refusal.doc_id for refusal in ledger.refusals()] == ["299000"]
    engine.dispose()
