"""Threads for searches, with a bound on the number of waiting requests and on the seconds of each."""

import asyncio
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from encoders.inference.graph import GpuFailure, GpuFull
from query.service.refusals import Refused
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions

T = TypeVar("T")
_AVERAGE_WEIGHT = 0.1


class SearchThreads:
    """Threads that search and requests that wait, bounded; all but ``close`` is called in the event loop's thread.

    A search that meets a lost card, ``failure``, ends the process by SIGTERM: the card stays lost in its process.
    """

    def __init__(self, options: ServiceOptions, metrics: Metrics) -> None:
        """Begin without searches; the metrics show those that run or wait, and count refused requests."""
        self._pool = ThreadPoolExecutor(options.threads, thread_name_prefix="search")
        self._threads, self._seconds = options.threads, options.seconds
        self._capacity = options.threads + options.max_waiting
        self._admitted = 0
        self._average_seconds = 0.05
        self._metrics = metrics
        self.failure: GpuFailure | None = None

    async def do(self, act: Callable[[], T]) -> T:
        """Call a function in a thread. Raises Refused: too many requests run or wait (429), or it is too slow (503)."""
        if self._admitted >= self._capacity:
            self._metrics.refused.labels("full").inc()
            until_room = max(1.0, self._average_seconds * self._admitted / self._threads)
            raise Refused(429, "there is more to search than can be done now; try again", until_room)
        deadline = time.monotonic() + self._seconds

        def act_in_time() -> T:
            if time.monotonic() > deadline:
                raise _too_late()
            return act()

        self._admitted += 1
        self._metrics.waiting.set(self._admitted)
        begun = time.monotonic()
        future = asyncio.get_running_loop().run_in_executor(self._pool, act_in_time)
        future.add_done_callback(lambda finished: self._finish(finished, begun))
        await asyncio.wait([future], timeout=self._seconds)
        if not future.done():
            self._metrics.refused.labels("late").inc()
            raise _too_late()
        return future.result()

    def _finish(self, future: asyncio.Future[T], begun: float) -> None:
        """Count a call as finished, whether or not its request still waits for it."""
        error = None if future.cancelled() else future.exception()  # asyncio logs exceptions that nobody retrieves
        if isinstance(error, GpuFailure) and not isinstance(error, GpuFull) and self.failure is None:
            self.failure = error
            signal.raise_signal(signal.SIGTERM)
        self._admitted -= 1
        self._metrics.waiting.set(self._admitted)
        self._average_seconds += _AVERAGE_WEIGHT * (time.monotonic() - begun - self._average_seconds)

    def close(self) -> None:
        """Let running searches end, and cancel waiting ones."""
        self._pool.shutdown(cancel_futures=True)


def _too_late() -> Refused:
    return Refused(503, "the search took too long and was given up; try again, or ask for less", 1.0)
