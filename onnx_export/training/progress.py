"""Progress of a training as lines on stderr: loss, rate, time left."""

from __future__ import annotations

import datetime as dt
import time

from encoders.console import Console

_SECONDS = 10.0


class TrainingProgress:
    """Prints a line on stderr every ten seconds, and counts the units that this run has processed."""

    def __init__(self, console: Console, step: int, total: int, unit: str) -> None:
        """Start at ``step`` of ``total`` steps; ``unit`` is what the rate counts, such as ``tokens``."""
        self._console, self._total, self._unit = console, total, unit
        self._first = self._step = step
        self._start = self._last_line = time.monotonic()
        self.units = 0

    @property
    def seconds(self) -> float:
        """Seconds since this run began, more than 0."""
        return max(time.monotonic() - self._start, 1e-9)

    def __call__(self, units: int, loss: float) -> None:
        """Count a finished step that processed ``units``, with its loss."""
        self._step += 1
        self.units += units
        now = time.monotonic()
        if now - self._last_line < _SECONDS:
            return
        self._last_line = now
        seconds_per_step = self.seconds / (self._step - self._first)
        remaining = dt.timedelta(seconds=round(seconds_per_step * (self._total - self._step)))
        rate = self.units / self.seconds
        self._console.say(
            f"step {self._step:,}/{self._total:,}, loss {loss:.3f}, {rate:,.{0 if rate >= 10 else 1}f} {self._unit}/s, "
            f"{remaining} left"
        )
