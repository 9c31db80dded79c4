"""What workers say: a line an event, with the ids of worker, run and chunk; as text or as JSON."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import warnings

from indexer.workers.leases import Lease

logger = logging.getLogger("dragoman.worker")
_IDS = ("run", "chunk")


def of(lease: Lease | None) -> dict[str, int]:
    """The ids of a chunk, as ``extra`` of a log call."""
    return {"run": lease.run, "chunk": lease.number} if lease else {}


class _Lines(logging.Formatter):
    """A line an event; ids that an event has no part in are left out."""

    def __init__(self, worker: str, *, as_json: bool) -> None:
        super().__init__()
        self.worker, self._json = worker, as_json

    def format(self, record: logging.LogRecord) -> str:
        when = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        said = record.getMessage()
        if record.exc_info and record.levelno >= logging.ERROR:
            said = f"{said}\n{self.formatException(record.exc_info)}"
        ids = {"worker": self.worker, **{name: getattr(record, name) for name in _IDS if hasattr(record, name)}}
        if self._json:
            event = {"time": when, "level": record.levelname.lower(), "logger": record.name, **ids, "event": said}
            return json.dumps(event, ensure_ascii=False)
        said = " | ".join(line for line in said.splitlines() if line.strip())
        return f"{when} {record.levelname.lower()} {' '.join(f'{name}={value}' for name, value in ids.items())}: {said}"


def log_to_stderr(worker: str, *, as_json: bool, quiet: bool = False) -> None:
    """Send this process's log to stderr, as of a worker; what Celery says is part of it from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(worker, as_json=as_json))
    root = logging.getLogger()
    root.handlers = [handler]
    logging.captureWarnings(True)
    root.setLevel(logging.WARNING)
    warnings.simplefilter("ignore", PendingDeprecationWarning)  # of Celery's, each time that a broker is away
    warnings.filterwarnings("ignore", "You're running the worker with superuser")  # of a container, mostly
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
