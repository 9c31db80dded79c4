"""A thread that opens the collections before a search needs them, and says which can be searched."""

import threading
from collections.abc import Callable

from encoders.machine.freed_memory import give_back_memory
from query.ranking.searcher_opening import EmptyCollection
from query.service import refusals
from query.service.api_routes import EMPTY, READY, Api
from query.service.open_collections import OpenCollections

_EVERY = 5.0
"""Seconds between two checks of the collections."""
_LIST = "the list of collections"


class CollectionWatch:
    """Every few seconds opens and checks the collections, closes what is not needed, and gives back freed memory."""

    def __init__(self, open_collections: OpenCollections, api: Api, also: Callable[[], None] = lambda: None) -> None:
        """Take the collections, the routes whose ``state`` says which can be searched, and ``also``, done each time."""
        self._open_collections, self._api, self._also = open_collections, api, also
        self._failures: dict[str, tuple[str, str]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="opening", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._api.state = dict.fromkeys(self._open_collections.names(), "opening")
        self._thread.start()

    def close(self, seconds: float = 0.0) -> None:
        """End when the collection that is being opened is open; wait for that at most so many seconds."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _watch(self) -> None:
        while True:
            try:
                self._also()
                self._open_collections.close_unused()
                state = {name: self._api.state.get(name, "opening") for name in self._open_collections.names()}
            except Exception as error:  # noqa: BLE001 - the database may be back at the next check
                self._api.state = dict.fromkeys(self._api.state, self._sentence(_LIST, error))
            else:
                self._failures.pop(_LIST, None)
                self._api.state = state
                for name, previous in state.items():
                    if self._closing.is_set():
                        return
                    self._api.state = {**self._api.state, name: self._collection_state(name, previous)}
            give_back_memory()  # what searches side by side needed
            if self._closing.wait(_EVERY):
                return

    def _collection_state(self, name: str, previous: str) -> str:
        try:
            if previous == READY:
                with self._open_collections.searcher(name):
                    return READY
            self._open_collections.warm(name)
        except EmptyCollection:
            self._failures.pop(name, None)
            return EMPTY
        except Exception as error:  # noqa: BLE001 - one collection that can't be opened must not hide the others
            return self._sentence(name, error)
        self._failures.pop(name, None)
        return READY

    def _sentence(self, name: str, error: Exception) -> str:
        """The sentence of a failure of a part; the log has a failure once, until another takes its place."""
        cause = repr(error)
        if self._failures.get(name, ("",))[0] != cause:
            self._failures[name] = cause, str(refusals.refusal(error))
        return self._failures[name][1]
