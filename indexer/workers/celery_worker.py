"""``dragoman worker``: a Celery worker around ``ChunkWorker``, one process solo or several of a prefork pool."""

import multiprocessing
import os
import platform
import queue as queues
import signal
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from encoders.console import Console
from encoders.document import Encoder, EncoderSpec
from encoders.errors import BadInput, DragomanError, StoreError
from encoders.inference.graph import GpuFailure
from encoders.inference.session import INT8_ADVICE
from encoders.machine.cores import available_cores
from encoders.machine.placement import Device, GpuUnavailable, NoCuda, place, share_gpus, worker_devices
from encoders.phrases import counted
from indexer.collection.settings import Settings
from indexer.ledger.database import connect, is_away, open_database, shown
from indexer.workers.chunk_worker import ChunkWorker, end_process
from indexer.workers.gpu_processes import PERMANENT, run_for_each_card
from indexer.workers.hints import TASK, Hints, make_app, queue
from indexer.workers.logs import LogConsole, log_to_stderr, logger
from indexer.workers.registry import Identity, record_unread
from indexer.workers.shutdown import StopSignal, celery_worker_class, leave_to_parent
from indexer.workers.worker_metrics import open_metrics, serve_metrics
from onnx_export.models import are_for_gpus, make_models, open_named

GPU_LANES = 4
"""Lanes of a process that has a card alone (docs/decisions/0019-devices.md); several processes have half as many."""
_CORES = 2
"""Cores for each process on a card: the interpreter's lock keeps a process from using more than 1.2 of them."""
_WAKE = 0.5
"""Seconds after which a wait for a lane is interrupted for signals."""
_MOST_FAILURES = 3
"""Chunks given back in a row after which the worker ends: a broken CUDA context stays broken in its process."""


@dataclass(frozen=True)
class WorkerPlan:
    """Settings of a worker."""

    reference: str  # name or folder of the encoder
    method: str | None
    device: Device
    concurrency: int | None = None  # number of processes, on each GPU; None: 1, on a GPU as many as its cores feed
    lease_seconds: float = 60.0  # seconds without a heartbeat after which another worker may take the chunk
    grace: float = 30.0  # seconds to finish the chunk when the worker must end; afterwards the chunk is given back
    metrics_address: tuple[str, int] | None = None  # address and port for Prometheus, if any
    lanes: int = 1  # chunks that one process works on at once; several use a GPU while others are read and stored
    sharers: int = 1  # processes that share its GPU

    @property
    def processes(self) -> int:
        """Number of processes, on a GPU of this one's kind."""
        return self.concurrency or 1

    def on_gpu(self, device: Device, number: int, sharers: int) -> Self:
        """The plan of a process on a card; Prometheus asks each process at a port of its own, in their order."""
        address = self.metrics_address and (self.metrics_address[0], self.metrics_address[1] + number)
        return replace(self, device=device, concurrency=1, metrics_address=address, sharers=sharers)


def serve(plan: WorkerPlan, settings: Settings, console: Console) -> int:
    """Work until asked to end; returns the exit status. For ``cuda`` each card of the machine has processes.

    Raises BadInput: the plan can't be carried out; MissingPart: the encoder, the device or Celery is missing;
    StoreError: the database can't be reached at the start; later the worker waits for it.
    """
    if not settings.broker:
        raise BadInput("a worker needs a broker; name it with --broker amqp://… or redis://…, or DRAGOMAN_BROKER")
    app = make_app(settings.broker)
    connect(settings.database).dispose()
    log_to_stderr(f"{platform.node()}-{os.getpid()}", as_json=console.json, quiet=console.quiet)
    plan = _checked(plan, console) if plan.device == "auto" else plan
    devices = worker_devices(plan.device)
    sharers = plan.concurrency or max(1, available_cores() // len(devices) // _CORES)
    if devices[0].startswith("cuda") and (devices != [plan.device] or sharers > 1):
        make_models(plan.reference, console, place(devices[0]))  # once, before several processes need them
        logger.info("starts %s on each of %s", counted(sharers, "process", "processes"), counted(len(devices), "GPU"))
        cards = [(device, f"{device} {process}") for device in devices for process in range(1, sharers + 1)]
        plans = {name: plan.on_gpu(device, number, sharers) for number, (device, name) in enumerate(cards)}
        work = {name: partial(_serve_card, card_plan, settings, console) for name, card_plan in plans.items()}
        return run_for_each_card(work)
    plan = _checked(plan, console)
    make_models(plan.reference, console, place(plan.device))  # once, before several processes need them
    if plan.metrics_address:
        serve_metrics(*plan.metrics_address)
    pool = _Pool(plan, settings, console)
    spec = pool.begin() if plan.processes == 1 else _spec_elsewhere(plan)
    logger.info(
        "works on chunks of model %s (%s by %s, %s), build %s, with %d process%s of %d threads, from %s",
        spec.model, spec.name, spec.method, plan.device, spec.build, plan.processes,
        "" if plan.processes == 1 else "es", pool.threads, shown(settings.database),
    )  # fmt: skip
    return _run_celery_worker(app, pool, spec.model)


def _serve_card(plan: WorkerPlan, settings: Settings, console: Console) -> int:
    """Serve in a process of its own on a card; an error is logged."""
    share_gpus(plan.sharers)
    os.environ.setdefault("RAYON_NUM_THREADS", str(max(1, available_cores() // plan.sharers)))  # of the tokenizer
    try:
        return serve(plan, settings, console)
    except DragomanError as error:
        logger.error("%s", error)
        may_recover = isinstance(error, GpuUnavailable | GpuFailure | StoreError)
        return 1 if may_recover else PERMANENT


def _checked(plan: WorkerPlan, console: Console) -> WorkerPlan:
    placement = place(plan.device)
    if placement.remark:
        logger.warning(placement.remark)
    device = placement.device
    if device != "cpu" and plan.device == "auto":
        if not are_for_gpus(plan.reference, console, placement):
            logger.warning("works on the CPU: %s has a part that cards can't run; %s", plan.reference, INT8_ADVICE)
            device = "cpu"
        else:
            try:
                _spec_elsewhere(replace(plan, device=device))
            except NoCuda as error:  # a library of CUDA may be missing
                logger.warning("works on the CPU: %s", error.reason)
                device = "cpu"
    lanes = GPU_LANES // 2 if plan.sharers > 1 else GPU_LANES
    return replace(plan, device=device, lanes=plan.lanes if device == "cpu" else lanes)


class _Pool:
    """A worker's processes, each of one or more lanes: chunk workers of one encoder.

    With several lanes a message counts as processed when a lane takes it; the ledger knows what is done.
    """

    def __init__(self, plan: WorkerPlan, settings: Settings, console: Console) -> None:
        self.plan, self.settings, self._console = plan, settings, console
        self.stop = StopSignal(plan.grace)
        self.threads = max(1, available_cores() // plan.processes)
        self._lanes: list[ChunkWorker] = []
        self._free: queues.SimpleQueue[ChunkWorker] = queues.SimpleQueue()
        self._executor: ThreadPoolExecutor | None = None
        self._failed = multiprocessing.RawValue("b", 0)

    @property
    def status(self) -> int:
        """Exit status: 1 after a process could not begin or stopped encoding, else 0."""
        return int(self._failed.value)

    def begin(self) -> EncoderSpec:
        """Load the model and start the chunk workers, in the process that works."""
        encoder = _load(self.plan, self.threads)
        name = f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        log_to_stderr(name, as_json=self._console.json, quiet=self._console.quiet)
        metrics = open_metrics(counted=self.plan.metrics_address is not None)
        for lane in range(self.plan.lanes):
            identity = Identity(
                id=name if self.plan.lanes == 1 else f"{name}.{lane + 1}",
                host=platform.node(),
                device=self.plan.device,
                model=encoder.spec.model,
                build=encoder.spec.build,
            )
            engine = _retry_while_away(lambda: connect(self.settings.database), self.stop)
            worker = ChunkWorker(
                encoder, engine, self.settings, Hints(self.settings.broker), identity, self.plan.lease_seconds,
                self.stop, metrics, self._leave,
            )  # fmt: skip
            self._lanes.append(worker)
            self._free.put(worker)
        if self.plan.lanes > 1:
            self._executor = ThreadPoolExecutor(self.plan.lanes, thread_name_prefix="lane")
        return encoder.spec

    def work(self, run_id: int, number: int) -> None:
        """Process the chunk of a message; end the whole worker if this process encodes nothing any more."""
        if not self._lanes:  # the process could not begin, and ends
            raise StoreError("this process is not ready")
        lane = self._next_free_lane()
        if self._executor is None:
            self._work_in(lane, run_id, number)
        else:
            self._executor.submit(self._work_in, lane, run_id, number)

    def _next_free_lane(self) -> ChunkWorker:
        """Wait for a lane, and meanwhile handle signals, which do not always interrupt the wait of a main thread."""
        while True:
            with suppress(queues.Empty):
                return self._free.get(timeout=_WAKE)

    def _work_in(self, lane: ChunkWorker, run_id: int, number: int) -> None:
        try:
            lane.work(run_id, number)
            if lane.failures_in_a_row >= _MOST_FAILURES and not self.stop.requested:
                logger.error("%d chunks in a row went back because nothing is encoded: the worker ends", _MOST_FAILURES)
                self.end_worker()
        except Exception:
            logger.exception("a chunk was not worked on; its lease runs out")
            raise
        finally:
            self._free.put(lane)
            if self._executor is not None and self.stop.overdue:
                self._leave()

    def _leave(self) -> None:
        """End this process, whose time to finish is over, when no lane has a chunk any more."""
        if not any(lane.busy for lane in self._lanes):
            for lane in self._lanes:
                lane.sign_off()
            end_process()

    def end_worker(self) -> None:
        """End the whole worker, with exit status 1 unless its end was already requested."""
        if not self.stop.requested:
            self._failed.value = 1
        os.kill(os.getpid() if self.plan.processes == 1 else os.getppid(), signal.SIGTERM)

    def end(self) -> None:
        """Finish what the lanes are at, and sign off."""
        if self._executor is not None:
            self._executor.shutdown()
        while self._lanes:
            self._lanes.pop().close()


def _load(plan: WorkerPlan, threads: int) -> Encoder:
    return open_named(plan.reference, plan.method, LogConsole(quiet=True), device=plan.device, threads=threads)


def _spec(plan: WorkerPlan) -> EncoderSpec:
    return _load(plan, 1).spec


def _spec_elsewhere(plan: WorkerPlan) -> EncoderSpec:
    """The encoder's spec, read in a separate process: ONNX Runtime must not be loaded before this process forks."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(_spec, plan).result()


def _retry_while_away(action: Callable[[], Any], stop: StopSignal) -> Any:
    while True:
        try:
            return action()
        except StoreError as error:
            if stop.requested or not is_away(error):
                raise
            time.sleep(1.0)


def _run_celery_worker(app: Any, pool: _Pool, model: str) -> int:
    """Run a Celery worker until the end is requested; returns the exit status."""
    from celery import signals  # noqa: PLC0415

    @app.task(name=TASK, bind=False)  # type: ignore[untyped-decorator]
    def chunk(*numbers: Any, **others: Any) -> None:
        if others or [type(number) for number in numbers] != [int, int]:
            count_unread()
        else:
            pool.work(*numbers)

    def count_unread(**_: Any) -> None:
        with suppress(StoreError), open_database(pool.settings.database) as engine:  # the log has it
            record_unread(engine, model)

    def begin(**_: Any) -> None:
        if pool.plan.processes == 1:  # this process is the worker, and has begun
            return
        leave_to_parent()
        try:
            pool.begin()
        except Exception:  # noqa: BLE001 - Celery would log the error and accept messages
            logger.exception("this process can't begin: the worker ends")
            pool.end_worker()

    for refusal in (signals.task_rejected, signals.task_unknown):
        refusal.connect(count_unread, weak=False)
    if pool.settings.broker.startswith("redis"):
        _guard_redis(count_unread)
    signals.setup_logging.connect(lambda **_: None, weak=False)  # Celery sets up no log of its own
    signals.worker_process_init.connect(begin, weak=False)
    signals.worker_process_shutdown.connect(lambda **_: pool.end(), weak=False)
    task_queue = queue(pool.settings.broker, model)
    app.conf.task_queues = [task_queue]
    worker = celery_worker_class(app, pool.stop, lambda: pool.status)(
        hostname=f"dragoman-{os.getpid()}@{platform.node()}",
        queues=[task_queue.name],
        pool="solo" if pool.plan.processes == 1 else "prefork",
        concurrency=pool.plan.processes,
        quiet=True,
        consumer_cls=_consumer(count_unread),
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()
    pool.end()
    return int(worker.exitcode or pool.status)


UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _guard_redis(count_unread: Callable[[], None]) -> None:
    """Set aside an item of the queue's list that is no message at all; ``count_unread`` is called for each.

    kombu raises such an item's error in the worker's loop, before any consumer sees it.
    """
    from kombu.transport import redis  # noqa: PLC0415

    class Guarded(redis.Channel):  # type: ignore[misc]
        def _brpop_read(self, **options: Any) -> Any:
            try:
                return super()._brpop_read(**options)
            except UNREADABLE as error:
                logger.error("an item of the queue is no message and is set aside: %s", error)
                count_unread()
                return True

    redis.Transport.Channel = Guarded


def _consumer(count_unread: Callable[[], None]) -> Any:
    """Celery's consumer class, which a message that can't be read does not end; ``count_unread`` is called for each.

    Without delayed delivery, which costs RabbitMQ 28 unused queues and as many exchanges.
    """
    from celery.worker.consumer import Consumer  # noqa: PLC0415

    class Prompt(Consumer):  # type: ignore[misc]
        class Blueprint(Consumer.Blueprint):  # type: ignore[misc]
            default_steps = [step for step in Consumer.Blueprint.default_steps if not step.endswith(":DelayedDelivery")]  # noqa: RUF012

        def create_task_handler(self, *arguments: Any, **others: Any) -> Callable[[Any], None]:
            handle = super().create_task_handler(*arguments, **others)

            def received(message: Any) -> None:
                try:
                    handle(message)
                except UNREADABLE as error:
                    logger.error("a message can't be read and is set aside: %s", error)
                    if not message.acknowledged:
                        message.reject_log_error(logger, self.connection_errors)
                    count_unread()

            return received

        def on_decode_error(self, message: Any, error: Exception) -> None:
            super().on_decode_error(message, error)
            count_unread()

    return Prompt
