"""A worker that shall end: how long it may still finish what it is at."""

from __future__ import annotations

import math
import multiprocessing
import time


class Stop:
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
