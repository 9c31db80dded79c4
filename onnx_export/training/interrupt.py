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

    Where Ctrl-C would not raise ``KeyboardInterrupt`` (in another thread, ignored, handled by the caller) all stays so.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.default_int_handler(number, frame)
        asked = True

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
