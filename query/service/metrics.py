"""What Prometheus reads of the service."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_FAST = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """Counters of one service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("dragoman_requests", "Requests.", ("route", "status"), registry=self.registry)
        self.seconds = Histogram(
            "dragoman_request_seconds", "Time to an answer.", ("route",), buckets=_FAST, registry=self.registry
        )
        self.searches = Counter(
            "dragoman_searches", "Searches by language of the query.", ("collection", "lang"), registry=self.registry
        )
        self.waiting = Gauge("dragoman_waiting", "Searches that run or wait.", registry=self.registry)
        self.refused = Counter("dragoman_refused", "Requests refused.", ("why",), registry=self.registry)
        self._batches = Histogram(
            "dragoman_queries_encoded", "Queries encoded at once.", buckets=(1, 2, 4, 8, 16, 32), registry=self.registry
        )
        self._vectors = Counter(
            "dragoman_query_vectors", "Query vectors, kept or to be made.", ("kept",), registry=self.registry
        )
        self.upstream = Histogram(
            "dragoman_upstream_seconds", "Elasticsearch's answers.", buckets=_FAST, registry=self.registry
        )
        self.log_lost = Counter("dragoman_log_lost", "Entries the query log did not take.", registry=self.registry)

    def encoded(self, queries: int) -> None:
        """Queries were encoded in one call."""
        self._batches.observe(queries)

    def kept(self, there: bool) -> None:
        """A query's vector was there, or had to be made."""
        self._vectors.labels("yes" if there else "no").inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)
