"""Metrics of a worker for Prometheus: documents, chunks by outcome, seconds by step."""

import atexit
import os
import shutil
import tempfile
import time
from typing import Any

from encoders.errors import BadInput, importing

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Metrics:
    """Metrics that count nothing, for a worker without a metrics port."""

    def spent(self, step: str, started: float) -> float:  # noqa: ARG002
        """Record that a step of a chunk begun at ``started`` is over; returns the current time in seconds."""
        return time.perf_counter()

    def chunk(self, end: str) -> None:
        """Count a chunk by its outcome ``end``."""

    def stored(self, documents: int, refused: int) -> None:
        """Count stored and refused documents."""


class _Prometheus(Metrics):
    def __init__(self) -> None:
        from prometheus_client import Counter, Histogram  # noqa: PLC0415 - after its folder is named

        self._chunks = Counter("dragoman_chunks", "Chunks by how work on them ended.", ["end"])
        self._documents = Counter("dragoman_documents", "Documents stored.")
        self._refused = Counter("dragoman_documents_refused", "Documents refused.")
        self._steps = Histogram("dragoman_step_seconds", "Seconds of a chunk by step.", ["step"], buckets=_SECONDS)

    def spent(self, step: str, started: float) -> float:
        now = time.perf_counter()
        self._steps.labels(step).observe(now - started)
        return now

    def chunk(self, end: str) -> None:
        self._chunks.labels(end).inc()

    def stored(self, documents: int, refused: int) -> None:
        self._documents.inc(documents)
        self._refused.inc(refused)


def serve_metrics(address: str, port: int) -> None:
    """Answer ``GET /metrics`` for this process and its forked children; call this before ``open_metrics``.

    Raises BadInput: the address or its port is not available; MissingPart: the Prometheus client is not installed.
    """
    folder = tempfile.mkdtemp(prefix="dragoman-metrics-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    with importing("workers", "metrics need the Prometheus client; install it"):
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415
        from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415
    registry = CollectorRegistry()
    collector: Any = MultiProcessCollector
    collector(registry)
    try:
        start_http_server(port, address, registry=registry)
    except OSError as error:
        raise BadInput(f"{address}:{port} can't be had for metrics ({error.strerror}); name another") from error


def open_metrics(*, counted: bool) -> Metrics:
    """Prometheus metrics if they are counted, else metrics that count nothing."""
    return _Prometheus() if counted else Metrics()
