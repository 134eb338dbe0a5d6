"""The console in the application: its paths, who may see them, and what browsers may do with them.

Pages and templates are imported with the first request for a page.
"""

from __future__ import annotations

import hmac
import secrets
import time
from functools import cached_property, partial
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit, urlunsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pytools_hybrid.serve.http._access import IS_ANONYMOUS, NetworkLocation, is_same_origin
from pytools_hybrid.serve.http._problems import ProblemError, problem_of
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jinja2 import Environment
    from starlette.types import Scope

    from pytools_hybrid.serve.operations import Service

    Page = Callable[[Request], Awaitable[Mapping[str, Any]]]

_SESSION_SECONDS = 12 * 60 * 60
# An invitation is in the browser's arguments, which other users may be able to see.
_INVITATION_SECONDS = 10 * 60
_MOST = 1_000
# Every page has untrusted text: none of it may run, load or send anything, and our own scripts
# cannot turn it into HTML. A referrer is only sent to this server; without any, browsers would send
# forms without an origin.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Sessions:
    """Opens sessions for people who have the token or an invitation.

    A session ends after twelve hours, or with the server.

    Args:
        token: The token, or None if nobody needs one.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token is not None else None
        # Until when each is valid, oldest first.
        self._sessions: dict[str, float] = {}
        self._invitations: dict[str, float] = {}

    def invite(self) -> str:
        """Return a code that opens a single session, within ten minutes."""
        return _new(self._invitations, _INVITATION_SECONDS)

    def accept(self, code: str) -> str | None:
        """Return the name of a new session, or None if the code is invalid, used or too old."""
        is_valid = self._invitations.pop(code, 0.0) > time.monotonic()
        return _new(self._sessions, _SESSION_SECONDS) if is_valid else None

    def log_in(self, token: str) -> str | None:
        """Return the name of a new session, or None if the token is wrong."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token):
            return None
        return _new(self._sessions, _SESSION_SECONDS)

    def log_out(self, scope: Scope) -> None:
        """End the session of a request."""
        self._sessions.pop(self._name(scope), None)

    def is_open(self, scope: Scope) -> bool:
        """Return whether a request belongs to an open session."""
        return self._sessions.get(self._name(scope), 0.0) > time.monotonic()

    @staticmethod
    def cookie(scope: Scope) -> str:
        """Return the name of the cookie for a port, because all ports of a host share cookies."""
        _, port = scope.get("server") or ("", None)
        return f"pytools-session-{port or 'local'}"

    def _name(self, scope: Scope) -> str:
        return HTTPConnection(scope).cookies.get(self.cookie(scope), "")


def _new(times: dict[str, float], seconds: float) -> str:
    """Add a new name, and remove the oldest ones if there are too many."""
    while len(times) >= _MOST:
        del times[next(iter(times))]
    name = secrets.token_urlsafe(32)
    times[name] = time.monotonic() + seconds
    return name


class Console:
    """The pages of a server.

    Args:
        service: Runs its searches.
        token: The token to log in with; None if anyone may use the pages.
    """

    def __init__(self, service: Service, *, token: str | None) -> None:
        self._service = service
        self._sessions = Sessions(token)
        self._has_token = token is not None

    def invitation(self) -> str:
        """Return a path that logs in the first person who opens it."""
        return f"/console/enter?code={self._sessions.invite()}"

    def routes(self) -> list[Route]:
        """Return the routes; `owns` is true for the path of each."""
        post = ["POST"]
        return [
            Route("/", self._shown("search.html")),
            Route("/console/tools", self._shown("catalogue.html")),
            Route("/console/tools/{id:path}", self._shown("tool.html")),
            Route("/console/usage", self._shown("usage.html")),
            Route("/console/health", self._shown("health.html")),
            Route("/console/health/checks", self._from_form(self._shown("checks")), methods=post),
            Route("/console/why", self._why),
            Route("/console/login", self._from_form(self._log_in), methods=post),
            Route("/console/enter", self._enter),
            Route("/console/logout", self._from_form(self._log_out), methods=post),
            Route("/console/static/{name}", self._static),
        ]

    def owns(self, path: str) -> bool:
        """Return whether a path belongs to a page or its static files."""
        return _is_console_path(path)

    def is_logged_in(self, scope: Scope) -> bool:
        """Return whether a request for a page has the cookie of an open session."""
        return self._sessions.is_open(scope)

    @cached_property
    def _pages(self) -> Mapping[str, Page]:
        """What makes the values of each template; most servers never show a page."""
        from pytools_hybrid.serve.http.console import _health, _pages

        health = _health.HealthPage(self._service.search)
        return {
            "search.html": partial(_pages.search_page, self._service),
            "catalogue.html": partial(_pages.catalogue_page, self._service),
            "tool.html": partial(_pages.tool_page, self._service),
            "usage.html": _pages.UsagePage(self._service.search).values,
            "health.html": health.values,
            "checks": health.check_all,
        }

    @cached_property
    def _templates(self) -> Environment:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        templates = Environment(
            loader=PackageLoader("pytools_hybrid.serve.http.console"),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
            # Escaping alone would allow invisible characters, and those that reverse the text.
            finalize=_readable,
        )
        templates.filters["tool_path"] = tool_path
        return templates

    def _shown(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that shows a page to those who have logged in, and its problems."""

        async def answer(request: Request) -> Response:
            if request.scope.get(IS_ANONYMOUS):
                query = f"?{request.url.query}" if request.url.query else ""
                return self._login(console_path(quote(request.scope["path"]) + query))
            try:
                values = await self._pages[name](request)
            except Exception as error:
                problem = problem_of(request, error)
                if problem.status == 500:
                    raise
                return self._problem(problem, request.query_params.get("q", ""))
            problem = values.get("problem")
            template = "health.html" if name == "checks" else name
            return self._render(template, values, 200 if problem is None else problem.status)

        return answer

    def _from_form(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that only answers forms of this server's pages."""

        async def answer(request: Request) -> Response:
            host = NetworkLocation.parse(request.headers.get("host", ""))
            if host is not None and is_same_origin(request.headers.get("origin", ""), host):
                return await endpoint(request)
            return self._problem(
                ProblemError(403, "this form must be sent from a page of this server")
            )

        return answer

    async def _why(self, request: Request) -> Response:
        """Redirect to a tool's page, with the request."""
        query = dict(request.query_params)
        path = tool_path(query.pop("tool", "").strip())
        return _redirect(f"{path}?{urlencode(query, errors='replace')}")

    async def _log_in(self, request: Request) -> Response:
        """Open a session, and redirect to the requested page."""
        form = parse_qs((await request.body()).decode("latin-1"), errors="replace")
        back = console_path(form.get("next", ["/"])[0])
        session = self._sessions.log_in(form.get("token", [""])[0])
        if session is None:
            return self._login(back, "That is not this server's token.")
        # If a proxy provides TLS, only the browser knows about it.
        is_secure = request.headers["origin"].startswith("https:")
        return self._logged_in(request, session, back, is_secure=is_secure)

    async def _enter(self, request: Request) -> Response:
        """Open a session for the first user of an invitation."""
        if not request.scope.get(IS_ANONYMOUS):
            return _redirect("/")
        code = request.query_params.get("code", "")
        session = self._sessions.accept(code) if request.method == "GET" else None
        if session is not None:
            return self._logged_in(request, session, "/", is_secure=False)
        return self._login(
            "/", "This address works only once, and has already been used. Was that not you?"
        )

    def _logged_in(self, request: Request, session: str, back: str, *, is_secure: bool) -> Response:
        response = _redirect(back)
        response.set_cookie(
            self._sessions.cookie(request.scope),
            session,
            httponly=True,
            samesite="strict",
            secure=is_secure,
        )
        return response

    async def _log_out(self, request: Request) -> Response:
        self._sessions.log_out(request.scope)
        response = _redirect("/")
        name = self._sessions.cookie(request.scope)
        response.delete_cookie(name, httponly=True, samesite="strict")
        return response

    async def _static(self, request: Request) -> Response:
        """Return a static file, which requires no login."""
        name = request.path_params["name"]
        folder = files(__package__).joinpath("static")
        file = next((it for it in folder.iterdir() if it.name == name), None)
        if file is None:
            raise ProblemError(404, "there is no such file")
        headers = {**_HEADERS, "Cache-Control": "max-age=300"}
        media_type = _TYPES[PurePath(name).suffix]
        return Response(file.read_bytes(), media_type=media_type, headers=headers)

    def _problem(self, problem: ProblemError, query: str = "") -> Response:
        values = {"problem": problem, "query": query}
        return self._render("problem.html", values, problem.status, problem.headers)

    def _login(self, back: str, failure: str = "") -> Response:
        values = {"back": back, "failure": failure, "has_token": False}
        headers = {"WWW-Authenticate": 'Bearer realm="pytools"'}
        return self._render("login.html", values, 401, headers)

    def _render(
        self,
        template: str,
        values: Mapping[str, Any],
        status: int,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        content = self._templates.get_template(template).render(
            {"has_token": self._has_token, **values}
        )
        return HTMLResponse(
            content, status, headers={**_HEADERS, "Cache-Control": "no-store", **(headers or {})}
        )


def tool_path(id_: str) -> str:
    """Return the path of a tool's page."""
    return f"/console/tools/{quote(id_, errors='replace')}"


def console_path(target: str) -> str:
    """Return a console path with its query, or `/` for any other address."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "/"
    is_own = not parts.scheme and not parts.netloc and _is_console_path(parts.path)
    return urlunsplit(("", "", parts.path, parts.query, "")) if is_own else "/"


def _is_console_path(path: str) -> bool:
    return path == "/" or path.startswith("/console/")


def _readable(value: object) -> object:
    # Markup is a string too, but it was made from readable text.
    return readable(value) if type(value) is str else value


def _redirect(path: str) -> Response:
    return RedirectResponse(path, 303, headers=_HEADERS)
