"""How a worker ends: who asks it to, how long it may finish what it is at, and what its processes make of signals."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from indexer.workers.logs import logger

if TYPE_CHECKING:
    from celery import Celery


class StopSignal:
    """Whether and by when to end; one for all processes of a worker, made before they are forked.

    Attributes:
        grace: seconds from the wish to the end.
    """

    def __init__(self, grace: float) -> None:
        """Nobody wishes it yet."""
        self.grace = grace
        self._until = multiprocessing.RawValue("d", 0.0)  # the monotonic clock is one for all processes

    def ask(self) -> None:
        """End by so many seconds from now; the first wish counts."""
        if not self.asked:
            self._until.value = time.monotonic() + self.grace

    def hurry(self) -> None:
        """End now."""
        self._until.value = min(self._until.value or math.inf, time.monotonic())

    @property
    def asked(self) -> bool:
        """Whether it shall end."""
        return bool(self._until.value)

    @property
    def overdue(self) -> bool:
        """Whether the time to finish is over."""
        return self.asked and self.left <= 0

    @property
    def left(self) -> float:
        """Seconds to finish, below 0 when they are over; without end before anybody wishes it."""
        return self._until.value - time.monotonic() if self.asked else math.inf


LAST_RESORT = 10.0
"""Seconds past the grace until the whole worker is ended, should its processes not have ended by themselves."""
_BY_HAND = (signal.SIGINT, signal.SIGQUIT)
"""Of a keyboard: the second one means now."""
_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGHUP)
"""Of a service manager and of a terminal that closes; they may come to every process, and more than once."""


def worker_of(app: Celery, stop: StopSignal, status: Callable[[], int]) -> Any:
    """Celery's worker, which ends as ``stop`` has it.

    Its own answers to signals break a solo worker's chunk off, as if a document had, and to SIGHUP begin the process
    anew, which prints its arguments.

    Args:
        app: of the worker.
        stop: asked by the first signal, hurried by Ctrl-C once more.
        status: that the process ends with if nothing else ends it.
    """
    from celery.worker import state  # noqa: PLC0415

    def asked(number: int, _frame: object) -> None:
        if not stop.asked:
            stop.ask()
            threading.Thread(target=_end_at_last, args=(stop, status), daemon=True).start()
        elif number in _BY_HAND:
            stop.hurry()
        state.should_stop = 0

    class Worker(app.Worker):  # type: ignore[misc]
        def install_platform_tweaks(self, worker: Any) -> None:
            hung_up = signal.getsignal(signal.SIGHUP)
            super().install_platform_tweaks(worker)
            for one in (*_FROM_OUTSIDE, *_BY_HAND):
                signal.signal(one, asked)
            if hung_up is signal.SIG_IGN:  # by nohup
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

    return Worker


def _end_at_last(stop: StopSignal, status: Callable[[], int]) -> None:
    logger.info(
        "asked to end: what is being encoded is finished within %g s or goes back; Ctrl-C once more, and it goes back "
        "now",
        stop.grace,
    )
    while stop.left > -LAST_RESORT:
        time.sleep(0.25)
    os._exit(status())


def leave_to_parent() -> None:
    """Let this process, one of several, end when its parent lets it, which is asked as well.

    The pool leaves ignored signals alone, and replaces any other answer by its own, which breaks the chunk off.
    """
    for one in (*_FROM_OUTSIDE, *_BY_HAND):
        signal.signal(one, signal.SIG_IGN)
