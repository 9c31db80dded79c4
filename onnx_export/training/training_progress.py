"""Progress of a training as lines on stderr: loss, rate, time left; and its end by Ctrl-C between two steps."""

import datetime as dt
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from encoders.console import Console

_SECONDS = 10.0


class TrainingProgress:
    """Prints a line on stderr every ten seconds; ``counts`` are what this run has processed, such as ``tokens``."""

    def __init__(self, console: Console, step: int, total: int) -> None:
        self._console, self._total = console, total
        self._first = self._step = step
        self._start = self._last_line = time.monotonic()
        self.counts: Counter[str] = Counter()

    @property
    def seconds(self) -> float:
        """Seconds since this run began, more than 0."""
        return max(time.monotonic() - self._start, 1e-9)

    def __call__(self, loss: float, **counts: int) -> None:
        """Count a finished step with its loss, and what it processed; a rate is printed of each that is not 0."""
        self._step += 1
        self.counts.update(counts)
        now = time.monotonic()
        if now - self._last_line < _SECONDS:
            return
        self._last_line = now
        seconds_per_step = self.seconds / (self._step - self._first)
        remaining = dt.timedelta(seconds=round(seconds_per_step * (self._total - self._step)))
        rates = {unit: count / self.seconds for unit, count in self.counts.items() if count}
        speeds = "".join(f", {rate:,.{0 if rate >= 10 else 1}f} {unit}/s" for unit, rate in rates.items())
        self._console.say(f"step {self._step:,}/{self._total:,}, loss {loss:.3f}{speeds}, {remaining} left")


@contextmanager
def interrupt_later() -> Iterator[Callable[[], bool]]:
    """Record the first Ctrl-C in the block; the second interrupts at once. Yields whether Ctrl-C was pressed.

    Where Ctrl-C would not raise ``KeyboardInterrupt`` (another thread, ignored, handled), nothing changes.
    """
    pressed = False

    def record(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: False
        return
    signal.signal(signal.SIGINT, record)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
