"""The queues that brokers keep messages in."""

from __future__ import annotations

import uuid

import pytest
from kombu import Connection

from indexer.workers.hints import Hints, queue_of
from tests.servers.rabbitmq import RabbitServer


@pytest.mark.slow
def test_on_rabbitmq_a_queue_is_a_quorum_queue(rabbitmq: RabbitServer) -> None:
    """Which the broker says when the same name is declared as of the other kind."""
    model = f"model-{uuid.uuid4().hex[:8]}"
    Hints(rabbitmq.url).send(model, [(1, 0)])
    with (
        Connection(rabbitmq.url) as connection,
        pytest.raises(connection.channel_errors, match="inequivalent arg 'x-queue-type'") as refused,
    ):
        connection.channel().queue_declare(
            queue_of(model), durable=True, auto_delete=False, arguments={"x-queue-type": "classic"}
        )
    assert getattr(refused.value, "reply_code", 0) == 406
