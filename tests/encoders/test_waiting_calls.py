"""Calls that wait are made together, each of its kind, and none waits for ever."""

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from encoders.waiting_calls import WaitingCalls
from tests.conftest import until


class Held:
    """A function that waits until it may go on, and remembers what it was called with."""

    def __init__(self) -> None:
        self.made: list[tuple[str, list[int]]] = []
        self.begun, self.may, self._turns = threading.Event(), threading.Event(), threading.Semaphore(0)

    def go_on(self, times: int) -> None:
        """Let so many calls return; with ``may`` set all do."""
        self._turns.release(times)

    def __call__(self, kind: str, given: Sequence[int]) -> list[int]:
        self.made.append((kind, list(given)))
        self.begun.set()
        until(lambda: self.may.is_set() or self._turns.acquire(blocking=False))
        if -1 in given:
            raise ValueError("minus one")
        return [number * number for number in given]


def in_turn(
    pool: ThreadPoolExecutor, calls: WaitingCalls[str, int, int], held: Held, *each: tuple[str, int]
) -> list[Future[list[int]]]:
    """Calls of threads of their own; the first is being made, and the others wait in their order."""
    futures = []
    for place, (kind, number) in enumerate(each):
        futures.append(pool.submit(calls.call, kind, [number]))
        assert held.begun.wait(60)
        until(partial(lambda count: len(calls._waiting) == count, place))
    return futures


def test_a_lone_call_is_made_at_once_and_those_that_came_meanwhile_by_their_kinds() -> None:
    held = Held()
    calls = WaitingCalls(held, at_once=1, most=3)
    with ThreadPoolExecutor(20) as pool:
        waiting = [("ab"[number % 2], number) for number in range(8)]
        first, *following = in_turn(pool, calls, held, ("a", 1), *waiting)
        assert held.made == [("a", [1])]
        held.may.set()
        assert first.result(60) == [1]
        assert [call.result(60) for call in following] == [[number * number] for number in range(8)]
    assert held.made[1:] == [("a", [0, 2, 4]), ("b", [1, 3, 5]), ("a", [6]), ("b", [7])]


def test_a_result_is_returned_though_all_room_is_taken_by_others() -> None:
    held = Held()
    calls = WaitingCalls(held, at_once=1, most=1)
    with ThreadPoolExecutor(20) as pool:
        first, second, third = in_turn(pool, calls, held, ("a", 1), ("a", 2), ("a", 3))
        held.begun.clear()
        held.go_on(1)
        assert first.result(60) == [1]
        assert held.begun.wait(60), "another thread has the room"
        held.go_on(2)
        assert (second.result(60), third.result(60)) == ([4], [9])


def test_a_failure_is_that_of_those_that_were_made_together_alone() -> None:
    held = Held()
    calls = WaitingCalls(held, at_once=1, most=2)
    with ThreadPoolExecutor(20) as pool:
        submitted = in_turn(pool, calls, held, *(("a", number) for number in (1, 2, -1, 3)))
        held.may.set()
        for place in (1, 2):
            with pytest.raises(ValueError, match="minus one"):
                submitted[place].result(60)
        assert (submitted[0].result(60), submitted[3].result(60)) == ([1], [9])
    with pytest.raises(ValueError, match="shorter"):
        WaitingCalls[str, int, int](lambda *_: [], at_once=1, most=2).call("a", [1, 2])


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (1, 4), (3, 2)])
def test_each_of_many_calls_gets_its_own_result_and_only_so_many_are_made_at_once(at_once: int, most: int) -> None:
    room = threading.BoundedSemaphore(at_once)

    def make(kind: int, given: Sequence[int]) -> list[tuple[int, int]]:
        assert room.acquire(blocking=False), f"more than {at_once} are made at once"
        assert len(given) <= most
        room.release()
        return [(kind, number) for number in given]

    calls = WaitingCalls(make, at_once, most)

    def several(seed: int) -> bool:
        draw = random.Random(seed)
        for _ in range(200):
            kind, given = draw.randrange(3), [draw.randrange(1000) for _ in range(draw.randrange(4))]
            assert calls.call(kind, given) == [(kind, number) for number in given]
        return True

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(several, range(12)))
    assert not calls._waiting
