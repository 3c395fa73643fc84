"""What a server counts, in the form that Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64)


class Measures:
    """Of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        of_server = {"registry": self._registry}
        self.requests = Counter(
            "mtf_requests", "Requests by path and status.", ("path", "status"), **of_server
        )
        self.seconds = Histogram(
            "mtf_request_seconds",
            "Seconds from request to answer.",
            ("path",),
            buckets=_SECONDS,
            **of_server,
        )
        self.batches = Histogram(
            "mtf_batch_rows", "Requests that were computed together.", buckets=_ROWS, **of_server
        )
        self.tokens = Counter("mtf_tokens", "Tokens decoded.", **of_server)
        self.waiting = Gauge("mtf_waiting", "Requests that wait for the model.", **of_server)

    def text(self) -> bytes:
        """All of it, in Prometheus's text format."""
        return generate_latest(self._registry)
