"""The application: the JSON API, the console and MCP's streamable HTTP, behind one gate."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from pytools_hybrid.serve.http._ending import AnswerWhenCut
from pytools_hybrid.serve.http._hosts import HostRule
from pytools_hybrid.serve.http._json import json_response
from pytools_hybrid.serve.http._limits import BodyLimit, Slots
from pytools_hybrid.serve.http._metrics import CountRequests, Metrics
from pytools_hybrid.serve.http._openapi import openapi_document
from pytools_hybrid.serve.http._parameters import NoQuery, read_query
from pytools_hybrid.serve.http._problems import exception_handlers
from pytools_hybrid.serve.http._searches import Searches
from pytools_hybrid.serve.http._security import Gate
from pytools_hybrid.serve.http._status import Status
from pytools_hybrid.serve.http._tools import Calls, Tools
from pytools_hybrid.serve.http.console import Console

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp.server.mcpserver import MCPServer
    from starlette.requests import Request
    from starlette.responses import Response

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
) -> Starlette:
    """Create the application for an open `ToolSearch`, or without one for MCP alone."""
    status = Status(search, Metrics(search, server))
    calls = search is not None and settings.tools == "call"
    document = openapi_document(
        has_index=search is not None, has_token=settings.token is not None, calls=calls
    )

    async def openapi(request: Request) -> Response:
        read_query(NoQuery, request)
        return json_response(document)

    routes = [
        Route("/health", status.health),
        Route("/metrics", status.metrics),
        Route("/openapi.json", openapi),
    ]
    token = settings.token.get_secret_value() if settings.token is not None else None
    console = None
    if search is not None and follower is not None:
        if calls:
            routes.append(_calling(search, follower))
        searches = Searches(search, follower, Slots())
        routes += _over_the_index(search, follower, searches)
        if settings.console:
            console = Console(search, searches, document, token=token)
            routes += console.routes()
    mcp = server.streamable_http_app(
        streamable_http_path=_MCP_PATH,
        max_request_body_size=_MCP_BODY,
        max_sessions=_MCP_SESSIONS,
        # The gate already checks the host names of all requests.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        host=settings.host,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with mcp.router.lifespan_context(mcp):
            yield

    app = Starlette(
        routes=[*routes, *mcp.routes],
        middleware=[
            Middleware(CountRequests),
            Middleware(AnswerWhenCut),
            Middleware(
                Gate,
                hosts=HostRule(settings.host, settings.allowed_hosts),
                token=token,
                console=console,
            ),
            Middleware(BodyLimit, largest=_BODY, of_paths={_MCP_PATH: _MCP_BODY}),
        ],
        exception_handlers=exception_handlers(),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.console = console
    return app


def _calling(search: ToolSearch, follower: Follower) -> Route:
    # Imported here, because most servers call no tools.
    from pytools_hybrid.serve.calls import ToolCaller

    calls = Calls(ToolCaller(search), follower)
    return Route("/api/v1/tools/{id:path}/call", calls.call, methods=["POST"])


def _over_the_index(search: ToolSearch, follower: Follower, searches: Searches) -> list[Route]:
    tools = Tools(search, follower)
    return [
        Route("/search", searches.short),
        Route("/api/v1/tools/search", searches.filtered),
        # An id contains file names, and any other string needs an answer too.
        Route("/api/v1/tools/{id:path}", tools.describe),
        Route("/api/v1/stats", tools.statistics),
        Route("/api/v1/outcomes", tools.report, methods=["POST"]),
    ]
