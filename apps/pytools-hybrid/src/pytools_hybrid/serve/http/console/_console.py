"""The console in the application: its paths, and who has logged in."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from pytools_hybrid.serve.http.console._paths import is_console_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

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
        token: The token to log in with; None if anyone may use the pages.
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
        """Return a path that logs in the first person who opens it."""
        return f"/console/enter?code={self._site.sessions.invite()}"

    def routes(self) -> list[Route]:
        """Return the routes; `owns` is true for the path of each."""

        def by(method: str) -> Callable[[Request], Awaitable[Response]]:
            async def answer(request: Request) -> Response:
                handle: Callable[[Request], Awaitable[Response]] = getattr(self._site, method)
                return await handle(request)

            return answer

        return [
            Route("/", by("search")),
            Route("/docs", by("docs")),
            Route("/console/tools", by("catalogue")),
            Route("/console/tools/{id:path}", by("tool")),
            Route("/console/use", by("use")),
            Route("/console/health", by("health")),
            Route("/console/health/checks", by("checks"), methods=["POST"]),
            Route("/console/why", by("why")),
            Route("/console/login", by("log_in"), methods=["POST"]),
            Route("/console/enter", by("enter")),
            Route("/console/logout", by("log_out"), methods=["POST"]),
            Route("/console/static/{name}", by("static")),
        ]

    def owns(self, path: str) -> bool:
        """Return whether a path belongs to the console."""
        return is_console_path(path)

    def is_logged_in(self, scope: Scope) -> bool:
        """Return whether a request for a page has the cookie of an open session."""
        return self._site.sessions.opened_by(scope)
