"""How a worker ends: who asks it to end, how long it may finish its chunk, and how its processes treat signals."""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from indexer.workers.logs import logger


class StopSignal:
    """Whether and when a worker must end; shared by all its processes, created before they are forked."""

    def __init__(self, grace: float) -> None:
        """No end is requested yet; ``grace`` is the time from the request to the deadline, in seconds."""
        self.grace = grace
        self._deadline = multiprocessing.RawValue("d", 0.0)  # all processes share the monotonic clock

    def request(self) -> None:
        """Request the end within ``grace`` seconds from now; only the first request counts."""
        if not self.requested:
            self._deadline.value = time.monotonic() + self.grace

    def request_now(self) -> None:
        """Request the end now."""
        self._deadline.value = min(self._deadline.value or math.inf, time.monotonic())

    @property
    def requested(self) -> bool:
        """Whether the end was requested."""
        return bool(self._deadline.value)

    @property
    def overdue(self) -> bool:
        """Whether the deadline has passed."""
        return self.requested and self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, negative after it; infinite before the end is requested."""
        return self._deadline.value - time.monotonic() if self.requested else math.inf


LAST_RESORT = 10.0
"""Seconds after the deadline until the whole worker is ended, if its processes have not ended by themselves."""
_FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
"""Signals from the keyboard: a second signal means now."""
_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGHUP)
"""Signals from a service manager or a closing terminal; every process may get them, and more than once."""


def celery_worker_class(app: Any, stop: StopSignal, status: Callable[[], int]) -> Any:
    """Celery's worker class, with signal handlers that end the worker by ``stop``; ``status``: the exit status.

    Celery's own handlers break off a solo worker's chunk as if a document had failed; on SIGHUP they restart the
    process, which prints its arguments. The first signal requests the end within ``grace``, a second Ctrl-C now.
    """
    from celery.worker import state  # noqa: PLC0415

    def handle_signal(signal_number: int, _frame: object) -> None:
        if not stop.requested:
            stop.request()
            threading.Thread(target=_exit_after_last_resort, args=(stop, status), daemon=True).start()
        elif signal_number in _FROM_KEYBOARD:
            stop.request_now()
        state.should_stop = 0

    class Worker(app.Worker):  # type: ignore[misc]
        def install_platform_tweaks(self, worker: Any) -> None:
            hangup_handler = signal.getsignal(signal.SIGHUP)
            super().install_platform_tweaks(worker)
            for signal_number in (*_FROM_OUTSIDE, *_FROM_KEYBOARD):
                signal.signal(signal_number, handle_signal)
            if hangup_handler is signal.SIG_IGN:  # nohup set it
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

    return Worker


def _exit_after_last_resort(stop: StopSignal, status: Callable[[], int]) -> None:
    logger.info(
        "asked to end: what is being encoded is finished within %g s or goes back; Ctrl-C once more, and it goes back "
        "now",
        stop.grace,
    )
    while stop.seconds_left > -LAST_RESORT:
        time.sleep(0.25)
    os._exit(status())


def leave_to_parent() -> None:
    """Ignore signals in this child process: its parent gets them too and ends the child.

    The pool does not touch ignored signals. It replaces any other handler by its own, which breaks off the chunk.
    """
    for signal_number in (*_FROM_OUTSIDE, *_FROM_KEYBOARD):
        signal.signal(signal_number, signal.SIG_IGN)
