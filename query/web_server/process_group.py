"""Processes that serve at the same sockets, forked so that they share what was opened before."""

import ctypes
import logging
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

import sqlalchemy as sa
from prometheus_client.multiprocess import mark_process_dead

from encoders.errors import DragomanError, StoreError
from query.service.open_collections import OpenCollections

_EVERY = 5.0
"""Seconds between two looks for collections that have changed."""
_PARENT_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of Linux's prctl.h."""


def serve_in_processes(count: int, opened: OpenCollections, serve: Callable[[], None], *, passes_hangup: bool) -> None:
    """Fork processes that ``serve`` until SIGTERM, SIGINT, or SIGHUP unless it is passed on to them.

    A process that was killed is replaced. All are after a run or calibration, so that they share what each read anew.
    This process starts no thread, which would not be forked. Raises StoreError: a process failed.
    """
    signals = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    versions, children, outdated = opened.versions(), set[int](), set[int]()
    opened.prepare_forks()
    try:
        while True:
            while len(children - outdated) < count:
                children.add(_fork(opened, serve, mask))
            if (received := signal.sigtimedwait(signals, _EVERY)) is None:
                with suppress(DragomanError, sa.exc.SQLAlchemyError):  # the database may answer at the next look
                    if (now := opened.versions()) != versions:
                        opened.prepare_forks()
                        versions, outdated = now, set(children)
                        _send(signal.SIGTERM, outdated)
            elif received.si_signo == signal.SIGCHLD:
                _forget_ended(children)
            elif received.si_signo == signal.SIGHUP and passes_hangup:
                _send(signal.SIGHUP, children)
            else:
                return
    finally:
        _send(signal.SIGTERM, children)
        for pid in children:
            os.waitpid(pid, 0)


def _fork(opened: OpenCollections, serve: Callable[[], None], mask: Iterable[int]) -> int:
    if pid := os.fork():
        return pid
    try:
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        opened.forked()
        serve()
        os._exit(0)
    except BaseException:
        logging.getLogger("dragoman.service").exception("a process of the service failed")
    finally:
        os._exit(1)


def _send(number: int, children: Iterable[int]) -> None:
    for pid in children:
        os.kill(pid, number)


def _forget_ended(children: set[int]) -> None:
    """Take away the processes that have ended. Raises StoreError: a process failed."""
    ended = [child for pid in children if (child := os.waitpid(pid, os.WNOHANG))[0]]
    for pid, _ in ended:
        children.remove(pid)
        mark_process_dead(pid)  # type: ignore[no-untyped-call]
    if any(os.waitstatus_to_exitcode(status) > 0 for _, status in ended):
        raise StoreError("a process of the service failed; the lines above say why")
