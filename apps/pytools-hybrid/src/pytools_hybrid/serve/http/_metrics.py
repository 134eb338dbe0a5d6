"""Counting requests, and exporting all metrics to Prometheus."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from opentelemetry.trace import SpanKind
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from pytools_hybrid.serve.http._problems import ProblemError
from pytools_hybrid.serve.metrics import HTTP_REQUESTS, HTTP_SECONDS, ToolMetrics
from pytools_hybrid.telemetry import fail_span, requested_through, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.mcpserver import MCPServer
    from opentelemetry.trace import Span
    from prometheus_client import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pytools_hybrid.search import ToolSearch

# The usual status for a client that has disconnected; it is never sent.
_CLIENT_HAS_GONE = 499
_SERVER_ERROR = 500
_TRACE_HEADERS = {b"traceparent", b"tracestate", b"baggage"}
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class Metrics:
    """Exports the metrics of a server."""

    def __init__(self, search: ToolSearch | None, server: MCPServer[None]) -> None:
        self._search = search
        self._server = server

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        registry = CollectorRegistry()
        registry.register(ToolMetrics(None if self._search is None else self._search.index))
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics that only a server has."""
        # The SDK has no public count of sessions.
        sessions = self._server.session_manager._server_instances  # pyright: ignore[reportPrivateUsage]
        yield GaugeMetricFamily("pytools_mcp_sessions", "Open MCP sessions.", len(sessions))


class CountRequests:
    """Counts the requests to an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it when it is answered, fails or is cancelled."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, answered = time.perf_counter(), False

        def count(status: int) -> None:
            nonlocal answered
            if not answered:
                answered = True
                route = getattr(scope.get("route"), "path", "none")
                # Clients can invent methods, and each would become a separate time series.
                method = scope["method"] if scope["method"] in _METHODS else "other"
                HTTP_REQUESTS.labels(method, route, status).inc()
                HTTP_SECONDS.labels(route).observe(time.perf_counter() - started)
                _note(traced, method, route, status)

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        headers = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in _TRACE_HEADERS
        }
        with (
            requested_through("http"),
            span("HTTP", kind=SpanKind.SERVER, headers=headers) as traced,
        ):
            try:
                await self._app(scope, receive, send_counted)
            except asyncio.CancelledError:
                # Only when the server stops, not when a client disconnects.
                if answered:
                    raise
                headers = {"Retry-After": "1", "Connection": "close"}
                problem = ProblemError(
                    503, "the server is shutting down; try again", headers=headers
                )
                await problem.response(scope)(scope, receive, send_counted)
            except Exception:
                count(500)
                raise
            count(_CLIENT_HAS_GONE)


def _note(traced: Span, method: str, route: str, status: int) -> None:
    traced.set_attributes({"http.request.method": method, "http.response.status_code": status})
    if route == "none":
        traced.update_name(method)
    else:
        traced.update_name(f"{method} {route}")
        traced.set_attribute("http.route", route)
    if status >= _SERVER_ERROR:
        fail_span(traced, str(status))
