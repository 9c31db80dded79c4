"""Ctrl-C in a training: it ends between two steps, where its state is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_later() -> Iterator[Callable[[], bool]]:
    """Within the block Ctrl-C is only noted; a second one interrupts at once. Yields whether there was one.

    In a thread other than the main one, where Python hears of no signals, there is none.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.default_int_handler(number, frame)
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: asked
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
