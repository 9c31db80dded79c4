"""A worker's processes on the cards of a machine: started, started again after a failure, and ended together."""

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Mapping

from indexer.workers.logs import logger

_SPAWN = multiprocessing.get_context("spawn")
_PAUSE = 60.0
PERMANENT = 2
"""Exit status of a process that would fail again: it is not started again."""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def run_for_each_card(work: Mapping[str, Callable[[], int]], pause: float = _PAUSE) -> int:
    """Run functions by name, each in a process of its own, until all have ended; return 1 if any failed, else 0.

    The functions are pickled and return exit statuses. A process that fails is started again after ``pause`` seconds,
    unless its status is ``PERMANENT``. SIGTERM, SIGHUP and Ctrl-C end all processes by SIGTERM.
    """
    ending = threading.Event()
    statuses: dict[str, int] = {}
    threads = [
        threading.Thread(target=_keep_running, args=(name, function, pause, ending, statuses))
        for name, function in work.items()
    ]
    handlers = {
        number: signal.signal(number, lambda *_: ending.set())
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup set it
    }
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)  # returns now and then, so that signals are handled
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return int(any(statuses.values()))


def _keep_running(
    name: str, function: Callable[[], int], pause: float, ending: threading.Event, statuses: dict[str, int]
) -> None:
    """Run a card's process, again after each failure, until it ends well or the end is requested."""
    while True:
        process = _SPAWN.Process(target=_work, args=(function,), name=name)
        process.start()
        terminated = False
        while process.is_alive():
            if ending.is_set() and not terminated:
                process.terminate()
                terminated = True
            process.join(0.2)
        status = abs(process.exitcode or 0)
        if terminated and status == signal.SIGTERM:  # it was asked to end while it loaded
            status = 0
        statuses[name] = status
        if status in {0, PERMANENT} or ending.is_set():
            return
        logger.error("the worker on %s ended with %d; it is started again in %g s", name, status, pause)
        if ending.wait(pause):
            return


def _work(function: Callable[[], int]) -> None:
    sys.exit(function())
