"""What a store read in one state of its file or indices."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class ReadCache(Generic[_Key, _Value]):
    """Values that were read in one state: what one request reads, the next often reads again."""

    def __init__(self, size_of: Callable[[_Value], int], limit: int) -> None:
        self._size_of, self._limit = size_of, limit  # bytes of a value; most bytes of all: the oldest go
        self._state: object = None
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        self._size = 0
        self.was_full = False  # whether values found no room
        self._lock = threading.Lock()

    def get(self, state: object, keys: Iterable[_Key]) -> dict[_Key, _Value]:
        """The cached values by key; none of another state."""
        with self._lock:
            if state != self._state:
                self._empty(state)
            return {key: self._values[key] for key in keys if key in self._values}

    def add(self, state: object, values: Mapping[_Key, _Value]) -> None:
        """Add values that were read in a state; nothing if the cache is of another by now."""
        with self._lock:
            size = sum(map(self._size_of, values.values()))
            self.was_full |= self._size + size > self._limit
            if state != self._state or size > self._limit:
                return
            outdated = [self._values.pop(key) for key in values if key in self._values]
            self._values |= values
            self._size += size - sum(map(self._size_of, outdated))
            while self._size > self._limit:
                self._size -= self._size_of(self._values.popitem(last=False)[1])

    def _empty(self, state: object) -> None:
        self._state, self._values, self._size, self.was_full = state, OrderedDict(), 0, False

    def clear(self) -> None:
        """Free the memory."""
        with self._lock:
            self._empty(None)
