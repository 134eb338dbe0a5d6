"""Who may send requests: the address to bind to, allowed host names, and the token.

Host names are checked because a web page can make a name of its own point to this machine (DNS
rebinding).
"""

from __future__ import annotations

import asyncio
import hmac
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, Self

from pytools_hybrid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pytools_hybrid.serve.http._problems import ProblemError
    from pytools_hybrid.serve.http.console import Console
    from pytools_hybrid.settings import Settings

IS_ANONYMOUS = "pytools.is_anonymous"
"""The key that marks the scope of a request without the token."""

ON_ACCEPTED = "pytools.on_accepted"
"""The key in a scope's state for the function to call when the request is accepted."""

# Where MCP clients look for OAuth after a 401; another 401 would make them try it.
_OAUTH = frozenset({"/authorize", "/register", "/token"})
_WELL_KNOWN = "/.well-known/"
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/?#@*\[\]]+))(?::([0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class NetworkLocation(NamedTuple):
    """A host and its port, as in a `Host` header.

    Attributes:
        name: The host in lower case, an IPv6 address without brackets.
    """

    name: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse `example.org`, `127.0.0.1:8000` or `[::1]:8000`; return None for anything else."""
        match = _AUTHORITY.fullmatch(text.strip())
        if match is None:
            return None
        address, name, port = match.groups()
        if address is not None and not _is_address(address):
            return None
        return cls((address or name).lower().rstrip("."), int(port) if port else None)

    @classmethod
    def of_origin(cls, origin: str) -> Self | None:
        """Parse an `Origin` header; return None if it has no host, such as `null`."""
        scheme, _, rest = origin.strip().partition("://")
        location, port = cls.parse(rest), _DEFAULT_PORTS.get(scheme.lower())
        if location is None or port is None:
            return None
        return location._replace(port=location.port or port)

    @classmethod
    def allowed(cls, name: str) -> Self:
        """Parse an allowed name; brackets are optional around an IPv6 address.

        Raises:
            SettingsError: It is not a host name.
        """
        location = cls(name.lower(), None) if _is_address(name) else cls.parse(name)
        if location is None:
            raise SettingsError(
                "PYTOOLS_ALLOWED_HOSTS",
                f"{name!r} is not a host name; give it as in 'tools.example.org'",
            )
        return location

    @property
    def is_loopback(self) -> bool:
        """Whether it is always this machine, whatever DNS says."""
        is_address = _is_address(self.name)
        return ip_address(self.name).is_loopback if is_address else self.name == "localhost"


class HostRule:
    """Decides which host names, and pages of which origins, may address a server.

    A server at a loopback address only answers to loopback names, at any port, and to allowed
    names; any other server answers to every name, unless allowed names are given. A page may send
    requests if its own host is such a name; where every name is allowed, only to its own host.

    Args:
        bound: The address of the server.
        allowed: Additional names; one with a port only allows that port.
    """

    def __init__(self, bound: str, allowed: Iterable[str]) -> None:
        own = NetworkLocation(bound.lower(), None)
        self._allowed = {own, *map(NetworkLocation.allowed, allowed)}
        self._allows_all = not own.is_loopback and len(self._allowed) == 1

    def allows_host(self, host: NetworkLocation) -> bool:
        """Return whether requests may have this `Host` header."""
        return self._allows_all or self._is_known(host)

    def allows_origin(self, origin: str, host: NetworkLocation) -> bool:
        """Return whether a page of an origin may send a request to a host."""
        location = NetworkLocation.of_origin(origin)
        if location is None or self._allows_all or not self._is_known(location):
            return is_same_origin(origin, host)
        return True

    def _is_known(self, host: NetworkLocation) -> bool:
        same = {host, NetworkLocation(host.name, None)}
        return host.is_loopback or not self._allowed.isdisjoint(same)


def is_same_origin(origin: str, host: NetworkLocation) -> bool:
    """Return whether a page comes from the host that its request is sent to."""
    location = NetworkLocation.of_origin(origin)
    ports = _DEFAULT_PORTS.values() if host.port is None else (host.port,)
    return location is not None and location.name == host.name and location.port in ports


def check_exposure(settings: Settings) -> None:
    """Refuse to listen to other machines, or to call tools over HTTP, without a token.

    Raises:
        SettingsError: There is no token, although the address is not a loopback one or tools can be
            called; or an allowed name is invalid.
    """
    if settings.transport != "http":
        return
    for name in settings.allowed_hosts:
        NetworkLocation.allowed(name)
    if settings.token is not None:
        return
    if not NetworkLocation(settings.host.lower(), None).is_loopback:
        raise SettingsError(
            "--host / PYTOOLS_HOST",
            f"{settings.host} can be reached from other machines: set a token, PYTOOLS_TOKEN, or "
            "leave the address at 127.0.0.1",
        )
    if settings.tools == "call":
        raise SettingsError(
            "--profile call",
            "over HTTP every user of this machine could call your tools: set a token, "
            "PYTOOLS_TOKEN",
        )


class AccessMiddleware:
    """Passes on requests that are addressed to this server and have its token.

    Requests with the token come first: of all others, including those for the login page, only one
    starts at a time, so that even hundreds of connections leave the event loop free.

    Args:
        hosts: The allowed names.
        token: The token that clients must send; None if anyone may send requests.
        console: The pages that take a login instead of the token; None if there are none.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: HostRule, token: str | None, console: Console | None
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
        if problem is not None or IS_ANONYMOUS in scope:
            async with self._turn:
                await asyncio.sleep(0)
        elif (accepted := scope.get("state", {}).get(ON_ACCEPTED)) is not None:
            accepted()
        if problem is None:
            await self._app(scope, receive, send)
            return
        response = problem.response(scope)
        # The body is not read, and would otherwise keep the connection open.
        response.headers["Connection"] = "close"
        await response(scope, receive, send)

    def _problem(self, scope: Scope) -> ProblemError | None:
        from pytools_hybrid.serve.http._problems import ProblemError

        names, origins = _values(scope, b"host"), _values(scope, b"origin")
        host = NetworkLocation.parse(names[0]) if len(names) == 1 else None
        if host is None or not self._hosts.allows_host(host):
            return ProblemError(
                421, "that Host is not allowed; allow it with PYTOOLS_ALLOWED_HOSTS"
            )
        if not all(self._hosts.allows_origin(origin, host) for origin in origins):
            return ProblemError(
                403, "that Origin is not allowed; allow its host with PYTOOLS_ALLOWED_HOSTS"
            )
        if not origins and _is_embedded(scope):
            return ProblemError(403, "pages of other servers may only link to this one")
        path, given = scope["path"], _values(scope, b"authorization")
        if self._token is None or self._is_token(given):
            return None
        if self._console is not None and self._console.owns(path):
            # The cookie is not valid for other paths, so no other page can call a tool with it.
            if not self._console.is_logged_in(scope):
                scope[IS_ANONYMOUS] = True
            return None
        if path == "/health" and not given:
            scope[IS_ANONYMOUS] = True
            return None
        if path in _OAUTH or _WELL_KNOWN in path:
            return ProblemError(
                404, "this server has no OAuth; send its token as 'Authorization: Bearer TOKEN'"
            )
        return ProblemError(
            401,
            "send the server's token, as 'Authorization: Bearer TOKEN'",
            headers={"WWW-Authenticate": 'Bearer realm="pytools"'},
        )

    def _is_token(self, given: list[str]) -> bool:
        if self._token is None or len(given) != 1:
            return False
        scheme, _, token = given[0].partition(" ")
        is_right = hmac.compare_digest(token.strip().encode("latin-1"), self._token)
        return is_right and scheme.lower() == "bearer"


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_embedded(scope: Scope) -> bool:
    """Return whether another site's page loads this, for example as an image or a frame.

    The browser would hide the answer from that page, but the request would be in the usage record.
    """
    is_foreign = not {"cross-site", "same-site"}.isdisjoint(_values(scope, b"sec-fetch-site"))
    return is_foreign and _values(scope, b"sec-fetch-dest") != ["document"]


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
