"""The line that says how a training goes: loss, rate, time left."""

from __future__ import annotations

import datetime as dt
import time

from encoders.console import Console

_SECONDS = 10.0


class TrainingProgress:
    """Says a line on stderr every ten seconds.

    Attributes:
        units: trained on since this run began.
    """

    def __init__(self, console: Console, step: int, total: int, unit: str) -> None:
        """Begin at a step of so many; ``unit`` is what the rate counts, as ``tokens``."""
        self._console, self._total, self._unit = console, total, unit
        self._first = self._step = step
        self._start = self._said = time.monotonic()
        self.units = 0

    @property
    def seconds(self) -> float:
        """Since this run began."""
        return max(time.monotonic() - self._start, 1e-9)

    def __call__(self, units: int, loss: float) -> None:
        """One step more is done, on so many units, with this loss."""
        self._step += 1
        self.units += units
        now = time.monotonic()
        if now - self._said < _SECONDS:
            return
        self._said = now
        each = self.seconds / (self._step - self._first)
        left = dt.timedelta(seconds=round(each * (self._total - self._step)))
        rate = self.units / self.seconds
        self._console.say(
            f"step {self._step:,}/{self._total:,}, loss {loss:.3f}, {rate:,.{0 if rate >= 10 else 1}f} {self._unit}/s, "
            f"{left} left"
        )
