"""The console in the application: its paths, and who has logged in."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.http._searches import Searches
    from pytools_hybrid.serve.http.console._site import Site


class Console:
    """The pages of a server.

    Args:
        search: The search.
        searches: Runs the searches of the JSON API.
        document: The OpenAPI document of the JSON API.
        token: The token to log in with; None if everybody may use the pages.
    """

    def __init__(
        self,
        search: ToolSearch,
        searches: Searches,
        document: Mapping[str, Any],
        *,
        token: str | None,
    ) -> None:
        self._search = search
        self._searches = searches
        self._document = document
        self._token = token

    @cached_property
    def _site(self) -> Site:
        # Most servers never show a page.
        from pytools_hybrid.serve.http.console._site import Site

        return Site(self._search, self._searches, self._document, token=self._token)

    def invitation(self) -> str:
        """Return a path that logs in the first person to open it."""
        return f"/console/enter?code={self._site.sessions.invite()}"

    def routes(self) -> list[Route]:
        """Return the routes; `owns` is true for the path of each."""

        async def search(request: Request) -> Response:
            return await self._site.search(request)

        async def catalogue(request: Request) -> Response:
            return await self._site.catalogue(request)

        async def tool(request: Request) -> Response:
            return await self._site.tool(request)

        async def use(request: Request) -> Response:
            return await self._site.use(request)

        async def docs(request: Request) -> Response:
            return await self._site.docs(request)

        async def health(request: Request) -> Response:
            return await self._site.health(request)

        async def checks(request: Request) -> Response:
            return await self._site.checks(request)

        async def events(request: Request) -> Response:
            return self._site.events(request)

        async def why(request: Request) -> Response:
            return await self._site.why(request)

        async def login(request: Request) -> Response:
            return await self._site.log_in(request)

        async def enter(request: Request) -> Response:
            return await self._site.enter(request)

        async def logout(request: Request) -> Response:
            return await self._site.log_out(request)

        async def static(request: Request) -> Response:
            return await self._site.static(request)

        return [
            Route("/", search),
            Route("/docs", docs),
            Route("/console/tools", catalogue),
            Route("/console/tools/{id:path}", tool),
            Route("/console/use", use),
            Route("/console/health", health),
            Route("/console/health/checks", checks, methods=["POST"]),
            Route("/console/health/events", events),
            Route("/console/why", why),
            Route("/console/login", login, methods=["POST"]),
            Route("/console/enter", enter),
            Route("/console/logout", logout, methods=["POST"]),
            Route("/console/static/{name}", static),
        ]

    @staticmethod
    def owns(path: str) -> bool:
        """Return whether a path belongs to a page or its static files."""
        return path in {"/", "/docs"} or path.startswith("/console/")

    def is_logged_in(self, scope: Scope) -> bool:
        """Return whether a request for a page has the cookie of an open session."""
        return self._site.sessions.opened_by(scope)
