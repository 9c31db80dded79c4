"""Ctrl-C in a training: the training ends between two steps, where its state is consistent."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
