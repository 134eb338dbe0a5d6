"""Who may send requests: the address to bind to, allowed host names, and the token."""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Protocol

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.serve.http._hosts import HostRule, NetworkLocation, is_loopback, parse_allowed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pytools_hybrid.serve.http._problems import ProblemError
    from pytools_hybrid.settings import Settings

PUBLIC = "pytools.public"
"""The key that marks the scope of a request without the token."""

LET_IN = "pytools.let_in"
"""The key in a scope's state for the function to call when the request is accepted."""

_HEALTH = "/health"
# Where MCP clients look for OAuth after a 401; another 401 would make them try it.
_OAUTH = frozenset({"/authorize", "/register", "/token"})
_WELL_KNOWN = "/.well-known/"


def check_exposure(settings: Settings) -> None:
    """Refuse to listen to other machines, or to call tools over HTTP, without a token.

    Raises:
        SettingsError: There is no token, although the address is not a loopback one or tools can be
            called; or an allowed name is invalid.
    """
    if settings.transport != "http":
        return
    for name in settings.allowed_hosts:
        parse_allowed(name)
    if settings.token is None and not is_loopback(settings.host):
        raise SettingsError(
            "--host / PYTOOLS_HOST",
            f"{settings.host} can be reached from other machines: set a token, PYTOOLS_TOKEN, or "
            "leave the address at 127.0.0.1",
        )
    if settings.token is None and settings.tools == "call":
        raise SettingsError(
            "--tools call",
            "over HTTP every user of this machine could call your tools: set a token, "
            "PYTOOLS_TOKEN",
        )


class Pages(Protocol):
    """Pages that people log in to."""

    def owns(self, path: str, /) -> bool:
        """Return whether a path belongs to the pages."""
        ...

    def is_logged_in(self, scope: Scope) -> bool:
        """Return whether a request has the cookie of an open session."""
        ...


class Gate:
    """Passes on requests that are addressed to this server and have its token.

    Requests with the token come first: of all others, including those for the login page, only one
    starts at a time, so that even hundreds of connections leave the event loop free.

    Args:
        hosts: The allowed names.
        token: The token that clients must send; None if anyone may send requests.
        console: The pages that take a login instead of the token; None if there are none.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: HostRule, token: str | None, console: Pages | None = None
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._console = console
        self._token = token.encode() if token is not None else None
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with what is wrong with it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is None and PUBLIC not in scope:
            scope.get("state", {}).get(LET_IN, _nobody_waits)()
        else:
            async with self._turn:
                await asyncio.sleep(0)
        if problem is None:
            await self._app(scope, receive, send)
            return
        response = problem.response(scope)
        # The body is not read, and would otherwise keep the connection open.
        response.headers["Connection"] = "close"
        await response(scope, receive, send)

    def _problem(self, scope: Scope) -> ProblemError | None:
        from pytools_hybrid.serve.http._problems import ProblemError

        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        host = NetworkLocation.parse(hosts[0]) if len(hosts) == 1 else None
        if host is None or not self._hosts.allows_host(host):
            return ProblemError(421, "that Host is not allowed; allow it with --allowed-host")
        if not all(self._hosts.allows_origin(origin, host) for origin in origins):
            return ProblemError(
                403, "that Origin is not allowed; allow its host with --allowed-host"
            )
        if not origins and _is_embedded(scope):
            return ProblemError(403, "pages of other servers may only link to this one")
        if self._token is None or self._has_token(scope):
            return None
        console = self._console
        if console is not None and console.owns(scope["path"]):
            # The cookie is not valid for other paths, so no other page can call a tool with it.
            if not console.is_logged_in(scope):
                scope[PUBLIC] = True
            return None
        if scope["path"] == _HEALTH and not _values(scope, b"authorization"):
            scope[PUBLIC] = True
            return None
        if scope["path"] in _OAUTH or _WELL_KNOWN in scope["path"]:
            return ProblemError(
                404, "this server has no OAuth; send its token as 'Authorization: Bearer TOKEN'"
            )
        return ProblemError(
            401,
            "send the server's token, as 'Authorization: Bearer TOKEN'",
            headers={"WWW-Authenticate": 'Bearer realm="pytools"'},
        )

    def _has_token(self, scope: Scope) -> bool:
        given = _values(scope, b"authorization")
        if self._token is None or len(given) != 1:
            return False
        scheme, _, token = given[0].partition(" ")
        is_right = hmac.compare_digest(token.strip().encode("latin-1"), self._token)
        return is_right and scheme.lower() == "bearer"


def _is_embedded(scope: Scope) -> bool:
    """Return whether another site's page loads this, for example as an image or a frame.

    The browser would hide the answer from that page, but the request would be in the usage record.
    """
    is_foreign = not {"cross-site", "same-site"}.isdisjoint(_values(scope, b"sec-fetch-site"))
    return is_foreign and _values(scope, b"sec-fetch-dest") != ["document"]


def _nobody_waits() -> None:
    return


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
