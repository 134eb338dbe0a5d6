"""The application: the JSON API, the console and MCP's streamable HTTP, behind one middleware."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from opentelemetry.trace import SpanKind
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect

from pytools_hybrid.serve.http._access import AccessMiddleware, HostRule
from pytools_hybrid.serve.http._api import Api, add_operations, add_status
from pytools_hybrid.serve.http._problems import ProblemError, exception_handlers
from pytools_hybrid.serve.http.console import Console
from pytools_hybrid.serve.metrics import HTTP_REQUESTS, HTTP_SECONDS, ToolMetrics
from pytools_hybrid.serve.operations import Service
from pytools_hybrid.telemetry import fail_span, requested_through, span

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from fastapi import FastAPI
    from mcp.server.mcpserver import MCPServer
    from opentelemetry.trace import Span
    from prometheus_client import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import Settings

_MCP_PATH = "/mcp"
# Each session needs a task and some memory until its client disconnects or is silent for half an
# hour.
_MCP_SESSIONS = 1_000
_MCP_BODY = 1024 * 1024
_BODY = 64 * 1024
_BODY_SECONDS = 20.0
# A client that sends a little too much should get an error, not a broken connection.
_DISCARDED = 4 * 1024 * 1024
# The usual status for a client that has disconnected; it is never sent.
_CLIENT_HAS_GONE = 499
_TRACE_HEADERS = {b"traceparent", b"tracestate", b"baggage"}
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def create_app(
    search: ToolSearch | None,
    follower: Follower | None,
    server: MCPServer[None],
    settings: Settings,
) -> FastAPI:
    """Create the application for an open `ToolSearch`, or without one for MCP alone."""
    token = settings.token.get_secret_value() if settings.token is not None else None
    service = console = None
    if search is not None and follower is not None:
        service = _service(search, follower)
        if settings.console:
            console = Console(service, token=token)
    mcp = server.streamable_http_app(
        streamable_http_path=_MCP_PATH,
        max_request_body_size=_MCP_BODY,
        max_sessions=_MCP_SESSIONS,
        # `AccessMiddleware` already checks the host names of all requests.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        host=settings.host,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with mcp.router.lifespan_context(mcp):
            yield

    hosts = HostRule(settings.host, settings.allowed_hosts)
    app = Api(
        has_token=token is not None,
        middleware=[
            Middleware(RequestMetrics),
            Middleware(AccessMiddleware, hosts=hosts, token=token, console=console),
            Middleware(BodyLimit),
        ],
        exception_handlers=exception_handlers(),
        lifespan=lifespan,
    )
    metrics = CollectorRegistry()
    metrics.register(ToolMetrics(None if search is None else search.index))
    metrics.register(_McpSessions(server))
    add_status(app, search, lambda: generate_latest(metrics))
    if service is not None:
        add_operations(app, service)
    app.router.routes += [*(console.routes() if console is not None else ()), *mcp.routes]
    app.state.console = console
    return app


def _service(search: ToolSearch, follower: Follower) -> Service:
    if search.settings.tools != "call":
        return Service(search, follower)
    # Imported here, because most servers call no tools.
    from pytools_hybrid.serve.calls import ToolCaller

    return Service(search, follower, ToolCaller(search))


class _McpSessions:
    """A collector of the metrics that only a server has."""

    def __init__(self, server: MCPServer[None]) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        # The SDK has no public count of sessions.
        sessions = self._server.session_manager._server_instances  # pyright: ignore[reportPrivateUsage]
        yield GaugeMetricFamily("pytools_mcp_sessions", "Open MCP sessions.", len(sessions))


class RequestMetrics:
    """Counts, times and traces the requests to an application."""

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
                _describe(traced, method, route, status)

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


def _describe(traced: Span, method: str, route: str, status: int) -> None:
    traced.set_attributes({"http.request.method": method, "http.response.status_code": status})
    if route == "none":
        traced.update_name(method)
    else:
        traced.update_name(f"{method} {route}")
        traced.set_attribute("http.route", route)
    if status >= 500:
        fail_span(traced, str(status))


class BodyLimit:
    """Reads the bodies of requests in advance, and refuses large and slow ones."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole body."""
        names = {name for name, _ in scope.get("headers", ())}
        if names.isdisjoint({b"content-length", b"transfer-encoding"}):
            await self._app(scope, receive, send)
            return
        limit = _MCP_BODY if scope["path"] == _MCP_PATH else _BODY
        # Without closing, the rest of the body would be taken for the next request.
        headers = {"Connection": "close"}
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await _read(receive, limit)
        except TimeoutError:
            problem = ProblemError(408, "the body did not arrive in time", headers=headers)
        except ClientDisconnect:
            return
        else:
            if body is not None:
                await self._app(scope, _replay(body, receive), send)
                return
            detail = f"the body is larger than {limit} bytes"
            problem = ProblemError(413, detail, headers=headers)
        await problem.response(scope)(scope, receive, send)


async def _read(receive: Receive, limit: int) -> bytes | None:
    """Return the body, or None if it is too large."""
    body, size, is_last = bytearray(), 0, False
    while not is_last and size <= limit + _DISCARDED:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            body += part
        is_last = not message.get("more_body", False)
    return bytes(body) if size <= limit else None


def _replay(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
