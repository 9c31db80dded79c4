"""Where searches wait for a thread: as many as there is room for, and none for longer than it is worth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from query.service.metrics import Metrics

T = TypeVar("T")
_FORGETTING = 0.1


class Refused(Exception):
    """A request that is not answered now.

    Attributes:
        status: of the answer.
        after: seconds until it may be tried again; 0: that does not help.
    """

    def __init__(self, status: int, sentence: str, after: float = 0.0) -> None:
        super().__init__(sentence)
        self.status, self.after = status, after


class SearchThreads:
    """Threads that search, and a bounded number of requests that wait for them.

    Everything but ``close`` is called in the event loop's thread.
    """

    def __init__(self, threads: int, waiting: int, seconds: float, metrics: Metrics) -> None:
        """Take the bounds.

        Args:
            threads: searches at once.
            waiting: requests that may wait for one of them.
            seconds: until a request is given up.
            metrics: told how many there are.
        """
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self._threads, self._room, self._seconds = threads, threads + waiting, seconds
        self._inside = 0
        self._usual = 0.05
        self._metrics = metrics

    async def do(self, act: Callable[[], T]) -> T:
        """What an act returns, done by one of the threads.

        Raises:
            Refused: there are too many already (429), or it took too long (503).
        """
        if self._inside >= self._room:
            self._metrics.refused.labels("full").inc()
            raise Refused(429, "there is more to search than can be done now; try again", self._until_room())
        late = time.monotonic() + self._seconds

        def timely() -> T:
            if time.monotonic() > late:
                raise _late()
            return act()

        self._inside += 1
        self._metrics.waiting.set(self._inside)
        begun = time.monotonic()
        future = asyncio.get_running_loop().run_in_executor(self._pool, timely)
        future.add_done_callback(lambda done: self._leave(done, begun))
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._seconds)
        except TimeoutError:
            self._metrics.refused.labels("late").inc()
            raise _late() from None

    def _leave(self, done: asyncio.Future[T], begun: float) -> None:
        """One is done, whether or not anybody still waits for it."""
        if not done.cancelled():
            done.exception()  # seen: where nobody waits any more, nobody else looks
        self._inside -= 1
        self._metrics.waiting.set(self._inside)
        self._usual += _FORGETTING * (time.monotonic() - begun - self._usual)

    def _until_room(self) -> float:
        return max(1.0, self._usual * self._inside / self._threads)

    def close(self) -> None:
        """Let searches that run end; those that wait are not begun."""
        self._pool.shutdown(cancel_futures=True)


def _late() -> Refused:
    return Refused(503, "the search took too long and was given up; try again, or ask for less", 1.0)
