"""Who has logged in: sessions identified by a cookie, only kept in memory."""

from __future__ import annotations

import hmac
import secrets
import time
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

_SECONDS = 12 * 60 * 60
_MOST = 1_000
# It is among the arguments of the browser, which others may see.
_INVITED_SECONDS = 10 * 60


class Sessions:
    """Opens sessions for people who have the token or an invitation.

    A session ends after twelve hours, or with the server.

    Args:
        token: The token, or None if nobody needs one.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, token: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token.encode() if token is not None else None
        self._clock = clock
        # Oldest first.
        self._ends: dict[str, float] = {}
        self._invitations: dict[str, float] = {}

    def invite(self) -> str:
        """Return a code that opens a single session, within ten minutes."""
        code = secrets.token_urlsafe(32)
        self._invitations[code] = self._clock() + _INVITED_SECONDS
        return code

    def accept(self, code: str) -> str | None:
        """Return the name of a new session, or None if the code is invalid, used or too old."""
        until = self._invitations.pop(code, None)
        return None if until is None or self._clock() > until else self._new()

    def open(self, token: str) -> str | None:
        """Return the name of a new session, or None if the token is wrong."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token):
            return None
        return self._new()

    def _new(self) -> str:
        while len(self._ends) >= _MOST:
            del self._ends[next(iter(self._ends))]
        name = secrets.token_urlsafe(32)
        self._ends[name] = self._clock() + _SECONDS
        return name

    def close(self, scope: Scope) -> None:
        """End the session of a request."""
        self._ends.pop(self._named(scope), None)

    def opened_by(self, scope: Scope) -> bool:
        """Return whether a request belongs to an open session."""
        name = self._named(scope)
        if self._ends.get(name, 0.0) > self._clock():
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
