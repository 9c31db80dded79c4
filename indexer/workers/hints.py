"""Messages from publisher to workers, sent by Celery: each message only names a chunk.

A message that comes twice, late or never does no harm: a worker whose chunk is taken looks for the next chunk, and a
sweep sends a message for every chunk without one.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from encoders.errors import BadInput, StoreError, importing

TASK = "dragoman.chunk"
_SCHEMES = ("amqp", "amqps", "redis", "rediss")
_CONNECT_SECONDS = 10
_CONNECT_RETRIES = 3
_CONFIRM_SECONDS = 10
"""Seconds to wait until the broker confirms a message: RabbitMQ without memory or disk never answers."""
_BROKERS = "amqp://USER@HOST (RabbitMQ) or redis://HOST, in --broker or DRAGOMAN_BROKER"


def queue_of(model: str) -> str:
    """Name of the queue of a model's chunks, which workers with other models never read."""
    return f"dragoman.{model}"


def make_app(broker: str) -> Any:
    """Celery application of a publisher or a worker.

    Raises BadInput: the URL is missing, unreadable, or of a broker that may lose messages; MissingPart.
    """
    if not broker:
        raise BadInput(f"no broker is named; give {_BROKERS}")
    if broker.partition(":")[0] not in _SCHEMES:
        raise BadInput(f"the broker must be RabbitMQ or Redis, which are known to keep messages; give {_BROKERS}")
    with importing("workers", "workers need Celery; install it"):
        from celery import Celery  # noqa: PLC0415 - a third of a second that commands without workers need not pay
    app = Celery("dragoman", broker=broker, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_proc_alive_timeout=600.0,  # a child loads the model first
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_timeout=_CONNECT_SECONDS,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        control_queue_exclusive=True,  # RabbitMQ 4 has no queues that are neither exclusive nor durable
        event_queue_exclusive=True,
    )
    if broker.startswith("amqp"):
        app.conf.broker_transport_options = {"confirm_publish": True}
    try:
        connection = app.connection_for_write()
        is_read = broker.startswith("amqp") or ((connection.virtual_host or "").strip("/") or "0").isdigit()
    except (TypeError, ValueError):  # the error's text may contain a part of a password
        is_read = False
    if not is_read or any("@" in "".join(urlsplit(url)[2:]) for url in broker.split(";")):
        raise BadInput(
            f"the broker's URL can't be read; give {_BROKERS}, write '/', '?', '#' and '@' of a password as %2F, %3F, "
            "%23 and %40, and Redis' database as a number: redis://HOST/0"
        )
    return app


def queue(broker: str, model: str) -> Any:
    """The queue of a model's chunks: on RabbitMQ a quorum queue, stored on the disks of all nodes."""
    from kombu.entity import Exchange, Queue  # noqa: PLC0415

    name = queue_of(model)
    quorum = {"x-queue-type": "quorum"} if broker.startswith("amqp") else None
    return Queue(name, Exchange("dragoman", type="direct", durable=True), routing_key=name, queue_arguments=quorum)


def _shown(broker: str) -> str:
    """A broker's URL, or the URLs of alternative brokers, without credentials."""
    urls = [urlsplit(url) for url in broker.split(";")]
    return ";".join(f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}" for url in urls)


class Hints:
    """Sends messages to the workers' queues, and counts the waiting ones."""

    def __init__(self, broker: str) -> None:
        """Prepare the application; it does not connect. Raises BadInput: the URL is no broker's; MissingPart."""
        self.broker = broker
        self._app = make_app(broker)

    def send(self, model: str, chunks: Iterable[tuple[int, int]]) -> None:
        """Send chunks (run id, number) to a model's workers. Raises StoreError: the broker is away or refuses."""
        from kombu.exceptions import OperationalError  # noqa: PLC0415

        target = queue(self.broker, model)
        with self._connected() as connection, self._app.amqp.Producer(connection) as producer:
            try:
                for run_id, number in chunks:
                    self._app.send_task(
                        TASK, (run_id, number), producer=producer, queue=target, declare=[target], ignore_result=True,
                        retry=False, confirm_timeout=_CONFIRM_SECONDS,
                    )  # fmt: skip
            except OperationalError as error:
                connection.collect()  # closing politely would wait for an answer
                if not isinstance(error.__cause__, TimeoutError):
                    raise
                raise StoreError(
                    f"the broker {_shown(self.broker)} takes no messages; see whether it has memory and disk "
                    "(rabbitmqctl status shows alarms); nothing is lost: once it takes them, the run goes on"
                ) from error

    def waiting(self, model: str) -> int:
        """Number of messages that no worker has taken yet. Raises StoreError: the broker is away."""
        with self._connected() as connection, connection.channel() as channel:
            return int(queue(self.broker, model).bind(channel).queue_declare(passive=False).message_count)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        from kombu.exceptions import KombuError  # noqa: PLC0415

        connection = self._app.connection_for_write()
        try:
            with connection:
                connection.ensure_connection(max_retries=_CONNECT_RETRIES, interval_start=0.2, timeout=_CONNECT_SECONDS)
                yield connection
        except (KombuError, OSError, *connection.connection_errors, *connection.channel_errors) as error:
            raise StoreError(
                f"the broker {_shown(self.broker)} can't be reached "
                f"({str(error).splitlines()[0] if str(error) else type(error).__name__}); see that it runs and that "
                "its URL is right (--broker); nothing is lost: once it answers, the same command goes on"
            ) from error
