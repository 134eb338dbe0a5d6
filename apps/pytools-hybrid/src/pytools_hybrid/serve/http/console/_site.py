"""The pages: who may see them, what browsers may do with them, and what errors look like."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pytools_hybrid.serve.http._access import IS_ANONYMOUS, NetworkLocation, is_same_origin
from pytools_hybrid.serve.http._problems import ProblemError, problem_of
from pytools_hybrid.serve.http.console._console import console_path, tool_path
from pytools_hybrid.serve.http.console._health import HealthPage
from pytools_hybrid.serve.http.console._pages import catalogue_page, search_page, tool_page
from pytools_hybrid.serve.http.console._usage import UsagePage
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from pytools_hybrid.serve.http._api import SearchEndpoints
    from pytools_hybrid.serve.http.console._console import Sessions

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


class Site:
    """Answers the requests of browsers.

    Args:
        searches: Runs searches, and counts them.
        sessions: Who has logged in.
        has_token: Whether a token is needed to log in.
    """

    def __init__(self, searches: SearchEndpoints, sessions: Sessions, *, has_token: bool) -> None:
        self._sessions = sessions
        self._searches = searches
        self._usage = UsagePage(searches.service.search)
        self._health = HealthPage(searches.service.search)
        self._has_token = has_token
        self._templates = Environment(
            loader=PackageLoader("pytools_hybrid.serve.http.console"),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
            # Escaping alone would allow invisible characters, and those that reverse the text.
            finalize=_readable,
        )
        self._templates.filters["tool_path"] = tool_path

    async def search(self, request: Request) -> Response:
        """Answer `GET /`."""
        make = partial(search_page, request, self._searches)
        return await self._page(request, "search.html", make)

    async def catalogue(self, request: Request) -> Response:
        """Answer `GET /console/tools`."""
        make = partial(catalogue_page, request, self._searches)
        return await self._page(request, "catalogue.html", make)

    async def tool(self, request: Request) -> Response:
        """Answer `GET /console/tools/{id}`."""
        make = partial(tool_page, request, self._searches)
        return await self._page(request, "tool.html", make)

    async def why(self, request: Request) -> Response:
        """Answer `GET /console/why`: redirect to a tool's page, with the request."""
        asked = dict(request.query_params)
        there = tool_path(asked.pop("tool", "").strip())
        query = urlencode(asked, errors="replace")
        return RedirectResponse(f"{there}?{query}", HTTPStatus.SEE_OTHER, headers=_HEADERS)

    async def use(self, request: Request) -> Response:
        """Answer `GET /console/use`."""
        return await self._page(request, "use.html", partial(self._usage.values, request))

    async def health(self, request: Request) -> Response:
        """Answer `GET /console/health`."""
        return await self._page(request, "health.html", partial(self._health.values, request))

    async def checks(self, request: Request) -> Response:
        """Answer `POST /console/health/checks`: run all checks of doctor."""
        if (foreign := _foreign(request)) is not None:
            return self._problem(foreign)
        return await self._page(request, "health.html", partial(self._health.check_all, request))

    async def log_in(self, request: Request) -> Response:
        """Answer `POST /console/login`: open a session, and redirect to the requested page."""
        if (foreign := _foreign(request)) is not None:
            return self._problem(foreign)
        form = parse_qs((await request.body()).decode("latin-1"), errors="replace")
        back = console_path(form.get("next", ["/"])[0])
        # The right token is never refused: behind a proxy, all users have the same address, and
        # one of them may be guessing.
        name = self._sessions.open(form.get("token", [""])[0])
        if name is None and self._sessions.is_guess(request.scope):
            told = "That is not this server's token either. Wait a second, then try again."
            return self._login(back, told, HTTPStatus.TOO_MANY_REQUESTS)
        if name is None:
            return self._login(back, "That is not this server's token.")
        # If a proxy provides TLS, only the browser knows about it.
        is_secure = request.headers["origin"].startswith("https:")
        return self._logged_in(request, name, back, is_secure=is_secure)

    async def enter(self, request: Request) -> Response:
        """Answer `GET /console/enter`: open a session for the first user of an invitation."""
        is_asked = request.method == "GET" and request.scope.get(IS_ANONYMOUS)
        code = request.query_params.get("code", "")
        name = self._sessions.accept(code) if is_asked else None
        if name is not None:
            return self._logged_in(request, name, "/", is_secure=False)
        if request.scope.get(IS_ANONYMOUS):
            return self._login(
                "/", "This address works only once, and has already been used. Was that not you?"
            )
        return RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=_HEADERS)

    def _logged_in(self, request: Request, session: str, back: str, *, is_secure: bool) -> Response:
        response = RedirectResponse(back, HTTPStatus.SEE_OTHER, headers=_HEADERS)
        response.set_cookie(
            self._sessions.cookie(request.scope),
            session,
            httponly=True,
            samesite="strict",
            secure=is_secure,
        )
        return response

    async def log_out(self, request: Request) -> Response:
        """Answer `POST /console/logout`."""
        if (foreign := _foreign(request)) is not None:
            return self._problem(foreign)
        self._sessions.close(request.scope)
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=_HEADERS)
        response.delete_cookie(
            self._sessions.cookie(request.scope), httponly=True, samesite="strict"
        )
        return response

    async def static(self, request: Request) -> Response:
        """Answer `GET /console/static/{name}`, which requires no login."""
        name = request.path_params["name"]
        folder = files(__package__).joinpath("static")
        file = next((it for it in folder.iterdir() if it.name == name), None)
        if file is None:
            raise ProblemError(404, "there is no such file")
        headers = {**_HEADERS, "Cache-Control": "max-age=300"}
        return Response(
            file.read_bytes(), media_type=_TYPES[PurePath(name).suffix], headers=headers
        )

    async def _page(
        self, request: Request, template: str, make: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> Response:
        if request.scope.get(IS_ANONYMOUS):
            query = f"?{request.url.query}" if request.url.query else ""
            return self._login(console_path(quote(request.scope["path"]) + query))
        try:
            values = await make()
        except Exception as error:
            problem = problem_of(request, error)
            if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return self._problem(problem, request.query_params.get("q", ""))
        shown: ProblemError | None = values.get("problem")
        return self._render(template, values, HTTPStatus.OK if shown is None else shown.status)

    def _problem(self, problem: ProblemError, query: str = "") -> Response:
        values = {"problem": problem, "query": query}
        return self._render("problem.html", values, problem.status, headers=problem.headers)

    def _login(
        self, back: str, failure: str = "", status: int = HTTPStatus.UNAUTHORIZED
    ) -> Response:
        values = {"back": back, "failure": failure, "has_token": False}
        is_early = status == HTTPStatus.TOO_MANY_REQUESTS
        headers = (
            {"Retry-After": "1"} if is_early else {"WWW-Authenticate": 'Bearer realm="pytools"'}
        )
        return self._render("login.html", values, status, headers=headers)

    def _render(
        self,
        template: str,
        values: Mapping[str, Any],
        status: int,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        content = self._templates.get_template(template).render(
            {"has_token": self._has_token, **values}
        )
        return HTMLResponse(
            content, status, headers={**_HEADERS, "Cache-Control": "no-store", **(headers or {})}
        )


def _readable(value: object) -> object:
    # Markup is a string too, but it was made from readable text.
    return readable(value) if type(value) is str else value


def _foreign(request: Request) -> ProblemError | None:
    """Return an error if a form does not come from a page of this server."""
    host = NetworkLocation.parse(request.headers.get("host", ""))
    origin = request.headers.get("origin", "")
    if host is not None and is_same_origin(origin, host):
        return None
    return ProblemError(403, "this form must be sent from a page of this server")
