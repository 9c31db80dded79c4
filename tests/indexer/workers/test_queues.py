"""The queues that brokers keep messages in."""

import json
import time
import uuid
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kombu import Connection

from encoders.errors import BadInput, StoreError
from indexer.workers import hints
from indexer.workers.hints import TASK, Hints, queue, queue_of
from indexer.workers.registry import alive
from tests.conftest import skip_or_fail, until
from tests.indexer.workers.conftest import Field
from trials.servers.process import ServerMissing, free_port, running
from trials.servers.rabbitmq import RabbitServer


def test_on_rabbitmq_a_queue_is_a_quorum_queue(rabbitmq: RabbitServer) -> None:
    """Which the broker says when the same name is declared as of the other kind."""
    model = f"model-{uuid.uuid4().hex[:8]}"
    Hints(rabbitmq.url).send(model, [(1, 0)])
    declared = {"durable": True, "auto_delete": False, "arguments": {"x-queue-type": "classic"}}
    with (
        Connection(rabbitmq.url) as connection,
        pytest.raises(connection.channel_errors, match="inequivalent arg 'x-queue-type'") as refused,
    ):
        connection.channel().queue_declare(queue_of(model), **declared)
    assert getattr(refused.value, "reply_code", 0) == 406


POISON = [
    *((body, {"task": TASK, "id": "1"}) for body in ("[]", "[[], {}]", '[[1], {}, {"chord": 5}]', "{broken")),
    ('[["a", "b", "c"], {}, {}]', {"task": TASK, "id": "1"}),
    ("[]", {"task": "nobody.knows", "id": "1"}),
    ("null", {}),
    ("[[1, 2], {}, {}]", {"task": [1], "id": {"a": 5}, "eta": "never"}),
]

NO_MESSAGES = ["hello", "5", "{}", "[1]", '{"properties": 3}', b"\xff\x00"]


@pytest.mark.parts
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_bad_messages_count_and_end_no_worker(broker: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue(broker).url
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", url, tmp_path)) as field:
        worker = field.act("well", lease=30.0)
        until(lambda: bool(alive(field.engine)))
        with Connection(url) as connection, connection.Producer() as producer:
            for body, headers in POISON:
                producer.publish(
                    body, declare=[queue(url, field.model)], routing_key=queue_of(field.model), exchange="dragoman",
                    content_type="application/json", content_encoding="utf-8", headers=headers,
                )  # fmt: skip
            if broker == "redis":
                for item in NO_MESSAGES:
                    connection.default_channel.client.lpush(queue_of(field.model), item)
        field.begin(2)
        until(lambda: field.states() == ["done"] or worker.poll() is not None)
        assert worker.poll() is None, field.log.read_text()
        until(lambda: Hints(url).waiting(field.model) == 0)
        unread = len(POISON) + (len(NO_MESSAGES) if broker == "redis" else 0)
        until(lambda: sum(one.unread for one in alive(field.engine)) >= unread)
        worker.terminate()
        assert worker.wait(60) == 0


def test_a_worker_makes_no_queues_but_its_own_and_logs_json_lines_only(rabbitmq: RabbitServer, tmp_path: Path) -> None:
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", rabbitmq.url, tmp_path)) as field:
        field.begin(3)
        worker = field.act("well", lease=4.0, json=True)
        until(lambda: field.states() == ["done"])
        queues = rabbitmq.control("list_queues", "name").split()
        worker.terminate()
        assert worker.wait(60) == 0
        assert queue_of(field.model) in queues
        assert [name for name in queues if "celery_delayed" in name] == []
        events = [json.loads(line) for line in field.log.read_text().splitlines()]
        assert {event["logger"] for event in events} == {"dragoman.worker"}
        assert any(event["event"] == "3 documents stored, 0 refused" for event in events)


@pytest.mark.long
def test_a_rabbitmq_without_memory_is_said_to_take_no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A RabbitMQ for this test alone: until it has memory again it takes nobody's messages."""
    model = f"model-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        try:
            rabbitmq = stack.enter_context(running(RabbitServer))
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        sender = Hints(rabbitmq.url)
        sender.send(model, [(1, 0)])
        rabbitmq.control("set_vm_memory_high_watermark", "0.00001")
        started = time.monotonic()
        with monkeypatch.context() as quick:
            quick.setattr(hints, "_CONFIRM_SECONDS", 1)
            with pytest.raises(StoreError, match=r"takes no messages; see whether it has memory and disk") as refused:
                sender.send(model, [(1, 1), (1, 2)])
        assert time.monotonic() - started < 45
        assert "guest" not in str(refused.value)
        rabbitmq.control("set_vm_memory_high_watermark", "0.4")
        sender.send(model, [(1, 3)])
        assert sender.waiting(model) >= 2


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amqp://u:secret@127.0.0.1:{port}//", "the broker amqp://127.0.0.1:{port}// can't be reached"),
        ("redis://:secret@127.0.0.1:{port}/0", "the broker redis://127.0.0.1:{port}/0 can't be"),
        ("redis://127.0.0.1:{port}", "the broker redis://127.0.0.1:{port} can't be reached"),
        *(
            (f"amqp://u:{rest}//", "the broker's URL can't be read")
            for rest in (
                *(f"{word}secret@127.0.0.1:{{port}}" for word in ("a/", "12/", "a#")),
                "secret@127.0.0.1:secret",
            )
        ),
        ("redis://:12?secret@127.0.0.1:{port}/0", "the broker's URL can't be read"),
        ("redis://127.0.0.1:{port}/0?password=secret", "the broker's URL can't be read"),
        ("redis://:secret@127.0.0.1:{port}/secret", "Redis' database as a number"),
        ("kafka:secret@127.0.0.1:{port}", "the broker must be RabbitMQ or Redis, which are known to keep messages"),
    ],
)
def test_an_unreachable_broker_is_said_without_a_password(url: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_CONNECT_RETRIES", 1)
    port = free_port()
    with pytest.raises((BadInput, StoreError)) as refused:
        Hints(url.format(port=port)).waiting("model")
    assert told.format(port=port) in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None or "secret" not in str(refused.value.__cause__)
