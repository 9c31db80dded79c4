"""The options of the service, read once by ``dragoman serve``."""

from collections.abc import Iterable
from dataclasses import dataclass

from encoders.machine.cores import available_cores
from encoders.machine.placement import Device
from indexer.collection.settings import Settings
from query.service.access import Token

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_THREADS = 256


def usual_threads() -> int:
    """Number of searches at once unless it is given: most of them wait, for a server or for the rankings of others."""
    return min(MOST_THREADS, 8 * available_cores())


@dataclass(frozen=True)
class ServiceOptions:
    """How the service is run."""

    settings: Settings
    collections: tuple[str, ...] = ()  # names; empty: all, also collections indexed later
    device: Device = "auto"  # where queries are encoded
    hybrid: bool = False  # index words at the start, and search with them unless a request says otherwise
    # folder of a reranker, or its name in the cache, for searches that ask for it; none: there is none
    rerank: str | None = None
    tokens: Iterable[Token] = ()  # of the callers; false: everybody who reaches the port may call
    hosts: tuple[str, ...] = LOOPBACK  # names that requests may call the service by; empty: any
    rate: int = 0  # requests a minute of one token, or of one address if there are no tokens; 0: no bound
    threads: int = 4  # number of searches at once
    max_waiting: int = 64  # number of requests that may wait for a thread; more requests are refused with 429
    seconds: float = 30.0  # until a search is given up
    max_body: int = 1_000_000  # maximum size of a request's body, in bytes
    # server that answers searches without the clause; empty: that of an attached collection or the store
    elastic: str = ""
    log: bool = False  # whether queries, hits and clicks are logged
    log_days: int = 90  # days until an entry of the log is removed
