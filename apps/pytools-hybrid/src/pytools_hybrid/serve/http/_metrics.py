"""What is counted for Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# As other servers note it; nobody gets to see it.
_CLIENT_HAS_GONE = 499
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts what one application does."""

    def __init__(self) -> None:
        # When a series began is another series beside each, which no dashboard shows.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        self._searches = Counter(
            "pytools_searches",
            "Searches of the JSON API, by mode and outcome.",
            ["mode", "outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "pytools_search_seconds",
            "How long those searches took, including time in the queue.",
            ["mode"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._lost = Counter(
            "pytools_search_channels_lost",
            "Channels that were unavailable to those searches.",
            ["channel"],
            registry=registry,
        )
        self._requests = Counter(
            "pytools_http_requests",
            "HTTP requests, by route and status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._request_seconds = Histogram(
            "pytools_http_request_seconds",
            "How long they took to answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._tools = Gauge("pytools_tools", "Tools in the index.", registry=registry)
        self._vectors = Gauge("pytools_vectors", "Tools that have a vector.", registry=registry)
        self._generation = Gauge(
            "pytools_index_generation", "The generation of the index.", registry=registry
        )

    def searched(
        self, mode: str, outcome: str, seconds: float, *, lost: Iterable[str] = ()
    ) -> None:
        """Count a search.

        Args:
            mode: Its mode.
            outcome: What came of it.
            seconds: How long it took.
            lost: The names of the channels that it had to do without.
        """
        self._searches.labels(mode, outcome).inc()
        self._seconds.labels(mode).observe(seconds)
        for channel in lost:
            self._lost.labels(channel).inc()

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        # Anybody can make up a method, and each would be a series of its own.
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def indexed(self, *, tools: int, vectors: int, generation: int) -> None:
        """Note how the index is now."""
        self._tools.set(tools)
        self._vectors.set(vectors)
        self._generation.set(generation)

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)


class CountRequests:
    """Counts the requests to an application.

    Args:
        app: The application.
        metrics: Where they are counted.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it when its response begins, it fails or it is let go."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, answered = time.perf_counter(), False

        def count(status: int) -> None:
            nonlocal answered
            if not answered:
                answered = True
                route = getattr(scope.get("route"), "path", "none")
                seconds = time.perf_counter() - started
                self._metrics.requested(scope["method"], route, status, seconds)

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        except Exception:
            count(500)
            raise
        count(_CLIENT_HAS_GONE)
