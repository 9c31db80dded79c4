"""The query log: what was asked, what was shown, what was opened; kept for a time, where somebody wants it kept."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from queue import Empty, Full, Queue
from typing import Any

import sqlalchemy as sa

from encoders.errors import StoreError
from indexer.ledger.database import now, transaction
from query.query_log.tables import ClickRow, SearchRow
from query.service.metrics import Metrics

_logger = logging.getLogger("dragoman.service")
_ROOM = 10_000
_AT_ONCE = 200
_CLOSED_WITHIN = 30.0
_EVERY = 3600.0
"""Seconds between two looks for what is too old."""


@dataclass(frozen=True)
class SearchEntry:
    """A search.

    Attributes:
        query: its text.
        lang: its language.
        collection: where.
        space: id of model and calibration.
        settings: what was asked beside that, JSON values.
        hits: ids of what was shown, best first.
        took: milliseconds.
    """

    query: str
    lang: str
    collection: str
    space: str
    settings: dict[str, Any]
    hits: Sequence[str]
    took: int


class QueryLog:
    """Writes the log in a thread of its own: no search waits for it."""

    def __init__(self, engine: sa.Engine, days: int, metrics: Metrics) -> None:
        """Begin.

        Args:
            engine: the database.
            days: how long entries are kept.
            metrics: told of entries that were lost.
        """
        self._engine, self._days, self._metrics = engine, days, metrics
        self._queue: Queue[SearchRow | ClickRow | None] = Queue(_ROOM)
        self._thread = threading.Thread(target=self._work, name="query log", daemon=True)
        self._thread.start()

    def searched(self, entry: SearchEntry) -> str:
        """Keep a search; returns its id."""
        number = uuid.uuid4().hex
        self._put(SearchRow(id=number, created=now(), **{**asdict(entry), "hits": list(entry.hits)}))
        return number

    def clicked(self, search: str, doc_id: str) -> None:
        """Keep that a hit of a search was opened; what it was no hit of is left out."""
        self._put(ClickRow(search=search, doc_id=doc_id, created=now()))

    def _put(self, row: SearchRow | ClickRow) -> None:
        try:
            self._queue.put_nowait(row)
        except Full:
            self._metrics.log_lost.inc()

    def _work(self) -> None:
        looked = -_EVERY
        while True:
            if time.monotonic() - looked >= _EVERY:
                looked = time.monotonic()
                self._attempt(self._forget)
            try:
                rows = [self._queue.get(timeout=_EVERY)]
            except Empty:
                continue
            while len(rows) < _AT_ONCE and not self._queue.empty():
                rows.append(self._queue.get())
            kept = [row for row in rows if row is not None]
            if kept and not self._attempt(lambda: self._write(kept)):  # noqa: B023 - called at once
                self._metrics.log_lost.inc(len(kept))
            if len(kept) < len(rows):
                return

    def _attempt(self, act: Any) -> bool:
        try:
            act()
        except (StoreError, sa.exc.SQLAlchemyError) as error:
            _logger.error("the query log can't be written: %s", error)  # noqa: TRY400 - one line is enough
            return False
        return True

    def _write(self, rows: Sequence[SearchRow | ClickRow]) -> None:
        with transaction(self._engine) as session:
            session.add_all(row for row in rows if isinstance(row, SearchRow))
            session.flush()
            for row in rows:
                if isinstance(row, ClickRow):
                    search = session.get(SearchRow, row.search)
                    if search is not None and row.doc_id in search.hits:
                        session.merge(row)

    def _forget(self) -> None:
        forget(self._engine, now() - dt.timedelta(days=self._days))

    def close(self) -> None:
        """Write what waits; what there is no room for any more is lost."""
        try:
            self._queue.put(None, timeout=_CLOSED_WITHIN)
        except Full:
            self._metrics.log_lost.inc(self._queue.qsize())
            return
        self._thread.join(_CLOSED_WITHIN)


def forget(engine: sa.Engine, before: dt.datetime) -> None:
    """Remove what is older."""
    with transaction(engine) as session:
        session.execute(sa.delete(ClickRow).where(ClickRow.created < before))
        session.execute(sa.delete(SearchRow).where(SearchRow.created < before))
