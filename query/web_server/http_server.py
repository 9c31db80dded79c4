"""The HTTP server that runs the service, the sockets that it listens at, and processes that share them."""

import ctypes
import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

import sqlalchemy as sa
import uvicorn
from prometheus_client.multiprocess import mark_process_dead

from encoders.errors import BadInput, DragomanError, StoreError
from query.service.open_collections import OpenCollections
from query.service.service_options import ServiceOptions
from query.web_server.application import Service
from query.web_server.bounded_connection import BoundedConnection

_logger = logging.getLogger("dragoman.service")
_BACKLOG = 128
"""Connections that wait until they are taken; as many are taken before one of them is counted."""
_MISSING = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""Errors of an address that the host's name has and this machine lacks, as ``::1`` where there is no IPv6."""
_EVERY = 5.0
"""Seconds between two looks for collections that have changed."""
_PARENT_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of Linux's prctl.h."""


@contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Listen at all of a host's addresses; port 0: a free port. Raises BadInput: no address, or the port is taken."""
    with ExitStack() as stack:
        try:
            sockets = [stack.enter_context(opened) for opened in _listen(host, port)]
        except OSError as error:
            raise BadInput(
                f"the service can't listen at {host}:{port} ({error.strerror}); "
                "stop what listens there, or take another --port or --host"
            ) from error
        yield sockets


def _listen(host: str, port: int) -> Iterator[socket.socket]:
    """The sockets; an address that this machine lacks is left out if the host has another."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = list(dict.fromkeys(answers))  # a name may have an address twice
    missing: list[OSError] = []
    for family, _, protocol, _, address in addresses:
        try:
            yield _socket(family, protocol, address)
        except OSError as error:
            if error.errno not in _MISSING:
                raise
            missing.append(error)
    if len(missing) == len(addresses):
        raise missing[0]


def _socket(family: int, protocol: int, address: Any) -> socket.socket:
    # without the protocol's number asyncio would not send small responses at once
    opened = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        if os.name == "posix":  # elsewhere the option would let another service take the port
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


class Server(uvicorn.Server):
    """A uvicorn server that logs why it stops."""

    who = "the service"
    _signal: int | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in order; the signal is logged later, as a signal may interrupt the writing of the log."""
        self._signal = self._signal or sig
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Log the reason, answer the requests that have begun, and close all connections."""
        at = f" at {signal.Signals(self._signal).name}" if self._signal else ""
        _logger.warning("%s stops%s; requests that have begun are still answered", self.who, at)
        await super().shutdown(sockets)


def server(service: Service, options: ServiceOptions) -> Server:
    """A server, not started: connections are bounded, no proxy's headers are trusted, and it stops in order."""
    return Server(
        uvicorn.Config(
            service.app,
            http=BoundedConnection,
            log_config=None,  # the command's formatter escapes what callers send
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            backlog=_BACKLOG,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(options.seconds) + 1,
        )
    )


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
        Server.who = "a process of the service"
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
