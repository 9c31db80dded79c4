"""Calls of many threads, of which those that wait at the same time are made together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=Hashable)
Given = TypeVar("Given")
Result = TypeVar("Result")


class WaitingCalls(Generic[Kind, Given, Result]):
    """Makes the calls of many threads, a bounded number at once.

    A call is made at once if there is room. The calls of one kind that wait for room are made as one, in the thread of
    one of the callers.
    """

    def __init__(self, make: Callable[[Kind, Sequence[Given]], Sequence[Result]], at_once: int, most: int) -> None:
        """Make calls by ``make``, which takes the calls' kind and what each was given, and returns their results.

        ``at_once`` is the maximum number of calls of ``make`` at a time, ``most`` that of calls made as one.
        """
        self._make, self._most = make, most
        self._room = threading.Semaphore(at_once)
        self._lock = threading.Lock()
        self._waiting: dict[Kind, deque[tuple[Given, Future[Result]]]] = {}

    def call(self, kind: Kind, given: Sequence[Given]) -> list[Result]:
        """Make calls of one kind, and return their results in order.

        Raises:
            Exception: that which was raised for these calls, or for those that were made with them.
        """
        futures: list[Future[Result]] = [Future() for _ in given]
        if not futures:
            return []
        with self._lock:
            self._waiting.setdefault(kind, deque()).extend(zip(given, futures, strict=True))
        for future in futures:
            while not (future.running() or future.done()):
                with self._room:
                    self._make_next(kind)
        return [future.result() for future in futures]

    def _make_next(self, kind: Kind) -> None:
        """Make the calls that have waited longest as one, if any still wait."""
        with self._lock:
            waiting = self._waiting.get(kind, deque())
            calls = [waiting.popleft() for _ in range(min(self._most, len(waiting)))]
            for _, future in calls:
                future.set_running_or_notify_cancel()
            if not waiting:
                self._waiting.pop(kind, None)
        if not calls:
            return
        try:
            results = list(zip(calls, self._make(kind, [given for given, _ in calls]), strict=True))
        except BaseException as error:  # noqa: BLE001 - raised in the threads of all callers
            for _, future in calls:
                future.set_exception(error)
            return
        for (_, future), result in results:
            future.set_result(result)
