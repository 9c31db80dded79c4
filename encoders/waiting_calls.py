"""Calls of many threads, of which those that wait at the same time are made together."""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=Hashable)
Given = TypeVar("Given")
Result = TypeVar("Result")

_Call = tuple[Kind, Given, Future[Result]]


class WaitingCalls(Generic[Kind, Given, Result]):
    """Makes the calls of many threads, a bounded number at once, the oldest first, and those of its kind with it."""

    def __init__(self, make: Callable[[Kind, Sequence[Given]], Sequence[Result]], at_once: int, most: int) -> None:
        """Make calls by ``make``, at most ``at_once`` at a time, each for at most ``most`` calls of threads."""
        self._make, self._room, self._most = make, at_once, most
        self._changed = threading.Condition()
        self._waiting: deque[_Call[Kind, Given, Result]] = deque()

    def call(self, kind: Kind, given: Sequence[Given]) -> list[Result]:
        """Make calls of one kind; return results in order. Raises Exception: from ``make``, for a call among them."""
        futures: list[Future[Result]] = [Future() for _ in given]
        with self._changed:
            self._waiting.extend((kind, *call) for call in zip(given, futures, strict=True))
        for future in futures:
            while calls := self._calls_to_make(future):
                try:
                    self._make_all(calls)
                finally:
                    with self._changed:
                        self._room += 1
                        self._changed.notify_all()
        return [future.result() for future in futures]

    def _calls_to_make(self, own: Future[Result]) -> list[_Call[Kind, Given, Result]]:
        """Wait until a thread's own call is made, or there is room; return the calls that this thread is to make."""
        with self._changed:
            self._changed.wait_for(lambda: own.done() or (self._room and not own.running()))
            if own.done():
                return []
            self._room -= 1
            oldest = self._waiting[0][0]
            calls = [call for call in self._waiting if call[0] == oldest][: self._most]
            for call in calls:
                call[2].set_running_or_notify_cancel()
            self._waiting = deque(call for call in self._waiting if not call[2].running())
            return calls

    def _make_all(self, calls: Sequence[_Call[Kind, Given, Result]]) -> None:
        """Make calls of one kind as one; an error is raised in the threads of all of them."""
        try:
            results = list(zip(calls, self._make(calls[0][0], [given for _, given, _ in calls]), strict=True))
        except BaseException as error:
            for _, _, future in calls:
                future.set_exception(error)
            if not isinstance(error, Exception):  # Ctrl-C is this thread's
                raise
            return
        for (_, _, future), result in results:
            future.set_result(result)
