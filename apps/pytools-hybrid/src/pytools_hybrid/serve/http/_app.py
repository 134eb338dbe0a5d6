"""The application: the JSON API, the console and MCP's streamable HTTP, behind one gate."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from starlette.middleware import Middleware

from pytools_hybrid.serve.http._access import AccessMiddleware, HostRule
from pytools_hybrid.serve.http._api import (
    SearchEndpoints,
    add_operations,
    add_status,
    create_api,
)
from pytools_hybrid.serve.http._limits import BodyLimit, SearchLimit
from pytools_hybrid.serve.http._metrics import CountRequests, Metrics
from pytools_hybrid.serve.http._problems import exception_handlers
from pytools_hybrid.serve.http.console import Console
from pytools_hybrid.serve.operations import Service

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from fastapi import FastAPI
    from mcp.server.mcpserver import MCPServer

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import Settings

_MCP_PATH = "/mcp"
_MCP_BODY = 1024 * 1024
_BODY = 64 * 1024
# Each session needs a task and some memory until its client disconnects or is silent for half an
# hour.
_MCP_SESSIONS = 1_000


def create_app(
    search: ToolSearch | None,
    follower: Follower | None,
    server: MCPServer[None],
    settings: Settings,
) -> FastAPI:
    """Create the application for an open `ToolSearch`, or without one for MCP alone."""
    token = settings.token.get_secret_value() if settings.token is not None else None
    searches = console = None
    if search is not None and follower is not None:
        searches = SearchEndpoints(_service(search, follower), SearchLimit())
        if settings.console:
            console = Console(searches, token=token)
    mcp = server.streamable_http_app(
        streamable_http_path=_MCP_PATH,
        max_request_body_size=_MCP_BODY,
        max_sessions=_MCP_SESSIONS,
        # The gate already checks the host names of all requests.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        host=settings.host,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with mcp.router.lifespan_context(mcp):
            yield

    app = create_api(
        has_token=token is not None,
        middleware=[
            Middleware(CountRequests),
            Middleware(
                AccessMiddleware,
                hosts=HostRule(settings.host, settings.allowed_hosts),
                token=token,
                console=console,
            ),
            Middleware(BodyLimit, largest=_BODY, of_paths={_MCP_PATH: _MCP_BODY}),
        ],
        exception_handlers=exception_handlers(),
        lifespan=lifespan,
    )
    add_status(app, search, Metrics(search, server))
    if searches is not None:
        add_operations(app, searches)
    app.router.routes += [*(console.routes() if console is not None else ()), *mcp.routes]
    app.state.console = console
    return app


def _service(search: ToolSearch, follower: Follower) -> Service:
    if search.settings.tools != "call":
        return Service(search, follower)
    # Imported here, because most servers call no tools.
    from pytools_hybrid.serve.calls import ToolCaller

    return Service(search, follower, ToolCaller(search))
