"""Who has logged in: sessions identified by a cookie, only kept in memory."""

from __future__ import annotations

import hmac
import secrets
import time
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

if TYPE_CHECKING:
    from starlette.types import Scope

_SECONDS = 12 * 60 * 60
_MOST = 1_000
# It is among the browser's arguments, which other users may see.
_INVITED_SECONDS = 10 * 60
_AFTER_A_WRONG_ONE = 1.0


class Sessions:
    """Opens sessions for people who have the token or an invitation.

    A session ends after twelve hours, or with the server. The right token always opens one. Of the
    wrong ones, those within a second after another from the same address are known as guesses:
    that does not slow guessing, but logs and proxies see it.

    Args:
        token: The token, or None if nobody needs one.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token is not None else None
        # Oldest first.
        self._ends: dict[str, float] = {}
        self._invitations: dict[str, float] = {}
        # Until when another wrong token is a guess, by the address that sent one.
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
        """Return whether a wrong token follows another one that the address has just sent."""
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
    """Add a time, in place of the oldest one if there are too many."""
    while len(times) >= _MOST:
        del times[next(iter(times))]
    times[name] = until
