"""How the service is run: read once by the command, passed on as a plain value."""

from __future__ import annotations

from dataclasses import dataclass

from encoders.session import Device
from indexer.settings import Settings
from query.service.access import Token

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServiceOptions:
    """How the service is run.

    Attributes:
        settings: where collections are.
        collections: names of those that are served; empty: all there are, new ones too.
        device: where queries are encoded.
        hybrid: take in the words of collections at the start, and search with them unless a request says otherwise.
        tokens: who may ask; empty: everybody who reaches the port.
        hosts: names that requests may call the service by; empty: any.
        rate: requests a minute of one token, or of one address where there are no tokens; 0: no bound.
        threads: searches at once.
        waiting: requests that may wait for one of them; those beyond are refused with 429.
        seconds: until a search is given up.
        body: bytes of a request's body.
        elastic: server that Elasticsearch calls are passed on to; empty: that of an attached collection or the store.
        indices: patterns of indices that are readable there beside the collections' own without a caller's credentials.
        writes: pass on writes, too, of those who may.
        log: keep a log of queries and clicks.
        log_days: how long it is kept.
    """

    settings: Settings
    collections: tuple[str, ...] = ()
    device: Device = "auto"
    hybrid: bool = False
    tokens: tuple[Token, ...] = ()
    hosts: tuple[str, ...] = LOOPBACK
    rate: int = 0
    threads: int = 4
    waiting: int = 64
    seconds: float = 30.0
    body: int = 1_000_000
    elastic: str = ""
    indices: tuple[str, ...] = ()
    writes: bool = False
    log: bool = False
    log_days: int = 90
