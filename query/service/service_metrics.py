"""Metrics of the service for Prometheus."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

_SECONDS_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """Metrics of one service, in a separate registry; of all its processes, if the environment names a folder."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter("dragoman_requests", "Requests.", ("route", "status"), registry=registry)
        self.seconds = Histogram(
            "dragoman_request_seconds", "Time to an answer.", ("route",), buckets=_SECONDS_BUCKETS, registry=registry
        )
        self.searches = Counter(
            "dragoman_searches", "Searches by language of the query.", ("collection", "lang"), registry=registry
        )
        self.waiting = Gauge(
            "dragoman_waiting", "Searches that run or wait.", registry=registry, multiprocess_mode="livesum"
        )
        self.refused = Counter("dragoman_refused", "Requests refused.", ("why",), registry=registry)
        self.batches = Histogram(
            "dragoman_queries_encoded", "Queries encoded at once.", buckets=(1, 2, 4, 8, 16, 32), registry=registry
        )
        self.vectors = Counter(
            "dragoman_query_vectors", "Query vectors, kept or to be made.", ("kept",), registry=registry
        )
        self.upstream = Histogram(
            "dragoman_upstream_seconds", "Elasticsearch's answers.", buckets=_SECONDS_BUCKETS, registry=registry
        )
        self.log_lost = Counter("dragoman_log_lost", "Entries the query log did not take.", registry=registry)

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        MultiProcessCollector(of_all := CollectorRegistry())  # type: ignore[no-untyped-call]
        return generate_latest(of_all)
