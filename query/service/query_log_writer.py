"""The query log of ``dragoman serve --log``: queries, the hits shown and the hits opened, kept for some days."""

import datetime as dt
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from queue import Empty, Full, Queue
from typing import Any

import sqlalchemy as sa

from encoders.errors import StoreError
from indexer.collection.collection import Collection
from indexer.ledger.database import now, transaction
from query.query_log.query_log_tables import ClickRow, SearchRow
from query.service.service_metrics import Metrics

_logger = logging.getLogger("dragoman.service")
_MAX_WAITING = 10_000
_BATCH = 200
_CLOSE_SECONDS = 30.0
_SECONDS_BETWEEN_CLEANINGS = 3600.0
"""Seconds between two removals of old entries."""


class QueryLog:
    """Writes the log in a separate thread, so that no search waits for the database."""

    def __init__(self, engine: sa.Engine, days: int, metrics: Metrics) -> None:
        """Keep entries for ``days``. Raises StoreError: the database can't be written."""
        self._engine, self._days, self._metrics = engine, days, metrics
        self._remove_old()
        self._queue: Queue[SearchRow | ClickRow | None] = Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._work, name="query log", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def searched(self, search: SearchRow) -> str:
        """Log a search, of which only id and time are not yet set; returns the id."""
        search_id = uuid.uuid4().hex
        search.id, search.created = search_id, now()
        self._put(search)
        return search_id

    def clicked(self, search: str, doc_id: str) -> None:
        """Log that a hit of a search was opened; a document that was no hit of the search is ignored."""
        self._put(ClickRow(search=search, doc_id=doc_id, created=now()))

    def _put(self, row: SearchRow | ClickRow) -> None:
        try:
            self._queue.put_nowait(row)
        except Full:
            self._metrics.log_lost.inc()

    def _work(self) -> None:
        cleaned_at = time.monotonic()
        while True:
            if time.monotonic() - cleaned_at >= _SECONDS_BETWEEN_CLEANINGS:
                cleaned_at = time.monotonic()
                self._attempt(self._remove_old)
            try:
                queued = [self._queue.get(timeout=_SECONDS_BETWEEN_CLEANINGS)]
            except Empty:
                continue
            while len(queued) < _BATCH and not self._queue.empty():
                queued.append(self._queue.get())
            entries = [row for row in queued if row is not None]
            if entries and not self._attempt(lambda: self._write(entries)):  # noqa: B023 - called at once
                self._metrics.log_lost.inc(len(entries))
            if len(entries) < len(queued):
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
            searches = [row for row in rows if isinstance(row, SearchRow)]
            session.add_all(searches)
            session.flush()
            named = Collection.name.in_({search.collection for search in searches})
            present = session.scalars(sa.select(Collection.name).where(named).with_for_update(read=True)).all()
            for written in searches:
                if written.collection not in present:  # it was deleted meanwhile, with its log
                    session.delete(written)
            session.flush()
            for row in rows:
                if isinstance(row, ClickRow):
                    search = session.get(SearchRow, row.search)
                    if search is not None and row.doc_id in search.hits:
                        session.merge(row)

    def _remove_old(self) -> None:
        oldest = now() - dt.timedelta(days=self._days)
        with transaction(self._engine) as session:
            session.execute(sa.delete(ClickRow).where(ClickRow.created < oldest))
            session.execute(sa.delete(SearchRow).where(SearchRow.created < oldest))

    def close(self) -> None:
        """Write the waiting entries; if the queue stays full for 30 seconds, they are lost and counted."""
        try:
            self._queue.put(None, timeout=_CLOSE_SECONDS)
        except Full:
            self._metrics.log_lost.inc(self._queue.qsize())
            return
        self._thread.join(_CLOSE_SECONDS)
