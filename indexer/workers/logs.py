"""Log of the workers: a line for each event with the ids of worker, run and chunk, as text or as JSON."""

import datetime as dt
import logging
import sys
import warnings

from encoders.console import Console
from encoders.printable import json_line, one_line
from indexer.workers.leases import Lease

logger = logging.getLogger("dragoman.worker")
_IDS = ("run", "chunk")


def log_ids(lease: Lease | None) -> dict[str, int]:
    """Ids of a lease's run and chunk, for the ``extra`` of a log call."""
    return {"run": lease.run_id, "chunk": lease.number} if lease else {}


class _LineFormatter(logging.Formatter):
    """Formats an event as a line with its ids; ids that the event lacks are left out."""

    def __init__(self, worker: str, *, as_json: bool) -> None:
        super().__init__()
        self.worker, self._json = worker, as_json

    def format(self, record: logging.LogRecord) -> str:
        time = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        message = record.getMessage()
        if record.exc_info and record.levelno >= logging.ERROR:
            message = f"{message}\n{self.formatException(record.exc_info)}"
        ids = {"worker": self.worker, **{name: getattr(record, name) for name in _IDS if hasattr(record, name)}}
        if self._json:
            event = {"time": time, "level": record.levelname.lower(), "logger": record.name, **ids, "event": message}
            return json_line(event)
        message = " | ".join(line for line in message.splitlines() if line.strip())
        return one_line(
            f"{time} {record.levelname.lower()} {' '.join(f'{name}={value}' for name, value in ids.items())}: {message}"
        )


class LogConsole(Console):
    """A console whose remarks and warnings are a worker's log."""

    def say(self, sentence: str) -> None:
        """Log a remark."""
        logger.info("%s", sentence)

    def warn(self, sentence: str) -> None:
        """Log a warning."""
        logger.warning("%s", sentence)


def log_to_stderr(worker: str, *, as_json: bool, quiet: bool = False) -> None:
    """Send this process's log to stderr under a worker's id, with Celery's messages from warnings upwards."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter(worker, as_json=as_json))
    root = logging.getLogger()
    root.handlers = [handler]
    logging.captureWarnings(True)
    root.setLevel(logging.WARNING)
    warnings.simplefilter("ignore", PendingDeprecationWarning)  # from Celery, whenever a broker is away
    warnings.filterwarnings("ignore", "You're running the worker with superuser")  # mostly in a container
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
