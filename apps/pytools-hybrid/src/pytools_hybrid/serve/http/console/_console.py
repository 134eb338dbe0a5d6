"""The console in the application: its paths, and the sessions of people who have logged in."""

from __future__ import annotations

import hmac
import secrets
import time
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from starlette.requests import HTTPConnection, Request
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response
    from starlette.types import Scope

    from pytools_hybrid.serve.http._api import SearchEndpoints
    from pytools_hybrid.serve.http.console._site import Site


_SECONDS = 12 * 60 * 60
_MOST = 1_000
# An invitation is in the browser's arguments, which other users may be able to see.
_INVITED_SECONDS = 10 * 60
_AFTER_A_WRONG_ONE = 1.0


class Console:
    """The pages of a server.

    Args:
        searches: Runs the searches of the JSON API.
        token: The token to log in with; None if anyone may use the pages.
    """

    def __init__(self, searches: SearchEndpoints, *, token: str | None) -> None:
        self.sessions: Sessions = Sessions(token)
        self._searches = searches
        self._has_token = token is not None

    @cached_property
    def _site(self) -> Site:
        # Most servers never show a page.
        from pytools_hybrid.serve.http.console._site import Site

        return Site(self._searches, self.sessions, has_token=self._has_token)

    def invitation(self) -> str:
        """Return a path that logs in the first person who opens it."""
        return f"/console/enter?code={self.sessions.invite()}"

    def routes(self) -> list[Route]:
        """Return the routes; `owns` is true for the path of each."""

        def by(method: str) -> Callable[[Request], Awaitable[Response]]:
            async def answer(request: Request) -> Response:
                handle: Callable[[Request], Awaitable[Response]] = getattr(self._site, method)
                return await handle(request)

            return answer

        return [
            Route("/", by("search")),
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
        """Return whether a path belongs to a page or its static files."""
        return _is_console_path(path)

    def is_logged_in(self, scope: Scope) -> bool:
        """Return whether a request for a page has the cookie of an open session."""
        return self.sessions.opened_by(scope)


def tool_path(id_: str) -> str:
    """Return the path of a tool's page."""
    return f"/console/tools/{quote(id_, errors='replace')}"


def _is_console_path(path: str) -> bool:
    return path == "/" or path.startswith("/console/")


def console_path(target: str) -> str:
    """Return a console path with its query, or `/` for any other address."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "/"
    is_own = not parts.scheme and not parts.netloc and _is_console_path(parts.path)
    return urlunsplit(("", "", parts.path, parts.query, "")) if is_own else "/"


class Sessions:
    """Opens sessions for people who have the token or an invitation.

    A session ends after twelve hours, or with the server. The right token always opens one. A wrong
    token counts as a guess if the same address sent another one less than a second before: this
    does not slow guessing, but makes it visible in logs and to proxies.

    Args:
        token: The token, or None if nobody needs one.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token is not None else None
        # Oldest first.
        self._ends: dict[str, float] = {}
        self._invitations: dict[str, float] = {}
        # By address: the time until which another wrong token counts as a guess.
        self._waits: dict[str, float] = {}

    def invite(self) -> str:
        """Return a code that opens a single session, within ten minutes."""
        code = secrets.token_urlsafe(32)
        self._invitations[code] = time.monotonic() + _INVITED_SECONDS
        return code

    def accept(self, code: str) -> str | None:
        """Return the name of a new session, or None if the code is invalid, used or too old."""
        until = self._invitations.pop(code, None)
        return None if until is None or time.monotonic() > until else self._new()

    def open(self, token: str) -> str | None:
        """Return the name of a new session, or None if the token is wrong."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token):
            return None
        return self._new()

    def is_guess(self, scope: Scope) -> bool:
        """Return whether a wrong token follows another one that the same address has just sent."""
        now, address = time.monotonic(), _address(scope)
        if self._waits.get(address, 0.0) > now:
            return True
        _keep(self._waits, address, now + _AFTER_A_WRONG_ONE)
        return False

    def _new(self) -> str:
        name = secrets.token_urlsafe(32)
        _keep(self._ends, name, time.monotonic() + _SECONDS)
        return name

    def close(self, scope: Scope) -> None:
        """End the session of a request."""
        self._ends.pop(self._named(scope), None)

    def opened_by(self, scope: Scope) -> bool:
        """Return whether a request belongs to an open session."""
        name = self._named(scope)
        if self._ends.get(name, 0.0) > time.monotonic():
            return True
        self._ends.pop(name, None)
        return False

    @staticmethod
    def cookie(scope: Scope) -> str:
        """Return the name of the cookie for a port, because all ports of a host share cookies."""
        _, port = scope.get("server") or ("", None)
        return f"pytools-session-{port or 'local'}"

    def _named(self, scope: Scope) -> str:
        return HTTPConnection(scope).cookies.get(self.cookie(scope), "")


def _address(scope: Scope) -> str:
    host, _ = scope.get("client") or ("", 0)
    return host


def _keep(times: dict[str, float], name: str, until: float) -> None:
    """Add a time, and remove the oldest ones if there are too many."""
    while len(times) >= _MOST:
        del times[next(iter(times))]
    times[name] = until
